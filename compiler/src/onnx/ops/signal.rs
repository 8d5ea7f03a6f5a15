//! Fourier transforms as products with constant matrices, and the weights of mel spectra.

use super::{Handler, one};
use crate::builder::Size;
use crate::data::Data;
use crate::graph::Value;
use crate::onnx::graph::{Importer, Item};
use crate::onnx::node::{Fail, Node, unsupported};
use crate::onnx::tensor::{self, Constant};
use serinette_core::DType;
use serinette_core::shape::DimAlgebra;
use std::f64::consts::TAU;

pub(super) static HANDLERS: &[(&str, Handler)] =
    &[("DFT", dft), ("STFT", stft), ("MelWeightMatrix", mel_weights)];

/// Most elements of the matrix of a transform: it is written into the blob as it is.
const MOST: usize = 1 << 24;

/// What a transform makes of its input.
#[derive(Clone, Copy)]
struct Transform {
    /// Points that the input has; those beyond `length` are left out, those that lack are 0.
    given: usize,
    /// Points of the transform.
    length: usize,
    /// The input has real and imaginary parts, not only real ones.
    complex: bool,
    inverse: bool,
    /// Half of the spectrum is enough, as the signal is real.
    onesided: bool,
}

impl Transform {
    fn bins(&self) -> usize {
        if self.onesided { self.length / 2 + 1 } else { self.length }
    }

    /// Points and numbers for each of the result.
    fn result(&self) -> (usize, usize) {
        if self.inverse && self.onesided { (self.length, 1) } else { (self.bins(), 2) }
    }

    /// The matrix `[given · parts, points · parts]`.
    fn matrix(&self) -> Option<Vec<f64>> {
        let (parts, (points, results)) = (if self.complex { 2 } else { 1 }, self.result());
        let elements = self.given.checked_mul(parts)?.checked_mul(points)?.checked_mul(results)?;
        if elements > MOST || self.length == 0 {
            return None;
        }
        let mut m = vec![0.0; elements];
        // The inverse of half a spectrum: all but the ends stand for two points.
        let half = self.inverse && self.onesided;
        let used = if half { self.bins() } else { self.length };
        for from in 0..self.given.min(used) {
            for to in 0..points {
                let turns = (from * to % self.length) as f64 / self.length as f64;
                let (mut sin, mut cos) = (turns * TAU).sin_cos();
                if self.inverse {
                    let twice = half && from != 0 && from * 2 != self.length;
                    let scale = if twice { 2.0 } else { 1.0 } / self.length as f64;
                    (sin, cos) = (sin * scale, cos * scale);
                } else {
                    sin = -sin;
                }
                let mut put = |part: usize, result: usize, v: f64| {
                    if part < parts && result < results {
                        m[(from * parts + part) * points * results + to * results + result] = v;
                    }
                };
                put(0, 0, cos);
                put(0, 1, sin);
                put(1, 0, -sin);
                put(1, 1, cos);
            }
        }
        Some(m)
    }
}

/// A constant of floating-point numbers.
fn floats(
    im: &mut Importer<'_>,
    node: &Node<'_>,
    dtype: DType,
    dims: &[u64],
    v: &[f64],
) -> Result<Value, Fail> {
    if dtype == DType::F64 {
        return Ok(im.b.constant(DType::F64, dims, Data::from_slice(v))?);
    }
    let narrow: Vec<f32> = v.iter().map(|x| *x as f32).collect();
    let value = im.b.constant(DType::F32, dims, Data::from_slice(&narrow))?;
    Ok(if dtype == DType::F32 { value } else { im.b.cast(&format!("{}:matrix", node.name), value, dtype)? })
}

/// Transforms the last two axes of `x`, points and parts.
fn transformed(im: &mut Importer<'_>, node: &Node<'_>, x: Value, t: Transform) -> Result<Value, Fail> {
    let label = |what: &str| format!("{}:{what}", node.name);
    let Some(matrix) = t.matrix() else {
        return unsupported(format!(
            "a transform of {} points (at most {MOST} elements of its matrix)",
            t.length
        ));
    };
    let (parts, (points, results)) = (if t.complex { 2 } else { 1 }, t.result());
    let (rows, columns) = ((t.given * parts) as u64, (points * results) as u64);
    let matrix = floats(im, node, im.b.graph.tensor(x).dtype, &[rows, columns], &matrix)?;
    let dims = im.dims_of(x);
    let lead: Vec<Size> = dims[..dims.len() - 2].iter().map(|d| Size::Expr(*d)).collect();
    let sizes = |last: &[u64]| -> Vec<Size> {
        lead.iter().copied().chain(last.iter().map(|n| Size::Number(*n))).collect()
    };
    let mut flat = sizes(&[rows]);
    if flat.len() == 1 {
        flat.insert(0, Size::Number(1));
    }
    let flat = im.b.reshape(&label("points"), x, &flat)?;
    let y = im.b.matmul(&label("spectrum"), flat, matrix, None)?;
    Ok(im.b.reshape(&label("parts"), y, &sizes(&[points as u64, results as u64]))?)
}

/// Input `i` as one number that is known now.
fn number<'m>(im: &Importer<'m>, node: &Node<'m>, i: usize, what: &str) -> Result<Option<i64>, Fail> {
    match im.constant_integers(node, i, what)?.as_deref() {
        None => Ok(None),
        Some([n]) => Ok(Some(*n)),
        Some(_) => Err(node.wrong(format!("{what} is not one number"))),
    }
}

fn length_of(node: &Node<'_>, n: i64) -> Result<usize, Fail> {
    let n = usize::try_from(n).ok().filter(|n| *n > 0 && *n <= MOST);
    n.ok_or_else(|| node.wrong("the length of a transform"))
}

/// Points along an axis and whether there are imaginary parts.
fn signal(im: &Importer<'_>, node: &Node<'_>, x: Value, axis: usize) -> Result<(usize, bool), Fail> {
    let dims = im.dims_of(x);
    let known = |d| im.b.graph.dims.known(d).and_then(|n| usize::try_from(n).ok());
    let parts = dims.last().and_then(|d| known(*d));
    match (dims.get(axis).and_then(|d| known(*d)), parts) {
        (Some(n), Some(parts @ 1..=2)) if n <= MOST => Ok((n, parts == 2)),
        (None, _) => unsupported("a transform along an open size"),
        _ => Err(node.wrong("a signal has one or two numbers for each point")),
    }
}

fn dft<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let (inverse, onesided) = (node.int("inverse", 0)? != 0, node.int("onesided", 0)? != 0);
    let (x, _) = im.input(node, 0)?;
    let rank = im.rank(x);
    // The axis was an attribute before version 20.
    let axis = match number(im, node, 2, "the axis")? {
        Some(axis) => axis,
        None => node.int("axis", if im.opset < 20 { 1 } else { -2 })?,
    };
    let axis = node.axis(axis, rank)?;
    if axis + 1 >= rank {
        return Err(node.wrong("a transform along the last axis, which has the parts of a number"));
    }
    let (given, complex) = signal(im, node, x, axis)?;
    let half = inverse && onesided;
    let default = if half { given.saturating_sub(1) * 2 } else { given };
    let length = number(im, node, 1, "the length")?.unwrap_or(default as i64);
    let length = length_of(node, length)?;
    let mut order: Vec<usize> = (0..rank).filter(|a| *a != axis).collect();
    order.insert(rank - 2, axis);
    let moved = axis + 2 != rank;
    let points = if moved { im.b.transpose(&format!("{}:axis", node.name), x, &order)? } else { x };
    let t = Transform { given, length, complex, inverse, onesided };
    let y = transformed(im, node, points, t)?;
    if !moved {
        return one(y, false);
    }
    let mut back: Vec<usize> = (0..rank - 2).chain([rank - 1]).collect();
    back.insert(axis, rank - 2);
    one(im.b.transpose(&node.name, y, &back)?, false)
}

fn stft<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let onesided = node.int("onesided", 1)? != 0;
    let (x, _) = im.input(node, 0)?;
    let label = |what: &str| format!("{}:{what}", node.name);
    if im.rank(x) != 3 {
        return Err(node.wrong("a signal has three axes: batch, points, parts"));
    }
    let (samples, complex) = signal(im, node, x, 1)?;
    let step = number(im, node, 1, "the step")?.ok_or_else(|| node.wrong("the step is missing"))?;
    let step = length_of(node, step)?;
    let window = im.optional(node, 2)?.map(|(v, _)| v);
    let of_window = window.and_then(|w| im.b.graph.known_dims(w)).and_then(|d| d.first().copied());
    let length = match number(im, node, 3, "the length")? {
        Some(n) => length_of(node, n)?,
        None => length_of(node, of_window.and_then(|n| i64::try_from(n).ok()).unwrap_or(0))?,
    };
    if of_window.is_some_and(|n| n != length as u64) || length > samples {
        return Err(node.wrong(format!("frames of {length} points")));
    }
    let frames = (samples - length) / step + 1;
    if frames.saturating_mul(length) > MOST {
        return unsupported(format!("{frames} frames of {length} points"));
    }
    let at: Vec<i32> = (0..frames * length).map(|i| (i / length * step + i % length) as i32).collect();
    let at = im.b.constant(DType::I32, &[frames as u64, length as u64], Data::from_slice(&at))?;
    let mut y = im.b.gather(&label("frames"), x, at, 1)?;
    if let Some(window) = window {
        let column =
            im.b.reshape(&label("window"), window, &[Size::Number(length as u64), Size::Number(1)])?;
        y = im.b.mul(&label("windowed"), y, column)?;
    }
    let t = Transform { given: length, length, complex, inverse: false, onesided };
    one(transformed(im, node, y, t)?, false)
}

/// Triangles over the bins of a spectrum, evenly spaced on the mel scale.
fn mel_weights<'m>(im: &mut Importer<'m>, node: &Node<'m>) -> Result<Vec<Item>, Fail> {
    let code = node.int("output_datatype", 1)?;
    let dtype = i32::try_from(code).ok().and_then(tensor::dtype);
    let mut numbers = Vec::new();
    for (i, what) in ["the number of bands", "the length", "the rate"].into_iter().enumerate() {
        let n = number(im, node, i, what)?.and_then(|n| usize::try_from(n).ok());
        numbers.push(n.filter(|n| *n > 0).ok_or_else(|| node.wrong(format!("{what} is not above 0")))?);
    }
    let (bands, length, rate) = (numbers[0], numbers[1], numbers[2]);
    let edge = |i: usize| im.constant(node, i).and_then(Constant::floats).and_then(|v| v.first().copied());
    let (Some(low), Some(high)) = (edge(3), edge(4)) else {
        return unsupported("edges that are not constant");
    };
    let bins = length / 2 + 1;
    if bins.saturating_mul(bands) > MOST {
        return unsupported(format!("{bins} bins and {bands} bands"));
    }
    let mel = |hertz: f32| 2595.0 * (1.0 + f64::from(hertz) / 700.0).log10();
    let step = (mel(high) - mel(low)) / (bands + 2) as f64;
    // The bin of each corner.
    let corner = |i: usize| {
        let hertz = 700.0 * (10f64.powf((mel(low) + i as f64 * step) / 2595.0) - 1.0);
        ((length as f64 + 1.0) * hertz / rate as f64).floor()
    };
    let mut weights = vec![0.0; bins * bands];
    for band in 0..bands {
        let (left, peak, right) = (corner(band), corner(band + 1), corner(band + 2));
        for bin in 0..bins {
            let at = bin as f64;
            weights[bin * bands + band] = if at == peak {
                1.0
            } else if at >= left && at < peak {
                (at - left) / (peak - left)
            } else if at > peak && at < right {
                (right - at) / (right - peak)
            } else {
                0.0
            };
        }
    }
    let dims = [bins as u64, bands as u64];
    match dtype {
        Some(dtype @ (DType::F32 | DType::F64 | DType::F16 | DType::BF16)) => {
            one(floats(im, node, dtype, &dims, &weights)?, false)
        }
        _ => unsupported(format!("weights of element type code {code}")),
    }
}
