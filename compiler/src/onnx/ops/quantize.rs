//! Quantisation to 8 and 16 bits.
//!
//! Ours is to i8. u8 is the same with the top bit of the numbers and of the zero point turned over, which keeps graphs of
//! u8 on the way of those of i8: a twin of i8 is kept for every u8 tensor made here, and taken where one is read.

use super::{Handler, one};
use crate::builder::Size;
use crate::data::Data;
use crate::graph::{Source, Value};
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::sizes::Entry;
use crate::onnx::tensor;
use serinette_core::DType;
use serinette_core::op::binary::{self, Binary};
use serinette_core::op::quantize::{PER_TENSOR, Quantization};
use serinette_core::op::reduce::{self, Reduce};
use serinette_core::op::unary::{self, Parameters};
use serinette_core::op::{NoAttributes, OpDescriptor};
use serinette_core::shape::DimAlgebra;

pub(super) static HANDLERS: &[(&str, Handler)] =
    &[("QuantizeLinear", quantize), ("DequantizeLinear", dequantize), ("DynamicQuantizeLinear", dynamic)];

/// Most zero points that are written out where the file has none.
const MOST_ZEROS: u64 = 1 << 16;

/// How scales and zero points lie along a tensor.
#[derive(Clone, Copy)]
enum Layout {
    /// One for all, or one for each entry of an axis, as our ops take them.
    Axis(Quantization),
    /// One for each `size` entries along `axis`.
    Blocks { axis: usize, size: u64 },
}

struct Operands {
    x: Value,
    scale: Value,
    zero: Option<Value>,
    layout: Layout,
}

fn operands<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Operands, Fail> {
    let ((x, _), (scale, _)) = (im.input(node, 0)?, im.input(node, 1)?);
    let zero = im.optional(node, 2)?.map(|(v, _)| v);
    let (axis, block) = (node.int("axis", 1)?, node.int("block_size", 0)?);
    let size = u64::try_from(block).map_err(|_| node.wrong(format!("block_size {block}")))?;
    let layout = match im.dims_of(scale).as_slice() {
        _ if size > 0 => Layout::Blocks { axis: node.axis(axis, im.rank(x))?, size },
        [] => Layout::Axis(Quantization { axis: PER_TENSOR, reserved: 0 }),
        [n] if im.b.graph.dims.known(*n) == Some(1) => {
            Layout::Axis(Quantization { axis: PER_TENSOR, reserved: 0 })
        }
        [_] => Layout::Axis(Quantization { axis: node.axis(axis, im.rank(x))? as u32, reserved: 0 }),
        _ => return unsupported("scales with more than one axis, without a block size"),
    };
    Ok(Operands { x, scale, zero, layout })
}

fn quantize<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    // Only concerns 8-bit floats.
    node.int("saturate", 1)?;
    let (to, precision) = (node.int("output_dtype", 0)?, node.int("precision", 0)?);
    let o = operands(im, node)?;
    let to = match (o.zero, to) {
        (Some(z), _) => im.b.graph.tensor(z).dtype,
        // Without a zero point and a type the result is uint8.
        (None, 0) => DType::U8,
        (None, code) => element_type(code)?,
    };
    if !matches!(to, DType::I8 | DType::U8 | DType::I16 | DType::U16) {
        return unsupported(format!("quantisation to {to} (only i8, u8, i16, u16)"));
    }
    let precision = if precision == 0 { im.b.graph.tensor(o.scale).dtype } else { element_type(precision)? };
    one(quantized(im, node, o, to, precision)?, false)
}

fn element_type(code: i64) -> Result<DType, Fail> {
    let dtype = i32::try_from(code).ok().and_then(tensor::dtype);
    dtype.ok_or(Fail::Unsupported(format!("element type code {code}")))
}

/// `saturate(round_half_even(x / scale) + zero)`, the quotient rounded to `precision`.
fn quantized<'m>(
    im: &mut Importer<'m>,
    node: &Node<'m>,
    o: Operands,
    to: DType,
    precision: DType,
) -> Result<Value, Fail> {
    let types = [im.b.graph.tensor(o.x).dtype, im.b.graph.tensor(o.scale).dtype, precision];
    let ours = types.iter().all(|t| *t == DType::F32) && matches!(to, DType::I8 | DType::U8);
    if let (Layout::Axis(attrs), true) = (o.layout, ours) {
        let zero = if to == DType::U8 { Some(shifted_zero(im, node, &o)?) } else { o.zero };
        let y = im.b.quantize(&node.name, attrs, o.x, o.scale, zero)?;
        return if to == DType::U8 { unshifted(im, node, y) } else { Ok(y) };
    }
    let label = |what: &str| format!("{}:{what}", node.name);
    let x = cast(im, &label("x"), o.x, precision)?;
    let scale = cast(im, &label("scale"), o.scale, precision)?;
    let scale = spread(im, node, scale, &o)?;
    let quotient = im.b.op(&label("quotient"), &binary::DIV, Binary::default(), &[x, scale])?;
    let quotient = cast(im, &label("wide"), quotient, DType::F32)?;
    // Numbers of 16 bits are added exactly in f32, and what is too large for that saturates.
    let mut y = im.b.op(&label("rounded"), &unary::ROUND, NoAttributes {}, &[quotient])?;
    if let Some(zero) = o.zero {
        let zero = cast(im, &label("zero"), zero, DType::F32)?;
        let zero = spread(im, node, zero, &o)?;
        y = im.b.add(&label("moved"), y, zero)?;
    }
    Ok(im.b.cast(&node.name, y, to)?)
}

fn dequantize<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let to = node.int("output_dtype", 0)?;
    let mut o = operands(im, node)?;
    let to = if to == 0 { im.b.graph.tensor(o.scale).dtype } else { element_type(to)? };
    let label = |what: &str| format!("{}:{what}", node.name);
    o.scale = cast(im, &label("scale"), o.scale, DType::F32)?;
    let from = im.b.graph.tensor(o.x).dtype;
    if !matches!(from, DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::I32) {
        return unsupported(format!("numbers of {from} (only i8, u8, i16, u16, i32)"));
    }
    let y = match o.layout {
        Layout::Axis(attrs) if from == DType::U8 => {
            let zero = shifted_zero(im, node, &o)?;
            let x = shifted(im, &label("i8"), o.x)?;
            im.b.dequantize(&node.name, attrs, x, o.scale, Some(zero))?
        }
        Layout::Axis(attrs) => {
            let same = matches!(from, DType::I8 | DType::I32);
            let wide = if same { from } else { DType::I32 };
            let x = cast(im, &label("x"), o.x, wide)?;
            let zero = o.zero.map(|z| cast(im, &label("zero"), z, wide)).transpose()?;
            im.b.dequantize(&node.name, attrs, x, o.scale, zero)?
        }
        Layout::Blocks { .. } => {
            let mut x = cast(im, &label("x"), o.x, DType::I32)?;
            if let Some(zero) = o.zero {
                let zero = cast(im, &label("zero"), zero, DType::I32)?;
                let zero = spread(im, node, zero, &o)?;
                x = im.b.op(&label("moved"), &binary::SUB, Binary::default(), &[x, zero])?;
            }
            let x = im.b.cast(&label("float"), x, DType::F32)?;
            let scale = spread(im, node, o.scale, &o)?;
            im.b.mul(&node.name, x, scale)?
        }
    };
    one(cast(im, &label("y"), y, to)?, false)
}

fn cast(im: &mut Importer<'_>, at: &str, x: Value, to: DType) -> Result<Value, Fail> {
    Ok(if im.b.graph.tensor(x).dtype == to { x } else { im.b.cast(at, x, to)? })
}

/// Scales or zero points in a shape that broadcasts to that of `x`.
fn spread<'m>(im: &mut Importer<'m>, node: &Node<'m>, v: Value, o: &Operands) -> Result<Value, Fail> {
    let dims = im.dims_of(o.x);
    let label = |what: &str| format!("{}:{what}", node.name);
    match o.layout {
        Layout::Axis(Quantization { axis: PER_TENSOR, .. }) => Ok(im.b.reshape(&label("one"), v, &[])?),
        Layout::Axis(Quantization { axis, .. }) => {
            let mut sizes = vec![Size::Number(1); dims.len()];
            if let (Some(size), [channels]) = (sizes.get_mut(axis as usize), im.dims_of(v).as_slice()) {
                *size = Size::Expr(*channels);
            }
            Ok(im.b.reshape(&label("channels"), v, &sizes)?)
        }
        Layout::Blocks { axis, size } => {
            let blocks = im.dims_of(v);
            let count = blocks.get(axis).filter(|_| blocks.len() == dims.len());
            let count = count.and_then(|d| im.b.graph.dims.known(*d));
            let length = im.b.graph.dims.known(dims[axis]);
            let (Some(count), Some(length)) = (count, length) else {
                return unsupported("blocks along an open size, or scales of another rank");
            };
            if length.div_ceil(size) != count {
                return Err(node.wrong(format!("{count} blocks of {size} for {length} elements")));
            }
            // Each is repeated along an axis of its own; those behind the end are cut off.
            let (mut inner, mut repeated) = (Vec::new(), Vec::new());
            let mut flat: Vec<Size> = blocks.iter().map(|d| Size::Expr(*d)).collect();
            for (i, d) in blocks.iter().enumerate() {
                inner.push(Size::Expr(*d));
                repeated.push(Entry::Size(*d));
                if i == axis {
                    inner.push(Size::Number(1));
                    repeated.push(Entry::Number(size as i64));
                }
            }
            let v = im.b.reshape(&label("blocks"), v, &inner)?;
            let v = im.expanded(node, v, &repeated)?;
            flat[axis] = Size::Number(count.saturating_mul(size));
            let v = im.b.reshape(&label("elements"), v, &flat)?;
            if length == count.saturating_mul(size) {
                return Ok(v);
            }
            flat[axis] = Size::Number(length);
            let (starts, steps) = (vec![0; flat.len()], vec![1; flat.len()]);
            Ok(im.b.slice(&label("cut"), v, &starts, &steps, &flat)?)
        }
    }
}

/// A u8 tensor as the i8 tensor of the numbers less 128.
fn shifted(im: &mut Importer<'_>, at: &str, x: Value) -> Result<Value, Fail> {
    if let Some(twin) = im.shifted.get(&x) {
        return Ok(*twin);
    }
    let t = im.b.graph.tensor(x).clone();
    let (data, dims) = (t.source.immutable_data().cloned(), im.b.graph.known_dims(x));
    if let (Some(data), Some(dims)) = (data, dims) {
        let data = Data::from(data.as_bytes().iter().map(|b| b ^ 0x80).collect::<Vec<u8>>());
        let twin = if matches!(t.source, Source::Weight(_)) {
            im.b.weight(&format!("{}:i8", t.name), DType::I8, &dims, data)?
        } else {
            im.b.constant(DType::I8, &dims, data)?
        };
        im.shifted.insert(x, twin);
        return Ok(twin);
    }
    let narrow = im.b.cast(at, x, DType::I8)?;
    turned(im, at, narrow)
}

/// The top bits turned over.
fn turned(im: &mut Importer<'_>, at: &str, x: Value) -> Result<Value, Fail> {
    let top = im.b.constant(DType::I8, &[], Data::from_slice(&[i8::MIN]))?;
    Ok(im.b.op(&format!("{at}:turned"), &binary::BIT_XOR, NoAttributes {}, &[x, top])?)
}

/// The u8 tensor of i8 numbers and 128. The i8 tensor stays known as its twin.
fn unshifted(im: &mut Importer<'_>, node: &Node<'_>, y: Value) -> Result<Value, Fail> {
    let turned = turned(im, &node.name, y)?;
    let wide = im.b.cast(&format!("{}:u8", node.name), turned, DType::U8)?;
    im.shifted.insert(wide, y);
    Ok(wide)
}

/// The zero point of i8 that stands for one of u8. None is 0.
fn shifted_zero<'m>(im: &mut Importer<'m>, node: &Node<'m>, o: &Operands) -> Result<Value, Fail> {
    if let Some(zero) = o.zero {
        return shifted(im, &format!("{}:zero", node.name), zero);
    }
    if let Some(dims) = im.b.graph.known_dims(o.scale)
        && let count @ 0..=MOST_ZEROS = dims.iter().product::<u64>()
    {
        return Ok(im.b.constant(DType::I8, &dims, Data::from(vec![0x80u8; count as usize]))?);
    }
    let zero = im.b.constant(DType::I8, &[], Data::from_slice(&[i8::MIN]))?;
    let shape: Vec<Entry> = im.dims_of(o.scale).into_iter().map(Entry::Size).collect();
    im.expanded(node, zero, &shape)
}

/// A scale and a zero point from the range of the data, which always has 0 in it.
fn dynamic<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, _) = im.input(node, 0)?;
    let label = |what: &str| format!("{}:{what}", node.name);
    let number = |im: &mut Importer<'m>, v: f32| im.b.constant(DType::F32, &[], Data::from_slice(&[v]));
    let (zero, most) = (number(im, 0.0)?, number(im, 255.0)?);
    let axes = (0..im.rank(x)).fold(0u32, |mask, a| mask | 1 << a);
    let mut ends = Vec::new();
    for (what, reduction, limit) in
        [("low", &reduce::MIN, &binary::MIN as &'static OpDescriptor), ("high", &reduce::MAX, &binary::MAX)]
    {
        let end = im.b.op(&label(what), reduction, Reduce { axes, keep_axes: 0 }, &[x])?;
        ends.push(im.b.op(&label(&format!("{what}_with_0")), limit, NoAttributes {}, &[end, zero])?);
    }
    let (low, high) = (ends[0], ends[1]);
    let range = im.b.op(&label("range"), &binary::SUB, Binary::default(), &[high, low])?;
    let scale = im.b.op(&label("scale"), &binary::DIV, Binary::default(), &[range, most])?;
    let steps = im.b.op(&label("steps"), &binary::DIV, Binary::default(), &[low, scale])?;
    let point = im.b.op(&label("point"), &binary::SUB, Binary::default(), &[zero, steps])?;
    let limits = Parameters { alpha: 0.0, beta: 255.0 };
    let point = im.b.op(&label("clipped"), &unary::CLIP, limits, &[point])?;
    let point = im.b.op(&label("rounded"), &unary::ROUND, NoAttributes {}, &[point])?;
    let point = im.b.cast(&label("zero"), point, DType::U8)?;
    let layout = Layout::Axis(Quantization { axis: PER_TENSOR, reserved: 0 });
    let o = Operands { x, scale, zero: Some(point), layout };
    let y = quantized(im, node, o, DType::U8, DType::F32)?;
    Ok([y, scale, point].map(|value| Item::Value { value, wide: false }).to_vec())
}
