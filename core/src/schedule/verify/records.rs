//! First pass: every record by itself, for all sizes.

mod steps;

use super::super::check::{Check, Reader};
use super::super::error::Reason;
use super::super::record::*;
use super::MAX_ENTRIES;
use crate::dtype::DType;
use crate::op::OpDescriptor;
use crate::wide;
use crate::{MAX_INPUTS, MAX_OUTPUTS, MAX_RANK, NONE};

/// Checks the records; gives the texts of the program.
pub(super) fn check<'p>(r: &Reader<'_, 'p>, ops: &[&'static OpDescriptor]) -> Check<&'p str> {
    let strings = texts(r, r.p.strings, SectionId::Strings)?;
    symbols(r, strings)?;
    exprs(r)?;
    guards(r)?;
    weights(r, strings)?;
    values(r, strings)?;
    signatures(r, ops)?;
    entries(r, strings)?;
    steps::steps(r, ops)?;
    ancillary(r, strings)?;
    Ok(strings)
}

/// A section of text. It is checked once as a whole: ranges then only have to begin and end between characters,
/// and many long names that share bytes cost no more than one.
fn texts<'p>(r: &Reader<'_, '_>, bytes: &'p [u8], section: SectionId) -> Check<&'p str> {
    core::str::from_utf8(bytes)
        .map_err(|e| r.at(section, 0).refuse_wide(Reason::Text, bytes.len() as u64, e.valid_up_to() as u64))
}

fn symbols(r: &Reader<'_, '_>, strings: &str) -> Check {
    for (id, s) in r.p.symbols.iter() {
        r.at(SectionId::Symbols, id);
        if s.kind == symbol_kind::PRODUCED {
            return r.fail(Reason::Reserved, symbol_kind::COUNTER, s.kind);
        }
        r.code(symbol_kind::COUNTER, s.kind)?;
        r.code(symbol_change::RUN, s.change)?;
        r.zero(s.flags)?;
        if s.low > s.high {
            return r.fail_wide(Reason::SymbolBounds, s.high, s.low);
        }
        if s.multiple_of == 0 {
            return r.fail(Reason::ZeroDivisor, 1u32, 0u32);
        }
        r.text(strings, s.name)?;
        if s.kind == symbol_kind::COUNTER {
            let step = r.step(s.source)?;
            if step.kind != step_kind::LOOP || step.counter != id {
                return r.fail(Reason::Counter, id, step.counter);
            }
        } else if s.source != NONE {
            let v = r.value(s.source)?;
            let integer = v.dtype == DType::I32.code() || v.dtype == DType::I64.code();
            if v.role != role::INPUT || !integer || v.rank != 0 || v.view != view::NONE {
                return r.fail(Reason::Role, role::INPUT, v.role);
            }
        }
    }
    Ok(())
}

/// The counter of a loop that an expression is, or `NONE`: those are read by `Size` alone and never part of a size.
fn counter_of(r: &Reader<'_, '_>, expr: u32) -> Check<u32> {
    let e = r.expr(expr)?;
    let counter = e.op == expr_op::SYMBOL && r.symbol(e.a)?.kind == symbol_kind::COUNTER;
    Ok(if counter { e.a } else { NONE })
}

/// `expr` exists and does not depend on a counter.
#[inline(never)]
fn size_expr(r: &Reader<'_, '_>, expr: u32) -> Check {
    r.within(expr, r.p.exprs.count())?;
    if counter_of(r, expr)? == NONE { Ok(()) } else { r.fail(Reason::Counter, 0u32, expr) }
}

fn exprs(r: &Reader<'_, '_>) -> Check {
    for (id, e) in r.p.exprs.iter() {
        r.at(SectionId::Exprs, id);
        r.code(expr_op::SUB, e.op)?;
        r.zero(e.reserved.iter().map(|b| u32::from(*b)).sum::<u32>())?;
        let operand = |of: u64| match u32::try_from(of) {
            Ok(o) if o < id => size_expr(r, o),
            _ => r.fail_wide(Reason::ExprOrder, id, of),
        };
        match e.op {
            expr_op::CONSTANT => r.zero(e.a)?,
            expr_op::SYMBOL => {
                r.within(e.a, r.p.symbols.count())?;
                r.zero_wide(e.b)?;
            }
            _ => operand(e.a.into())?,
        }
        match e.op {
            expr_op::ADD | expr_op::MUL | expr_op::MIN | expr_op::MAX => operand(e.b)?,
            expr_op::DIV_FLOOR | expr_op::DIV_CEIL if e.b == 0 => {
                return r.fail(Reason::ZeroDivisor, 1u32, 0u32);
            }
            _ => {}
        }
    }
    Ok(())
}

fn guards(r: &Reader<'_, '_>) -> Check {
    for (id, g) in r.p.guards.iter() {
        r.at(SectionId::Guards, id);
        r.code(1u32, g.relation)?;
        r.zero(g.reserved)?;
        size_expr(r, g.a)?;
        size_expr(r, g.b)?;
    }
    Ok(())
}

fn weights(r: &Reader<'_, '_>, strings: &str) -> Check {
    let (mut end, total) = (r.p.header.meta_bytes, r.p.total_bytes);
    for (id, w) in r.p.weights.iter() {
        r.at(SectionId::Weights, id).text(strings, w.name)?;
        if w.flags == 1 {
            return r.fail(Reason::Reserved, 0u32, 1u32);
        }
        r.zero_wide(u64::from(w.flags) | u64::from(w.reserved) | w.reserved2)?;
        if !w.offset.is_multiple_of(WEIGHT_ALIGN) {
            return r.fail_wide(Reason::Alignment, WEIGHT_ALIGN, w.offset);
        }
        let stop = w.offset.saturating_add(w.bytes);
        // The last number stands for what does not fit.
        if w.offset < end || stop > total || stop == u64::MAX {
            return r.fail_wide(Reason::WeightRange, total, stop);
        }
        end = stop;
    }
    Ok(())
}

fn values(r: &Reader<'_, '_>, strings: &str) -> Check {
    for (id, v) in r.p.values.iter() {
        r.at(SectionId::Values, id);
        if DType::from_code(v.dtype).is_none() {
            return r.fail(Reason::DType, DType::ALL.len() as u32, v.dtype);
        }
        if v.layout != 0 {
            return r.fail(Reason::Reserved, 0u32, v.layout);
        }
        r.code(role::DERIVED, v.role)?;
        r.code(MAX_RANK as u32, v.rank)?;
        r.code(view::PART, v.view)?;
        let flags = if v.role == role::INPUT { value_flag::KEEP } else { 0 };
        r.zero(u32::from(v.flags & !flags) | v.reserved)?;
        r.text(strings, v.name)?;
        for d in r.dims(v)? {
            size_expr(r, *d)?;
        }
        data(r, v)?;
        match v.view {
            view::NONE if v.root == id => r.none(v.start)?,
            view::NONE => return r.fail(Reason::Root, id, v.root),
            _ => view_of(r, id, v)?,
        }
        if !matches!(v.view, view::WINDOW | view::PART) {
            r.none(v.start)?;
            r.zero(v.axis)?;
        }
        if v.view != view::WINDOW {
            r.none(v.counter)?;
        }
        if v.counter == NONE {
            r.none(v.counter_stride)?;
        }
        if v.view != view::PART {
            r.zero(v.part | v.parts)?;
        }
    }
    Ok(())
}

/// Where the initial bytes of a value are.
fn data(r: &Reader<'_, '_>, v: &Value) -> Check {
    let has_data = match v.role {
        _ if v.view != view::NONE => false,
        role::CONSTANT | role::WEIGHT => true,
        role::PARAM => v.section != NONE,
        _ => false,
    };
    if !has_data {
        r.none(v.section)?;
        return r.zero_wide(v.data_offset | v.data_bytes);
    }
    let section = r.get(&r.p.weights, v.section)?;
    if !v.data_offset.is_multiple_of(8) {
        return r.fail_wide(Reason::Alignment, 8u32, v.data_offset);
    }
    // A section ends below 2^64, so what saturates lies behind it.
    let end = v.data_offset.saturating_add(v.data_bytes);
    if end > section.bytes {
        return r.fail_wide(Reason::WeightRange, section.bytes, end);
    }
    let mut bytes = Some(DType::from_code(v.dtype).map_or(0, |t| t.size() as u64));
    for d in r.dims(v)? {
        let e = r.expr(*d)?;
        if e.op != expr_op::CONSTANT {
            return r.fail(Reason::Role, expr_op::CONSTANT, e.op);
        }
        bytes = bytes.and_then(|b| wide::mul(b, e.b));
    }
    match bytes {
        Some(b) if b == v.data_bytes => Ok(()),
        Some(b) => r.fail_wide(Reason::WeightRange, b, v.data_bytes),
        None => r.fail_wide(Reason::Overflow, u64::MAX, v.data_bytes),
    }
}

fn view_of(r: &Reader<'_, '_>, id: u32, v: &Value) -> Check {
    let root = r.value(v.root)?;
    if root.view != view::NONE || root.dtype != v.dtype || root.role != v.role {
        return r.fail(Reason::Root, v.root, root.root);
    }
    if v.view == view::RESHAPE {
        return Ok(());
    }
    r.code(v.rank.saturating_sub(1), v.axis)?;
    size_expr(r, v.start)?;
    if v.counter != NONE {
        if r.symbol(v.counter)?.kind != symbol_kind::COUNTER {
            return r.fail(Reason::Counter, symbol_kind::COUNTER, 0u32);
        }
        size_expr(r, v.counter_stride)?;
    }
    if v.view == view::PART { part_of(r, id, v, root) } else { Ok(()) }
}

/// The parts of a root are consecutive values and tile it: each starts where the one before ends.
fn part_of(r: &Reader<'_, '_>, id: u32, v: &Value, root: &Value) -> Check {
    if v.role != role::INTERMEDIATE && v.role != role::DERIVED {
        return r.fail(Reason::Role, role::INTERMEDIATE, v.role);
    }
    let part = u32::from(v.part);
    let wrong = |found: u32| r.fail(Reason::Parts, v.parts, found);
    if v.parts == 0 || v.parts > 64 || v.part >= v.parts || root.rank != v.rank {
        return wrong(part);
    }
    // Whether another value is the part `part` of the same root.
    let is_part =
        |o: &Value, part: u32| o.view == view::PART && o.root == v.root && u32::from(o.part) == part;
    let dim = |v: &Value, axis: u8| r.get(&r.p.dims, v.dims.saturating_add(axis.into())).copied();
    if v.part == 0 {
        let e = r.expr(v.start)?;
        if (e.op, e.b) != (expr_op::CONSTANT, 0) {
            return wrong(v.start);
        }
    } else {
        let before = r.value(id.saturating_sub(1))?;
        if !is_part(before, part - 1) || before.axis != v.axis || before.parts != v.parts {
            return wrong(before.part.into());
        }
        if !is_sum(r, v.start, before.start, dim(before, v.axis)?)? {
            return wrong(v.start);
        }
    }
    if v.part + 1 == v.parts {
        if !is_sum(r, dim(root, v.axis)?, v.start, dim(v, v.axis)?)? {
            return wrong(v.start);
        }
    } else {
        let next = r.value(id.saturating_add(1))?;
        if !is_part(next, part + 1) {
            return wrong(next.part.into());
        }
    }
    Ok(())
}

/// Whether `sum` is, as an expression, `a + b`.
fn is_sum(r: &Reader<'_, '_>, sum: u32, a: u32, b: u32) -> Check<bool> {
    let (s, x, y) = (r.expr(sum)?, r.expr(a)?, r.expr(b)?);
    let constant = |e: &Expr| e.op == expr_op::CONSTANT;
    if (constant(x) && x.b == 0 && sum == b) || (constant(y) && y.b == 0 && sum == a) {
        return Ok(true);
    }
    if constant(s) && constant(x) && constant(y) {
        return Ok(x.b.checked_add(y.b) == Some(s.b));
    }
    let pair = |a: u32, b: u32| s.a == a && s.b == u64::from(b);
    Ok(s.op == expr_op::ADD && (pair(a, b) || pair(b, a)))
}

fn signatures(r: &Reader<'_, '_>, ops: &[&'static OpDescriptor]) -> Check {
    for (id, sig) in r.p.signatures.iter() {
        r.at(SectionId::Signatures, id);
        let op = r.op(ops, sig)?;
        r.zero(sig.variant)?;
        let (n, m) = (usize::from(sig.inputs), usize::from(sig.outputs));
        if n > MAX_INPUTS || m > MAX_OUTPUTS {
            return r.fail(Reason::OperandCount, MAX_INPUTS as u32, n.max(m) as u32);
        }
        let (mut inputs, mut outputs) = ([None; MAX_INPUTS], [DType::F32; MAX_OUTPUTS]);
        for (i, c) in sig.dtypes.iter().enumerate() {
            if i >= n + m {
                r.zero(*c)?;
                continue;
            }
            let t = DType::from_code(*c);
            match (t, inputs.get_mut(i).filter(|_| i < n), outputs.get_mut(i.wrapping_sub(n))) {
                (_, Some(space), _) if t.is_some() || *c == 0 => *space = t,
                (Some(t), None, Some(space)) => *space = t,
                _ => return r.fail(Reason::DType, 1u32, *c),
            }
        }
        if !op.accepts(inputs.get(..n).unwrap_or(&[]), outputs.get(..m).unwrap_or(&[])) {
            let number = u32::from(sig.op) << 16 | u32::from(sig.version);
            return r.fail(Reason::Signature, number, sig.dtypes[0]);
        }
    }
    Ok(())
}

fn entries(r: &Reader<'_, '_>, strings: &str) -> Check {
    let (table, steps) = (&r.p.entries, r.p.steps.count());
    if table.len() > MAX_ENTRIES {
        return r.at(SectionId::Entries, 0).fail(Reason::Bounded, MAX_ENTRIES as u32, table.count());
    }
    let (mut next, mut prepares) = (0u32, 0u32);
    for (id, e) in table.iter() {
        r.at(SectionId::Entries, id);
        r.zero(e.reserved[0] | e.reserved[1])?;
        r.code(entry_kind::PREPARE, e.kind)?;
        if e.kind == entry_kind::PREPARE {
            prepares += 1;
            if prepares > 1 || e.inputs != 0 || e.outputs != 0 {
                return r.fail(Reason::Derived, 1u32, prepares);
            }
        }
        let name = r.text(strings, e.name)?;
        // Those before were checked, so their names are there.
        let before = table.slice(0, id).unwrap_or(&[]);
        let again = before.iter().any(|other| r.text(strings, other.name).is_ok_and(|n| n == name));
        if name.is_empty() || again {
            return r.fail(Reason::EntryName, 1u32, e.name.length);
        }
        if e.first_step != next || e.steps > steps - next {
            return r.fail(Reason::EntryRange, next, e.first_step);
        }
        next += e.steps;
        for v in r.entry_inputs(e)? {
            let v = r.value(*v)?;
            if v.role != role::INPUT || v.view != view::NONE {
                return r.fail(Reason::Role, role::INPUT, v.role);
            }
        }
        for v in r.entry_outputs(e)? {
            let v = r.value(*v)?;
            if v.counter != NONE {
                return r.fail(Reason::Counter, NONE, v.counter);
            }
        }
    }
    if prepares == 0
        && let Some((v, _)) = r.p.values.iter().find(|(_, v)| v.role == role::DERIVED)
    {
        return r.at(SectionId::Values, v).fail(Reason::Derived, 1u32, 0u32);
    }
    if next != steps {
        return r.at(SectionId::Entries, table.count()).fail(Reason::EntryRange, steps, next);
    }
    Ok(())
}

fn ancillary(r: &Reader<'_, '_>, strings: &str) -> Check {
    let p = r.p;
    if !p.block_formats.is_empty() {
        return r.at(SectionId::BlockFormats, 0).fail(Reason::Reserved, 0u32, p.block_formats.count());
    }
    let json = texts(r, p.hint_text, SectionId::HintText)?;
    for (id, h) in p.hints.iter() {
        r.at(SectionId::Hints, id);
        r.within(h.value, p.values.count())?;
        r.zero(h.reserved)?;
        r.text(json, h.text)?;
    }
    for (id, t) in p.self_tests.iter() {
        r.at(SectionId::SelfTests, id);
        r.within(t.entry, p.entries.count())?;
        r.zero(t.reserved)?;
        let w = r.get(&p.weights, t.section)?;
        if t.offset > w.bytes || !t.offset.is_multiple_of(8) {
            return r.fail_wide(Reason::WeightRange, w.bytes, t.offset);
        }
    }
    let mut least = 0;
    for (id, n) in p.debug_names.iter() {
        r.at(SectionId::DebugNames, id);
        // Steps rise from record to record.
        if n.step < least || n.step >= p.steps.count() {
            return r.fail(Reason::Id, least, n.step);
        }
        least = n.step.saturating_add(1);
        r.zero(n.reserved)?;
        r.text(strings, n.name)?;
    }
    for (id, m) in p.metadata.iter() {
        r.at(SectionId::Metadata, id);
        r.text(strings, m.key)?;
        r.text(strings, m.value)?;
    }
    texts(r, p.provenance, SectionId::Provenance).map(|_| ())
}
