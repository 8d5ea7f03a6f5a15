//! The sizes of inputs, as far as flags and files decide them.

use crate::args::Dim;
use crate::failure::Failure;
use serinette::core::Shape;
use serinette::core::schedule::bind::solve_symbols;
use serinette::core::schedule::expr::evaluate;
use serinette::core::schedule::record::{Entry, expr_op, symbol_kind};
use serinette::{Error, Model};

/// What is known about the symbols of a model.
pub struct Sizes<'a> {
    model: &'a Model,
    symbols: Vec<Option<u64>>,
}

/// One dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Decided by the model, a flag or another input.
    Fixed(usize),
    /// Open so far; the least it can be.
    Open(usize),
}

impl Axis {
    /// The size, or the least it can be.
    pub fn low(self) -> usize {
        match self {
            Axis::Fixed(n) | Axis::Open(n) => n,
        }
    }
}

impl<'a> Sizes<'a> {
    /// Starts from what flags say.
    pub fn new(model: &'a Model, dims: &[Dim]) -> Result<Sizes<'a>, Failure> {
        let program = model.program();
        let mut symbols = vec![None; program.symbols.len()];
        for d in dims {
            let mut known = Vec::new();
            let mut found = None;
            for (id, s) in program.symbols.iter().filter(|(_, s)| s.kind == symbol_kind::INPUT) {
                let name = program.text(s.name)?;
                if name == d.name {
                    found = Some((id, s));
                }
                known.push(name.to_string());
            }
            let Some((id, s)) = found else {
                return Err(Error::Name { what: "dimension", name: d.name.clone(), known }.into());
            };
            let multiple = s.multiple_of.max(1);
            if d.value < s.low || d.value > s.high || !d.value.is_multiple_of(multiple) {
                let range = format!("{} to {}", s.low, s.high);
                let multiples =
                    if multiple > 1 { format!(", a multiple of {multiple}") } else { String::new() };
                let (name, value) = (&d.name, d.value);
                return Err(Failure::new(format!("--dim {name}={value}: expected {range}{multiples}")));
            }
            if let Some(slot) = symbols.get_mut(id as usize) {
                *slot = Some(d.value);
            }
        }
        Ok(Sizes { model, symbols })
    }

    /// Learns from the shape of an input. What contradicts is left to the session, which names the input.
    pub fn learn(&mut self, entry: &Entry, value: u32, shape: &[usize]) {
        let Ok(inputs) = self.model.program().entry_inputs(entry) else { return };
        let shapes: Vec<Option<Shape>> =
            inputs.map(|v| if v == value { Shape::new(shape) } else { None }).collect();
        let mut learnt = self.symbols.clone();
        if solve_symbols(self.model.program(), entry, &shapes, &mut learnt).is_ok() {
            self.symbols = learnt;
        }
    }

    /// The sizes that are decided, by name.
    pub fn known(&self) -> Result<Vec<(String, u64)>, Failure> {
        let symbols = self.model.program().symbols.iter().zip(&self.symbols);
        let open = symbols.filter(|((_, s), _)| s.kind == symbol_kind::INPUT);
        let decided = open.filter_map(|((_, s), value)| Some((s, (*value)?)));
        decided.map(|(s, v)| Ok((self.model.program().text(s.name)?.to_string(), v))).collect()
    }

    /// The dimensions of a value; symbols that nothing decides count as low as they can be.
    pub fn dims(&self, value: u32) -> Result<Vec<Axis>, Failure> {
        let program = self.model.program();
        let lows = program.symbols.iter().zip(&self.symbols);
        let lows: Vec<u64> =
            lows.map(|((_, s), known)| known.unwrap_or_else(|| low(s.low, s.multiple_of))).collect();
        let mut values = vec![0; program.exprs.len()];
        evaluate(program, lows.as_slice(), &mut values)?;
        // Operands precede the expressions that use them.
        let mut fixed = vec![false; program.exprs.len()];
        for (id, e) in program.exprs.iter() {
            let of = |i: u64| usize::try_from(i).ok().and_then(|i| fixed.get(i)).copied().unwrap_or(false);
            let known = match e.op {
                expr_op::CONSTANT => true,
                expr_op::SYMBOL => self.symbols.get(e.a as usize).is_some_and(Option::is_some),
                expr_op::DIV_FLOOR | expr_op::DIV_CEIL | expr_op::SUB => of(u64::from(e.a)),
                _ => of(u64::from(e.a)) && of(e.b),
            };
            if let Some(f) = fixed.get_mut(id as usize) {
                *f = known;
            }
        }
        let record = program.values.get(value)?;
        let axis = |e: u32| {
            let size = values.get(e as usize).copied().unwrap_or(0);
            let size = usize::try_from(size)
                .map_err(|_| Failure::new(format!("a dimension of {size} is too large for this machine")))?;
            Ok(if fixed.get(e as usize) == Some(&true) { Axis::Fixed(size) } else { Axis::Open(size) })
        };
        program.value_dims(record)?.map(axis).collect()
    }

    /// The range of the symbol whose value is the contents of an input, if there is one.
    pub fn scalar_range(&self, value: u32) -> Option<(u64, u64)> {
        let symbols = self.model.program().symbols;
        let found = symbols.iter().find(|(_, s)| s.kind == symbol_kind::INPUT && s.source == value);
        found.map(|(id, s)| match self.symbols.get(id as usize).copied().flatten() {
            Some(n) => (n, n),
            None => (low(s.low, s.multiple_of), s.high),
        })
    }
}

fn low(low: u64, multiple_of: u64) -> u64 {
    low.checked_next_multiple_of(multiple_of.max(1)).unwrap_or(low)
}
