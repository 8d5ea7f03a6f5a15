//! The op suite: what every op must compute, as plain data, for every device.
//!
//! [`cases`] makes a table of single-op problems: attributes, inputs, the outputs expected and how far a device may
//! be from them. Nothing in a case refers to a device; a runner builds a one-op program or calls one kernel, and
//! hands what came out to [`check`]. A runner that cannot do a case names it in its own expectation list, by
//! [`Case::name`], which is unique and stable.
//!
//! The expected values come from [`reference`](self), loops over multi-indices in 64-bit floats and 128-bit
//! integers that share no code with the kernels nor with the definitions in the op table: where an op is defined
//! by a function there, the suite derives its value again with exact arithmetic.

use serinette_core::DType;
use serinette_core::op::{Attributes, OpDescriptor};
use std::fmt::Display;

mod argmax;
mod attention;
mod binary;
mod bitcast;
mod blocks;
pub mod board;
mod cast;
mod col2im;
mod compare;
mod conv;
mod conv3d;
mod conv_transpose;
mod cumulative;
mod gather;
mod gather_nd;
mod generate;
mod integer;
mod lp_norm;
mod lrn;
mod matmul;
mod movement;
mod norm;
mod order;
mod pad;
mod philox;
mod pool;
mod pools;
mod quantize;
mod random;
mod recurrent;
mod reduce;
mod reference;
mod region;
mod resize;
mod reverse;
mod rotary;
mod sample;
mod scatter;
mod select;
mod size;
mod softmax;
mod spatial;
mod tensor;
mod tile;
mod unary;

pub use tensor::Tensor;

/// One op with its operands.
#[derive(Clone, Debug)]
pub struct Case {
    /// `Op/what/…`, unique.
    pub name: String,
    /// Code and version of the op.
    pub op: (u16, u16),
    /// Attribute record.
    pub attrs: Vec<u8>,
    /// Inputs, `None` for absent ones.
    pub inputs: Vec<Option<Tensor>>,
    /// The outputs expected.
    pub outputs: Vec<Tensor>,
    /// How far the outputs may be from that.
    pub tolerance: Tolerance,
    /// Whether the run must set the fault word (an index was out of range).
    pub expect_fault: bool,
    /// Values of the dimension expressions that the attributes refer to: expression `i` is `exprs[i]`.
    pub exprs: Vec<u64>,
    /// Pairs (input, output) that may be one range of memory in this case: the op allows it and the sizes agree.
    /// A runner tries the case once without and once with each pair.
    pub in_place: Vec<(u8, u8)>,
}

/// How far an output may be from the expected one. A NaN where a NaN is expected, and an infinity where the same
/// infinity is expected, are always right; where they are not expected they are always wrong.
#[derive(Clone, Debug)]
pub enum Tolerance {
    /// The same bytes, whatever they mean: ops that move elements.
    Bits,
    /// The same numbers with the same sign of zero; any NaN stands for any other.
    Exact,
    /// `|got − expected| ≤ bounds[i]` for element `i`, counted through all outputs. Each family says how its bounds
    /// follow from the worst case of the rounding errors, so that any order of summation, fused or not, is accepted and
    /// little else. Numbers of integer type are compared in the same way.
    Bounds(Vec<f64>),
}

impl Case {
    fn new(op: &OpDescriptor, what: impl Display, attrs: &impl Attributes) -> Case {
        Case {
            name: format!("{}/{what}", op.name),
            op: (op.code, op.version),
            attrs: bytemuck::bytes_of(attrs).to_vec(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            tolerance: Tolerance::Exact,
            expect_fault: false,
            exprs: Vec::new(),
            in_place: Vec::new(),
        }
    }

    fn input(mut self, t: &Tensor) -> Case {
        self.inputs.push(Some(t.clone()));
        self
    }

    fn optional(mut self, t: Option<&Tensor>) -> Case {
        self.inputs.push(t.cloned());
        self
    }

    fn output(mut self, t: Tensor) -> Case {
        self.outputs.push(t);
        self
    }

    fn within(self, tolerance: Tolerance) -> Case {
        Case { tolerance, ..self }
    }

    /// Notes the pairs that may share memory.
    fn with_in_place(mut self, op: &OpDescriptor) -> Case {
        for (i, o) in op.in_place {
            let (input, output) = (self.inputs.get(usize::from(*i)), self.outputs.get(usize::from(*o)));
            if let (Some(Some(input)), Some(output)) = (input, output)
                && input.bytes.len() == output.bytes.len()
            {
                self.in_place.push((*i, *o));
            }
        }
        self
    }
}

/// Every case, in a fixed order with fixed contents.
pub fn cases() -> Vec<Case> {
    let families = [
        matmul::cases,
        conv::cases,
        pool::cases,
        binary::cases,
        unary::cases,
        softmax::cases,
        movement::cases,
        gather::cases,
        cast::cases,
        quantize::cases,
        argmax::cases,
        compare::cases,
        size::cases,
        blocks::cases,
        reverse::cases,
        tile::cases,
        pad::cases,
        reduce::cases,
        order::cases,
        cumulative::cases,
        norm::cases,
        lp_norm::cases,
        lrn::cases,
        gather_nd::cases,
        scatter::cases,
        generate::cases,
        select::cases,
        resize::cases,
        sample::cases,
        col2im::cases,
        region::cases,
        philox::cases,
        conv3d::cases,
        conv_transpose::cases,
        integer::cases,
        pools::cases,
        recurrent::cases,
        attention::cases,
        rotary::cases,
        bitcast::cases,
    ];
    families.iter().flat_map(|family| family()).collect()
}

/// Compares what a device computed with what the case expects. The error names the first element that differs.
pub fn check(case: &Case, got: &[Tensor]) -> Result<(), String> {
    if got.len() != case.outputs.len() {
        return Err(format!("{}: {} outputs, expected {}", case.name, got.len(), case.outputs.len()));
    }
    let mut before = 0;
    for (o, (got, want)) in got.iter().zip(&case.outputs).enumerate() {
        if (got.dtype, &got.dims, got.bytes.len()) != (want.dtype, &want.dims, want.bytes.len()) {
            return Err(format!(
                "{}: output {o} is {} {:?} of {} bytes, expected {} {:?} of {} bytes",
                case.name,
                got.dtype,
                got.dims,
                got.bytes.len(),
                want.dtype,
                want.dims,
                want.bytes.len()
            ));
        }
        if let Some(i) = (0..want.elements()).find(|i| !agrees(&case.tolerance, got, want, *i, before)) {
            let bound = match &case.tolerance {
                Tolerance::Bounds(b) => format!(" ± {:e}", b.get(before + i).copied().unwrap_or(0.0)),
                _ => String::new(),
            };
            return Err(format!(
                "{}: output {o} element {:?} is {}, expected {}{bound}",
                case.name,
                tensor::position(&want.dims, i),
                got.show(i),
                want.show(i),
            ));
        }
        before += want.elements();
    }
    Ok(())
}

/// Whether element `i` agrees, behind `before` elements of other outputs.
fn agrees(tolerance: &Tolerance, got: &Tensor, want: &Tensor, i: usize, before: usize) -> bool {
    let same = got.element(i) == want.element(i);
    let numbers = || (got.number(i), want.number(i));
    same || match tolerance {
        Tolerance::Bits => false,
        Tolerance::Exact => matches!(numbers(), (Some(g), Some(w)) if g.is_nan() && w.is_nan()),
        Tolerance::Bounds(bounds) => match (numbers(), bounds.get(before + i)) {
            ((Some(g), Some(w)), Some(bound)) => {
                (g.is_nan() && w.is_nan()) || (w.is_finite() && (g - w).abs() <= *bound)
            }
            _ => false,
        },
    }
}

/// The name of an element type in case names.
fn name(t: DType) -> &'static str {
    t.name()
}
