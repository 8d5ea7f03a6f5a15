//! First pass: every record by itself, for all sizes.

mod steps;

use super::super::error::{Error, Reason};
use super::super::program::{Program, Table};
use super::super::record::*;
use super::MAX_ENTRIES;
use crate::dtype::DType;
use crate::op::{self, OpDescriptor};
use crate::{MAX_INPUTS, MAX_OUTPUTS, MAX_RANK, NONE};
use heapless::Vec;

type Check = Result<(), Error>;

/// A check that failed at record `id` of `section`.
fn fail(reason: Reason, section: SectionId, id: u32, expected: u64, found: u64) -> Check {
    Err(Error::at(reason, section, id, expected, found))
}

pub(super) fn check(p: &Program<'_>, ops: &[&'static OpDescriptor]) -> Check {
    let strings = texts(p.strings, SectionId::Strings)?;
    symbols(p, strings)?;
    exprs(p)?;
    guards(p)?;
    weights(p, strings)?;
    values(p, strings)?;
    signatures(p, ops)?;
    entries(p, strings)?;
    steps::steps(p, ops)?;
    ancillary(p, strings)
}

fn code(section: SectionId, id: u32, most: u8, found: u8) -> Check {
    if found <= most { Ok(()) } else { fail(Reason::Code, section, id, u64::from(most), u64::from(found)) }
}

fn zero(section: SectionId, id: u32, found: u64) -> Check {
    if found == 0 { Ok(()) } else { fail(Reason::NotZero, section, id, 0, found) }
}

fn within(section: SectionId, id: u32, reference: u32, count: usize) -> Check {
    if (reference as usize) < count {
        Ok(())
    } else {
        fail(Reason::Id, section, id, count as u64, u64::from(reference))
    }
}

fn none(section: SectionId, id: u32, found: u32) -> Check {
    if found == NONE { Ok(()) } else { fail(Reason::NotZero, section, id, u64::from(NONE), u64::from(found)) }
}

/// A section of text. It is checked once as a whole: ranges then only have to begin and end between characters,
/// and many long names that share bytes cost no more than one.
fn texts(bytes: &[u8], section: SectionId) -> Result<&str, Error> {
    core::str::from_utf8(bytes).map_err(|e| {
        let (all, valid) = (bytes.len() as u64, e.valid_up_to() as u64);
        Error::at(Reason::Text, section, 0, all, valid)
    })
}

/// The text `t` of record `id`.
fn text(strings: &str, section: SectionId, id: u32, t: Text) -> Result<&str, Error> {
    let (start, end) = (t.offset as usize, u64::from(t.offset) + u64::from(t.length));
    let range = usize::try_from(end).ok().and_then(|end| strings.get(start..end));
    range.ok_or_else(|| Error::at(Reason::Text, section, id, strings.len() as u64, end))
}

fn symbols(p: &Program<'_>, strings: &str) -> Check {
    let s = SectionId::Symbols;
    for (id, r) in p.symbols.iter() {
        if r.kind == symbol_kind::PRODUCED {
            return fail(Reason::Reserved, s, id, u64::from(symbol_kind::COUNTER), u64::from(r.kind));
        }
        code(s, id, symbol_kind::COUNTER, r.kind)?;
        code(s, id, symbol_change::RUN, r.change)?;
        zero(s, id, u64::from(r.flags))?;
        if r.low > r.high {
            return fail(Reason::SymbolBounds, s, id, r.high, r.low);
        }
        if r.multiple_of == 0 {
            return fail(Reason::ZeroDivisor, s, id, 1, 0);
        }
        text(strings, s, id, r.name)?;
        if r.kind == symbol_kind::COUNTER {
            let step = p.steps.get(r.source)?;
            if step.kind != step_kind::LOOP || step.counter != id {
                return fail(Reason::Counter, s, id, u64::from(id), u64::from(step.counter));
            }
        } else if r.source != NONE {
            let v = p.values.get(r.source)?;
            let integer = v.dtype == DType::I32.code() || v.dtype == DType::I64.code();
            if v.role != role::INPUT || !integer || v.rank != 0 || v.view != view::NONE {
                return fail(Reason::Role, s, id, u64::from(role::INPUT), u64::from(v.role));
            }
        }
    }
    Ok(())
}

/// Whether an expression is the counter of a loop: those are read by `Size` alone and never part of a size.
fn is_counter(p: &Program<'_>, expr: u32) -> Result<bool, Error> {
    let e = p.exprs.get(expr)?;
    Ok(e.op == expr_op::SYMBOL && p.symbols.get(e.a)?.kind == symbol_kind::COUNTER)
}

/// `expr` exists and does not depend on a counter.
fn size_expr(p: &Program<'_>, section: SectionId, id: u32, expr: u32) -> Check {
    within(section, id, expr, p.exprs.len())?;
    if is_counter(p, expr)? { fail(Reason::Counter, section, id, 0, u64::from(expr)) } else { Ok(()) }
}

fn exprs(p: &Program<'_>) -> Check {
    let s = SectionId::Exprs;
    for (id, e) in p.exprs.iter() {
        code(s, id, expr_op::SUB, e.op)?;
        zero(s, id, e.reserved.iter().map(|b| u64::from(*b)).sum())?;
        let operand = |of: u64| match u32::try_from(of).ok().filter(|o| *o < id) {
            Some(o) => size_expr(p, s, id, o),
            None => fail(Reason::ExprOrder, s, id, u64::from(id), of),
        };
        match e.op {
            expr_op::CONSTANT => zero(s, id, u64::from(e.a))?,
            expr_op::SYMBOL => {
                within(s, id, e.a, p.symbols.len())?;
                zero(s, id, e.b)?;
            }
            expr_op::ADD | expr_op::MUL | expr_op::MIN | expr_op::MAX => {
                operand(u64::from(e.a))?;
                operand(e.b)?;
            }
            _ => operand(u64::from(e.a))?,
        }
        if matches!(e.op, expr_op::DIV_FLOOR | expr_op::DIV_CEIL) && e.b == 0 {
            return fail(Reason::ZeroDivisor, s, id, 1, 0);
        }
    }
    Ok(())
}

fn guards(p: &Program<'_>) -> Check {
    let s = SectionId::Guards;
    for (id, g) in p.guards.iter() {
        if g.relation > 1 {
            return fail(Reason::Code, s, id, 1, u64::from(g.relation));
        }
        zero(s, id, u64::from(g.reserved))?;
        size_expr(p, s, id, g.a)?;
        size_expr(p, s, id, g.b)?;
    }
    Ok(())
}

fn weights(p: &Program<'_>, strings: &str) -> Check {
    let s = SectionId::Weights;
    let mut end = p.header.meta_bytes;
    for (id, w) in p.weights.iter() {
        text(strings, s, id, w.name)?;
        if w.flags == 1 {
            return fail(Reason::Reserved, s, id, 0, 1);
        }
        zero(s, id, u64::from(w.flags) | u64::from(w.reserved) | w.reserved2)?;
        if !w.offset.is_multiple_of(WEIGHT_ALIGN) {
            return fail(Reason::Alignment, s, id, WEIGHT_ALIGN, w.offset);
        }
        let stop = w.offset.checked_add(w.bytes).filter(|e| *e <= p.total_bytes && w.offset >= end);
        end = match stop {
            Some(e) => e,
            None => return fail(Reason::WeightRange, s, id, p.total_bytes, w.offset.saturating_add(w.bytes)),
        };
    }
    Ok(())
}

fn values(p: &Program<'_>, strings: &str) -> Check {
    let s = SectionId::Values;
    for (id, v) in p.values.iter() {
        if DType::from_code(v.dtype).is_none() {
            return fail(Reason::DType, s, id, DType::ALL.len() as u64, u64::from(v.dtype));
        }
        if v.layout != 0 {
            return fail(Reason::Reserved, s, id, 0, u64::from(v.layout));
        }
        code(s, id, role::DERIVED, v.role)?;
        code(s, id, MAX_RANK as u8, v.rank)?;
        code(s, id, view::PART, v.view)?;
        let flags = if v.role == role::INPUT { value_flag::KEEP } else { 0 };
        zero(s, id, u64::from(v.flags & !flags) | u64::from(v.reserved))?;
        text(strings, s, id, v.name)?;
        for d in p.value_dims(v)? {
            size_expr(p, s, id, d)?;
        }
        data(p, id, v)?;
        match v.view {
            view::NONE if v.root == id => none(s, id, v.start)?,
            view::NONE => return fail(Reason::Root, s, id, u64::from(id), u64::from(v.root)),
            _ => view_of(p, id, v)?,
        }
        if !matches!(v.view, view::WINDOW | view::PART) {
            none(s, id, v.start)?;
            zero(s, id, u64::from(v.axis))?;
        }
        if v.view != view::WINDOW {
            none(s, id, v.counter)?;
        }
        if v.counter == NONE {
            none(s, id, v.counter_stride)?;
        }
        if v.view != view::PART {
            zero(s, id, u64::from(v.part) | u64::from(v.parts))?;
        }
    }
    Ok(())
}

/// Where the initial bytes of a value are.
fn data(p: &Program<'_>, id: u32, v: &Value) -> Check {
    let s = SectionId::Values;
    let has_data = match v.role {
        _ if v.view != view::NONE => false,
        role::CONSTANT | role::WEIGHT => true,
        role::PARAM => v.section != NONE,
        _ => false,
    };
    if !has_data {
        none(s, id, v.section)?;
        return zero(s, id, v.data_offset | v.data_bytes);
    }
    let section = p.weights.get(v.section)?;
    if !v.data_offset.is_multiple_of(8) {
        return fail(Reason::Alignment, s, id, 8, v.data_offset);
    }
    if v.data_offset.checked_add(v.data_bytes).is_none_or(|e| e > section.bytes) {
        return fail(Reason::WeightRange, s, id, section.bytes, v.data_offset.saturating_add(v.data_bytes));
    }
    let size = DType::from_code(v.dtype).map_or(0, |t| t.size() as u64);
    let mut bytes = Some(size);
    for d in p.value_dims(v)? {
        let e = p.exprs.get(d)?;
        if e.op != expr_op::CONSTANT {
            return fail(Reason::Role, s, id, u64::from(expr_op::CONSTANT), u64::from(e.op));
        }
        bytes = bytes.and_then(|b| b.checked_mul(e.b));
    }
    match bytes {
        Some(b) if b == v.data_bytes => Ok(()),
        Some(b) => fail(Reason::WeightRange, s, id, b, v.data_bytes),
        None => fail(Reason::Overflow, s, id, u64::MAX, v.data_bytes),
    }
}

fn view_of(p: &Program<'_>, id: u32, v: &Value) -> Check {
    let s = SectionId::Values;
    let root = p.values.get(v.root)?;
    if root.view != view::NONE || root.dtype != v.dtype || root.role != v.role {
        return fail(Reason::Root, s, id, u64::from(v.root), u64::from(root.root));
    }
    if v.view == view::RESHAPE {
        return Ok(());
    }
    code(s, id, v.rank.saturating_sub(1), v.axis)?;
    size_expr(p, s, id, v.start)?;
    if v.counter != NONE {
        if p.symbols.get(v.counter)?.kind != symbol_kind::COUNTER {
            return fail(Reason::Counter, s, id, u64::from(symbol_kind::COUNTER), 0);
        }
        size_expr(p, s, id, v.counter_stride)?;
    }
    if v.view == view::PART { part_of(p, id, v, root) } else { Ok(()) }
}

/// The parts of a root are consecutive values and tile it: each starts where the one before ends.
fn part_of(p: &Program<'_>, id: u32, v: &Value, root: &Value) -> Check {
    let s = SectionId::Values;
    let wrong = |found: u64| fail(Reason::Parts, s, id, u64::from(v.parts), found);
    if v.role != role::INTERMEDIATE && v.role != role::DERIVED {
        return fail(Reason::Role, s, id, u64::from(role::INTERMEDIATE), u64::from(v.role));
    }
    if v.parts == 0 || v.parts > 64 || v.part >= v.parts || root.rank != v.rank {
        return wrong(u64::from(v.part));
    }
    let dim = |v: &Value| p.dims.get(v.dims.saturating_add(u32::from(v.axis))).copied();
    if v.part == 0 {
        let e = p.exprs.get(v.start)?;
        if (e.op, e.b) != (expr_op::CONSTANT, 0) {
            return wrong(u64::from(v.start));
        }
    } else {
        let before = p.values.get(id.saturating_sub(1))?;
        let same = before.view == view::PART && before.root == v.root && before.axis == v.axis;
        if !same || before.parts != v.parts || before.part + 1 != v.part {
            return wrong(u64::from(before.part));
        }
        if !is_sum(p, v.start, before.start, dim(before)?)? {
            return wrong(u64::from(v.start));
        }
    }
    if v.part + 1 == v.parts && !is_sum(p, dim(&Value { axis: v.axis, ..*root })?, v.start, dim(v)?)? {
        return wrong(u64::from(v.start));
    }
    if v.part + 1 < v.parts {
        let next = p.values.get(id.saturating_add(1))?;
        if next.view != view::PART || next.root != v.root || next.part != v.part + 1 {
            return wrong(u64::from(next.part));
        }
    }
    Ok(())
}

/// Whether `sum` is, as an expression, `a + b`.
fn is_sum(p: &Program<'_>, sum: u32, a: u32, b: u32) -> Result<bool, Error> {
    let (s, x, y) = (p.exprs.get(sum)?, p.exprs.get(a)?, p.exprs.get(b)?);
    let constant = |e: &Expr| (e.op == expr_op::CONSTANT).then_some(e.b);
    if constant(x) == Some(0) && sum == b || constant(y) == Some(0) && sum == a {
        return Ok(true);
    }
    if let (Some(s), Some(x), Some(y)) = (constant(s), constant(x), constant(y)) {
        return Ok(x.checked_add(y) == Some(s));
    }
    let pair = (u64::from(s.a), s.b);
    let (a, b) = (u64::from(a), u64::from(b));
    Ok(s.op == expr_op::ADD && (pair == (a, b) || pair == (b, a)))
}

fn signatures(p: &Program<'_>, ops: &[&'static OpDescriptor]) -> Check {
    let s = SectionId::Signatures;
    for (id, sig) in p.signatures.iter() {
        let number = u64::from(sig.op) << 16 | u64::from(sig.version);
        let Some(op) = op::find(ops, sig.op, sig.version) else {
            return fail(Reason::UnknownOp, s, id, 0, number);
        };
        zero(s, id, u64::from(sig.variant))?;
        let (n, m) = (usize::from(sig.inputs), usize::from(sig.outputs));
        if n > MAX_INPUTS || m > MAX_OUTPUTS {
            return fail(Reason::OperandCount, s, id, MAX_INPUTS as u64, n.max(m) as u64);
        }
        let mut inputs: Vec<Option<DType>, MAX_INPUTS> = Vec::new();
        let mut outputs: Vec<DType, MAX_OUTPUTS> = Vec::new();
        for (i, c) in sig.dtypes.iter().enumerate() {
            let t = DType::from_code(*c);
            match t {
                _ if i >= n + m => zero(s, id, u64::from(*c))?,
                None if *c != 0 || i >= n => return fail(Reason::DType, s, id, 1, u64::from(*c)),
                // Both vectors have room: the counts were checked above.
                None => inputs.push(None).unwrap_or_default(),
                Some(t) if i < n => inputs.push(Some(t)).unwrap_or_default(),
                Some(t) => outputs.push(t).unwrap_or_default(),
            }
        }
        if !op.accepts(&inputs, &outputs) {
            return fail(Reason::Signature, s, id, number, u64::from(sig.dtypes[0]));
        }
    }
    Ok(())
}

fn entries(p: &Program<'_>, strings: &str) -> Check {
    let s = SectionId::Entries;
    if p.entries.len() > MAX_ENTRIES {
        return fail(Reason::Bounded, s, 0, MAX_ENTRIES as u64, p.entries.len() as u64);
    }
    let (mut next, mut prepares) = (0u32, 0u64);
    for (id, e) in p.entries.iter() {
        zero(s, id, u64::from(e.reserved[0]) | u64::from(e.reserved[1]))?;
        if e.kind > entry_kind::PREPARE {
            return fail(Reason::Code, s, id, u64::from(entry_kind::PREPARE), u64::from(e.kind));
        }
        if e.kind == entry_kind::PREPARE {
            prepares += 1;
            if prepares > 1 || e.inputs != 0 || e.outputs != 0 {
                return fail(Reason::Derived, s, id, 1, prepares);
            }
        }
        let name = text(strings, s, id, e.name)?;
        let same = |other: &Entry| text(strings, s, id, other.name) == Ok(name);
        if name.is_empty() || p.entries.range(0, id)?.any(|(_, other)| same(other)) {
            return fail(Reason::EntryName, s, id, 1, u64::from(e.name.length));
        }
        if e.first_step != next
            || e.first_step.checked_add(e.steps).is_none_or(|n| n as usize > p.steps.len())
        {
            return fail(Reason::EntryRange, s, id, u64::from(next), u64::from(e.first_step));
        }
        next = e.first_step + e.steps;
        for v in p.entry_inputs(e)? {
            let r = p.values.get(v)?;
            if r.role != role::INPUT || r.view != view::NONE {
                return fail(Reason::Role, s, id, u64::from(role::INPUT), u64::from(r.role));
            }
        }
        for v in p.entry_outputs(e)? {
            let r = p.values.get(v)?;
            if r.counter != NONE {
                return fail(Reason::Counter, s, id, u64::from(NONE), u64::from(r.counter));
            }
        }
    }
    if prepares == 0
        && let Some((v, _)) = p.values.iter().find(|(_, v)| v.role == role::DERIVED)
    {
        return fail(Reason::Derived, SectionId::Values, v, 1, 0);
    }
    if next as usize != p.steps.len() {
        return fail(Reason::EntryRange, s, p.entries.len() as u32, p.steps.len() as u64, u64::from(next));
    }
    Ok(())
}

fn ancillary(p: &Program<'_>, strings: &str) -> Check {
    if !p.block_formats.is_empty() {
        return fail(Reason::Reserved, SectionId::BlockFormats, 0, 0, p.block_formats.len() as u64);
    }
    let json = texts(p.hint_text, SectionId::HintText)?;
    for (id, h) in p.hints.iter() {
        within(SectionId::Hints, id, h.value, p.values.len())?;
        zero(SectionId::Hints, id, u64::from(h.reserved))?;
        text(json, SectionId::Hints, id, h.text)?;
    }
    for (id, t) in p.self_tests.iter() {
        let s = SectionId::SelfTests;
        within(s, id, t.entry, p.entries.len())?;
        zero(s, id, u64::from(t.reserved))?;
        let w = p.weights.get(t.section)?;
        if t.offset > w.bytes || !t.offset.is_multiple_of(8) {
            return fail(Reason::WeightRange, s, id, w.bytes, t.offset);
        }
    }
    ascending(&p.debug_names, p.steps.len(), |n| n.step)?;
    for (id, n) in p.debug_names.iter() {
        zero(SectionId::DebugNames, id, u64::from(n.reserved))?;
        text(strings, SectionId::DebugNames, id, n.name)?;
    }
    for (id, m) in p.metadata.iter() {
        text(strings, SectionId::Metadata, id, m.key)?;
        text(strings, SectionId::Metadata, id, m.value)?;
    }
    texts(p.provenance, SectionId::Provenance).map(|_| ())
}

/// Ids that rise from record to record and stay below `count`.
fn ascending<T: bytemuck::Pod>(table: &Table<'_, T>, count: usize, id_of: impl Fn(&T) -> u32) -> Check {
    let mut least = 0;
    for (id, r) in table.iter() {
        let found = id_of(r);
        if found < least || found as usize >= count {
            return fail(Reason::Id, table.section(), id, u64::from(least), u64::from(found));
        }
        least = found.saturating_add(1);
    }
    Ok(())
}
