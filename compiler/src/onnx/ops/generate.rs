//! Tensors made from few numbers: ranges, one-hot vectors, triangles, filled tensors, windows.

use super::{Handler, one};
use crate::builder::Size;
use crate::data::Data;
use crate::error::Error;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::sizes::Entry;
use crate::onnx::tensor::{self, Constant};
use serinette_core::DType;
use serinette_core::op::NoAttributes;
use serinette_core::op::generate::{self, Diagonal};
use serinette_core::op::softmax::Axis;
use serinette_core::shape::DimAlgebra;

pub(super) static HANDLERS: &[(&str, Handler)] = &[
    ("ConstantOfShape", constant_of_shape),
    ("Range", range),
    ("OneHot", one_hot),
    ("Trilu", trilu),
    ("EyeLike", eye_like),
    ("BlackmanWindow", window),
    ("HannWindow", window),
    ("HammingWindow", window),
];

/// Most bytes of a filled constant: it is written into the blob as it is. What layers read as their weights is, whatever its
/// size, so that passes see weights.
const MOST_FILLED: u64 = 1 << 20;
/// Most bytes of any.
const MOST_WEIGHTS: u64 = 1 << 32;

fn constant_of_shape<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let element = match node.attribute("value").and_then(|a| a.t.as_ref()) {
        Some(t) => Constant::read(t, &node.name)?,
        None => Constant {
            name: String::new(),
            dtype: DType::F32,
            dims: vec![1],
            data: Data::from_slice(&[0f32]),
        },
    };
    if element.data.len() != element.dtype.size() {
        return Err(node.wrong("the value is not one element"));
    }
    let sizes = im.shape_of(node, 0, "the shape")?;
    let count = sizes.iter().try_fold(1u64, |n, s| match s {
        Size::Number(d) => n.checked_mul(*d),
        Size::Expr(_) => None,
    });
    let bytes = count.and_then(|n| n.checked_mul(element.dtype.size() as u64));
    let is_weight = node.proto.output.first().is_some_and(|o| im.weights.contains(o.as_str()));
    let most = if is_weight { MOST_WEIGHTS } else { MOST_FILLED };
    if let (Some(count), Some(_)) = (count, bytes.filter(|b| *b <= most)) {
        let dims = sizes.iter().map(|s| match s {
            Size::Number(d) => *d,
            Size::Expr(_) => 0,
        });
        let data = element.data.as_bytes().repeat(usize::try_from(count).unwrap_or(0));
        return Ok(vec![im.add_constant(Constant {
            name: String::new(),
            dtype: element.dtype,
            dims: dims.collect(),
            data: Data::from(data),
        })]);
    }
    let item = im.add_constant(Constant { dims: vec![], ..element });
    let (value, wide) = im.materialise(&node.name, item)?.ok_or(Fail::Poisoned)?;
    one(im.b.single(&node.name, &generate::FILL, NoAttributes {}, &[Some(value)], &[], Some(&sizes))?, wide)
}

/// `⌈(limit − start) / delta⌉` numbers. The three must be known, or follow from sizes.
fn range<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let count = match length(im, node)? {
        Some(n) => Size::Number(n),
        None => open_length(im, node)?,
    };
    let ((start, wide), (delta, _)) = (im.input(node, 0)?, im.input(node, 2)?);
    let inputs = [Some(start), Some(delta)];
    one(im.b.single(&node.name, &generate::RANGE, NoAttributes {}, &inputs, &[], Some(&[count]))?, wide)
}

/// The number of elements of a range between known numbers.
fn length<'m>(im: &Importer<'m>, node: &Node<'m>) -> Result<Option<u64>, Fail> {
    let number = |i: usize| -> Option<f64> {
        let c = im.constant(node, i)?;
        if c.data.len() != c.dtype.size() {
            return None;
        }
        match (c.integers(), c.dtype) {
            (Some(v), _) => v.first().map(|n| *n as f64),
            (None, DType::F64) => c.data.numbers::<f64>().next(),
            (None, _) => c.floats()?.first().map(|x| f64::from(*x)),
        }
    };
    let (Some(start), Some(limit), Some(delta)) = (number(0), number(1), number(2)) else { return Ok(None) };
    let n = ((limit - start) / delta).ceil();
    if delta == 0.0 || n.is_nan() || n >= f64::from(i32::MAX) {
        return Err(node.wrong(format!("a range from {start} to {limit} in steps of {delta}")));
    }
    Ok(Some(n.max(0.0) as u64))
}

/// The same where the limit is a size, the start a number or a size, and the step a number.
fn open_length<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Size, Fail> {
    let depends = || Fail::Unsupported("a range whose length depends on data".into());
    let entry = |im: &Importer<'m>, i: usize| match im.sizes_of(node, i).map(|s| s.entries) {
        Some(e) if e.len() == 1 => e.first().copied().ok_or_else(depends),
        _ => Err(depends()),
    };
    let (start, limit, delta) = (entry(im, 0)?, entry(im, 1)?, entry(im, 2)?);
    let table = &mut im.b.graph.dims;
    let shape = |e| Fail::Wrong(Error::shape(&node.name, e));
    let Entry::Number(delta) = delta else { return Err(depends()) };
    let delta = u64::try_from(delta).ok().filter(|d| *d > 0).ok_or_else(depends)?;
    let span = match (start, limit) {
        (Entry::Number(start), Entry::Size(limit)) => match u64::try_from(start) {
            Ok(start) => table.saturating_sub(limit, start).map_err(shape)?,
            Err(_) => {
                let more = table.constant(start.unsigned_abs()).map_err(shape)?;
                table.add(limit, more).map_err(shape)?
            }
        },
        // From a size to the sum of it and another: exporters count positions behind a cache.
        (Entry::Size(start), Entry::Size(limit)) => table.difference(limit, start).ok_or_else(depends)?,
        _ => return Err(depends()),
    };
    Ok(Size::Expr(table.div_ceil(span, delta).map_err(shape)?))
}

fn one_hot<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let ((mut indices, _), (values, wide)) = (im.input(node, 0)?, im.input(node, 2)?);
    if im.b.graph.tensor(indices).dtype != DType::I32 {
        indices = im.b.cast(&format!("{}:indices", node.name), indices, DType::I32)?;
    }
    let depth = match im.constant(node, 1) {
        // Any type of number.
        Some(c) => {
            let n = c.integers().and_then(|v| v.first().copied());
            let n = n.or(c.floats().and_then(|v| v.first().map(|x| *x as i64)));
            Size::Number(n.and_then(|n| u64::try_from(n).ok()).ok_or_else(|| node.wrong("the depth"))?)
        }
        None => match im.entries(node, 1, "the depth")?.as_deref() {
            Some([Entry::Size(d)]) => Size::Expr(*d),
            _ => return unsupported("a depth that depends on data"),
        },
    };
    let mut sizes: Vec<Size> = im.dims_of(indices).into_iter().map(Size::Expr).collect();
    let axis = node.axis(node.int("axis", -1)?, sizes.len() + 1)?;
    sizes.insert(axis, depth);
    let attrs = Axis { axis: axis as u32, reserved: 0 };
    let inputs = [Some(indices), Some(values)];
    one(im.b.single(&node.name, &generate::ONE_HOT, attrs, &inputs, &[], Some(&sizes))?, wide)
}

fn trilu<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let op = if node.int("upper", 1)? != 0 { &generate::TRIU } else { &generate::TRIL };
    let known = im.constant(node, 1).and_then(|c| c.integers()).and_then(|v| v.first().copied());
    let mut inputs = vec![Some(x)];
    let k = match known {
        // Beyond any tensor all diagonals are the same.
        Some(k) => k.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32,
        None => {
            inputs.extend(im.optional(node, 1)?.map(|(k, _)| Some(k)));
            0
        }
    };
    one(im.b.single(&node.name, op, Diagonal { k, reserved: 0 }, &inputs, &[], None)?, wide)
}

fn eye_like<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (x, wide) = im.input(node, 0)?;
    let sizes: Vec<Size> = im.dims_of(x).into_iter().map(Size::Expr).collect();
    let (dtype, wide) = match node.attribute("dtype") {
        Some(_) => result_type(node, "dtype", 0)?,
        None => (im.b.graph.tensor(x).dtype, wide),
    };
    let k = node.int("k", 0)?.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
    let value = number_of(im, node, dtype, 1.0)?;
    let attrs = Diagonal { k, reserved: 0 };
    one(im.b.single(&node.name, &generate::EYE, attrs, &[Some(value)], &[], Some(&sizes))?, wide)
}

/// The element type of an attribute, and whether it is int64.
fn result_type(node: &Node<'_>, name: &str, default: i64) -> Result<(DType, bool), Fail> {
    let code = node.int(name, default)?;
    match i32::try_from(code).ok().and_then(tensor::dtype) {
        Some(DType::I64) => Ok((DType::I32, true)),
        Some(dtype) => Ok((dtype, false)),
        None => unsupported(format!("element type code {code}")),
    }
}

/// A scalar of any type.
fn number_of(im: &mut Importer<'_>, node: &Node<'_>, dtype: DType, x: f32) -> Result<Value, Fail> {
    let scalar = im.b.constant(DType::F32, &[], Data::from_slice(&[x]))?;
    let name = format!("{}:{x}", node.name);
    Ok(if dtype == DType::F32 { scalar } else { im.b.cast(&name, scalar, dtype)? })
}

/// Windows of signal processing, whose length is known.
fn window<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let size = im.constant_integers(node, 0, "the length")?;
    let n = match size.as_deref() {
        Some([n]) => u64::try_from(*n).ok().filter(|n| *n <= MOST_FILLED),
        _ => None,
    };
    let n = n.ok_or_else(|| node.wrong("the length"))?;
    let periodic = node.int("periodic", 1)? != 0;
    let (dtype, _) = result_type(node, "output_datatype", 1)?;
    // Coefficients of the cosines, from the specification.
    let terms: &[f64] = match node.proto.op_type.as_str() {
        "HannWindow" => &[0.5, -0.5],
        "HammingWindow" => &[25.0 / 46.0, -21.0 / 46.0],
        _ => &[0.42, -0.5, 0.08],
    };
    let period = if periodic { n as f64 } else { n.saturating_sub(1).max(1) as f64 };
    let at = |i: u64| {
        let angle = std::f64::consts::TAU * i as f64 / period;
        terms.iter().enumerate().map(|(k, a)| a * (k as f64 * angle).cos()).sum::<f64>()
    };
    let values: Vec<f64> = (0..n).map(at).collect();
    let (kept, data) = match dtype {
        DType::F64 => (DType::F64, Data::from_slice(&values)),
        _ => (DType::F32, Data::from_slice(&values.iter().map(|v| *v as f32).collect::<Vec<_>>())),
    };
    let constant = Constant { name: String::new(), dtype: kept, dims: vec![n], data };
    let item = im.add_constant(constant);
    if dtype == kept {
        return Ok(vec![item]);
    }
    let (value, _) = im.materialise(&node.name, item)?.ok_or(Fail::Poisoned)?;
    one(im.b.cast(&node.name, value, dtype)?, false)
}
