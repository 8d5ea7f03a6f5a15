//! Where the operands of steps come from.

use crate::failure::Failure;
use serinette::Model;
use serinette::core::NONE;
use serinette::core::schedule::record::{Entry, expr_op, role, view};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// A number for each expression of a program that is the same in programs that number expressions and symbols otherwise.
pub struct Exprs(Vec<u64>);

impl Exprs {
    pub fn of(model: &Model) -> Result<Exprs, Failure> {
        let program = model.program();
        let mut all: Vec<u64> = Vec::with_capacity(program.exprs.len());
        for (_, e) in program.exprs.iter() {
            // Operands precede the expressions that use them.
            let operand = |i: u64| usize::try_from(i).ok().and_then(|i| all.get(i)).copied();
            let mut h = DefaultHasher::new();
            e.op.hash(&mut h);
            match e.op {
                expr_op::CONSTANT => e.b.hash(&mut h),
                expr_op::SYMBOL => program.text(program.symbols.get(e.a)?.name)?.hash(&mut h),
                expr_op::ADD | expr_op::MUL | expr_op::MIN | expr_op::MAX => {
                    // Their operands may come in either order.
                    let (a, b) = (operand(u64::from(e.a)), operand(e.b));
                    (a.min(b), a.max(b)).hash(&mut h);
                }
                _ => (operand(u64::from(e.a)), e.b).hash(&mut h),
            }
            all.push(h.finish());
        }
        Ok(Exprs(all))
    }

    pub fn get(&self, e: u32) -> u64 {
        self.0.get(e as usize).copied().unwrap_or(0)
    }
}

/// Where an operand comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is absent.
    Absent,
    /// A result of a step: its number within the entry, and which result.
    Step(usize, usize),
    /// An input of the entry.
    Input(String),
    /// What the model has before it runs, by its number.
    Kept(u32),
    /// Nothing writes it.
    Nowhere,
}

/// An operand: where it comes from, and which view of that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    pub origin: Origin,
    pub view: (u8, u8, u64),
}

/// Who writes what in an entry.
pub struct Flow<'m> {
    model: &'m Model,
    exprs: &'m Exprs,
    writers: HashMap<u32, (usize, usize)>,
}

impl<'m> Flow<'m> {
    pub fn of(model: &'m Model, exprs: &'m Exprs, entry: &Entry) -> Result<Flow<'m>, Failure> {
        let program = model.program();
        let mut writers = HashMap::new();
        for (i, (_, s)) in program.steps.range(entry.first_step, entry.steps)?.enumerate() {
            for (k, v) in program.step_outputs(s)?.enumerate().filter(|(_, v)| *v != NONE) {
                writers.entry(v).or_insert((i, k));
                writers.entry(program.values.get(v)?.root).or_insert((i, k));
            }
        }
        Ok(Flow { model, exprs, writers })
    }

    pub fn operand(&self, v: u32) -> Result<Operand, Failure> {
        if v == NONE {
            return Ok(Operand { origin: Origin::Absent, view: (0, 0, 0) });
        }
        let program = self.model.program();
        let value = program.values.get(v)?;
        let root = program.values.get(value.root)?;
        let start =
            if value.view == view::NONE || value.start == NONE { 0 } else { self.exprs.get(value.start) };
        let written = self.writers.get(&v).or_else(|| self.writers.get(&value.root));
        let origin = match (root.role, written) {
            (role::INTERMEDIATE, Some((step, k))) => Origin::Step(*step, *k),
            (role::INTERMEDIATE, None) => Origin::Nowhere,
            (role::INPUT, _) => Origin::Input(program.text(root.name)?.into()),
            _ => Origin::Kept(value.root),
        };
        Ok(Operand { origin, view: (value.view, value.axis, start) })
    }

    /// An operand in words.
    pub fn text(&self, o: &Operand, first_step: u32) -> String {
        match &o.origin {
            Origin::Absent => "nothing".into(),
            Origin::Step(i, _) => {
                let name = self.model.step_name(first_step.saturating_add(*i as u32));
                format!("step {i}{}", name.map(|n| format!(" ({n})")).unwrap_or_default())
            }
            Origin::Input(name) => format!("input {name}"),
            Origin::Kept(v) => self.model.value_name(*v),
            Origin::Nowhere => "what nothing writes".into(),
        }
    }
}
