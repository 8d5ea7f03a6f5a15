//! The checks that `bind` makes of a step, for one run.

use crate::Device;
use crate::carve::padded;
use crate::wire::{Operand, Outcome, Run, Status};
use core::fmt::Debug;
use heapless::Vec;
use serinette_core::op::{self, OpDescriptor, ScratchClass, ShapeArgs, StepShapes};
use serinette_core::schedule::Kernel;
use serinette_core::schedule::record::Signature;
use serinette_core::shape::{Dim, Dims, Numbers};
use serinette_core::{DType, MAX_INPUTS, MAX_OUTPUTS, Shape};

pub(crate) const MAX_OPERANDS: usize = MAX_INPUTS + MAX_OUTPUTS;

/// A list with an entry for each input.
pub(crate) type Inputs<T> = Vec<T, MAX_INPUTS>;
/// A list with an entry for each output.
pub(crate) type Outputs<T> = Vec<T, MAX_OUTPUTS>;

/// A run that has been checked.
pub(crate) struct Step {
    pub(crate) kernel: Kernel,
    /// Shapes of the inputs.
    pub(crate) inputs: Inputs<Option<Shape>>,
    /// Shapes of the outputs.
    pub(crate) outputs: Outputs<Shape>,
    /// Bytes of scratch.
    pub(crate) scratch: u64,
}

impl Step {
    /// Makes every check. Not inlined: its lists must not lie on the stack below a kernel.
    #[inline(never)]
    pub(crate) fn new(
        run: &Run,
        operands: &[Operand],
        attrs: &[u8],
        device: Device<'_>,
    ) -> Result<Step, Outcome> {
        let code = u64::from(run.op) << 16 | u64::from(run.version);
        let op = op::find(device.ops, run.op, run.version)
            .ok_or_else(|| Outcome::new(Status::Kernel, "op", 0, code))?;
        (op.check_attrs)(attrs)
            .map_err(|e| Outcome::new(Status::Attributes, e.field, e.expected, e.found))?;

        let (inputs, outputs) = operands.split_at_checked(usize::from(run.inputs)).unwrap_or((operands, &[]));
        let mut types: Vec<DType, MAX_OPERANDS> = Vec::new();
        let mut in_types: Inputs<Option<DType>> = Vec::new();
        let mut in_shapes: Inputs<Option<Shape>> = Vec::new();
        for o in inputs {
            let known = if o.dtype == 0 { None } else { Some(checked(o)?) };
            put(&mut in_types, known.map(|(t, _)| t));
            put(&mut in_shapes, known.map(|(_, s)| s));
            // An absent input has no bytes, so any type serves.
            put(&mut types, known.map_or(DType::U8, |(t, _)| t));
        }
        let mut out_types: Outputs<DType> = Vec::new();
        let mut out_shapes: Outputs<Shape> = Vec::new();
        for o in outputs {
            let (t, s) = checked(o)?;
            put(&mut out_types, t);
            put(&mut out_shapes, s);
            put(&mut types, t);
        }
        if !op.accepts(&in_types, &out_types) {
            return Err(Outcome::new(Status::Operands, "element types", 1, 0));
        }
        check_in_place(op, run, inputs, outputs)?;
        check_shapes(op, attrs, &in_shapes, &out_shapes)?;

        let class = ScratchClass::from_code(run.scratch)
            .ok_or_else(|| Outcome::new(Status::Operands, "scratch class", 2, u64::from(run.scratch)))?;
        let shapes = StepShapes { attrs, inputs: &in_shapes, outputs: &out_shapes, dtypes: &types };
        let scratch = (op.scratch)(&shapes, class);
        let kernel = (device.kernel)(&signature(run, operands))
            .ok_or_else(|| Outcome::new(Status::Kernel, "signature", 0, code))?;
        Ok(Step { kernel, inputs: in_shapes, outputs: out_shapes, scratch })
    }

    /// Bytes of memory for everything.
    pub(crate) fn needed(&self, run: &Run, operands: &[Operand]) -> u64 {
        let own =
            operands.iter().enumerate().filter(|(i, o)| o.dtype != 0 && shared_output(run, *i).is_none());
        let fixed = [u64::from(run.attr_bytes), u64::from(run.exprs) * 8, self.scratch];
        let sizes = own.map(|(_, o)| o.bytes).chain(fixed);
        sizes.fold(0, |sum, bytes| sum.saturating_add(padded(bytes)))
    }
}

/// Element type and shape of an operand that is there.
fn checked(o: &Operand) -> Result<(DType, Shape), Outcome> {
    let wrong = |what, expected, found| Outcome::new(Status::Operands, what, expected, found);
    let dtype = DType::from_code(o.dtype).ok_or_else(|| wrong("element type", 15, u64::from(o.dtype)))?;
    let rank = usize::from(o.rank);
    let dims = o.dims.get(..rank).ok_or_else(|| wrong("rank", o.dims.len() as u64, rank as u64))?;
    let mut numbers = [0; serinette_core::MAX_RANK];
    for (n, d) in numbers.iter_mut().zip(dims) {
        *n = usize::try_from(*d)
            .map_err(|_| Outcome::new(Status::Address, "dimension", usize::MAX as u64, *d))?;
    }
    let shape = numbers.get(..rank).and_then(Shape::new).unwrap_or(Shape::SCALAR);
    let bytes = (shape.elements() as u64).saturating_mul(dtype.size() as u64);
    if bytes == o.bytes { Ok((dtype, shape)) } else { Err(wrong("bytes of an operand", bytes, o.bytes)) }
}

/// Results are stored over inputs only where the op allows it and the sizes agree.
fn check_in_place(
    op: &OpDescriptor,
    run: &Run,
    inputs: &[Operand],
    outputs: &[Operand],
) -> Result<(), Outcome> {
    for (o, from) in run.in_place.iter().enumerate().filter(|(_, from)| **from != 0) {
        let i = usize::from(*from) - 1;
        let bytes = |o: Option<&Operand>| o.filter(|o| o.dtype != 0).map(|o| o.bytes);
        let (input, output) = (bytes(inputs.get(i)), bytes(outputs.get(o)));
        let once = run.in_place.iter().filter(|f| *f == from).count() == 1;
        if !op.allows_in_place(i, o) || input.is_none() || input != output || !once {
            let (expected, found) = (output.unwrap_or(0), input.unwrap_or(0));
            return Err(Outcome::new(Status::Operands, "in place", expected, found));
        }
    }
    Ok(())
}

/// The shape rule gives the dimensions that the outputs have.
fn check_shapes(
    op: &OpDescriptor,
    attrs: &[u8],
    inputs: &[Option<Shape>],
    outputs: &[Shape],
) -> Result<(), Outcome> {
    let wrong = |what, expected, found| Outcome::new(Status::Shape, what, expected, found);
    let mut shapes: Inputs<Option<Dims>> = Vec::new();
    inputs.iter().for_each(|s| put(&mut shapes, s.as_ref().map(dims)));
    let declared: Outputs<Dims> = outputs.iter().map(dims).collect();
    let mut computed = declared.clone();
    if !op.declared_output {
        computed.iter_mut().for_each(|d| *d = Dims::SCALAR);
    }
    let args = ShapeArgs { attrs, inputs: &shapes };
    (op.shape_rule)(&mut Numbers, &args, &mut computed).map_err(|e| wrong(e.what, e.expected, e.found))?;
    for (want, have) in computed.iter().zip(&declared) {
        if want.rank() != have.rank() {
            return Err(wrong("rank of an output", want.rank() as u64, have.rank() as u64));
        }
        if let Some((w, h)) = want.as_slice().iter().zip(have.as_slice()).find(|(w, h)| w != h) {
            return Err(wrong("dimension of an output", w.0, h.0));
        }
    }
    Ok(())
}

fn dims(shape: &Shape) -> Dims {
    let mut dims = Dims::SCALAR;
    // A shape has no more axes than dimensions can hold.
    shape.dims().iter().for_each(|d| dims.push(Dim(*d as u64)).unwrap_or(()));
    dims
}

fn signature(run: &Run, operands: &[Operand]) -> Signature {
    let mut dtypes = [0; 24];
    dtypes.iter_mut().zip(operands).for_each(|(d, o)| *d = o.dtype);
    Signature {
        op: run.op,
        version: run.version,
        inputs: run.inputs,
        outputs: run.outputs,
        variant: 0,
        dtypes,
    }
}

/// The output whose memory input `i` shares.
pub(crate) fn shared_output(run: &Run, i: usize) -> Option<usize> {
    run.in_place.iter().position(|from| usize::from(*from) == i + 1)
}

/// Appends to a list whose length was checked when the run was read.
pub(crate) fn put<T: Debug, const N: usize>(list: &mut Vec<T, N>, item: T) {
    let full = list.push(item).is_err();
    debug_assert!(!full);
}
