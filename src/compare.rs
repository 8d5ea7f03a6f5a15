//! Finding the first step whose results differ between two devices.

use crate::error::Error;
use crate::session::{Session, Tap};
use crate::tensor::TensorView;
use serinette_core::DType;

/// How far floating-point results may differ. Integers and bools must be equal.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Relative to the larger magnitude of the two.
    pub relative: f32,
    /// Absolute.
    pub absolute: f32,
}

impl Default for Tolerance {
    /// 1e-4 relative or 1e-5 absolute: sums of a few thousand products in another order.
    fn default() -> Tolerance {
        Tolerance { relative: 1e-4, absolute: 1e-5 }
    }
}

/// The first difference.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Step that wrote the value.
    pub step: u32,
    /// Its source name, if the blob has one.
    pub step_name: Option<String>,
    /// Value.
    pub value: u32,
    /// First element that differs, as a flat index.
    pub element: usize,
    /// The element on the first device.
    pub first: f32,
    /// The element on the second device.
    pub second: f32,
    /// How many elements of the value differ.
    pub count: usize,
}

/// Runs an entry on two sessions of one model, step by step, and gives the first step that differs by more than the
/// tolerance; `None` where all agree. Values of several runs of one step (loops) are compared in order.
pub fn first_difference(
    first: &mut Session,
    second: &mut Session,
    entry: &str,
    inputs: &[(&str, TensorView<'_>)],
    tolerance: Tolerance,
) -> Result<Option<Difference>, Error> {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    first.run_tapped(entry, inputs, &mut |t| a.push(t))?;
    second.run_tapped(entry, inputs, &mut |t| b.push(t))?;
    // Plans may order independent steps alike but windows that follow counters are shown by one device only.
    for x in &a {
        let Some(at) = b.iter().position(|y| (y.step, y.value) == (x.step, x.value)) else { continue };
        let y = b.remove(at);
        if let Some((element, p, q, count)) = differ(x, &y, tolerance) {
            return Ok(Some(Difference {
                step: x.step,
                step_name: first.model().step_name(x.step),
                value: x.value,
                element,
                first: p,
                second: q,
                count,
            }));
        }
    }
    Ok(None)
}

fn differ(a: &Tap, b: &Tap, t: Tolerance) -> Option<(usize, f32, f32, usize)> {
    let view = |x: &Tap| TensorView { dtype: x.dtype, shape: &x.shape, bytes: &x.bytes }.to_f32();
    let floats = matches!(a.dtype, DType::F32 | DType::F16);
    if !floats {
        let size = a.dtype.size();
        let unequal =
            || a.bytes.chunks(size).zip(b.bytes.chunks(size)).enumerate().filter(|(_, (x, y))| x != y);
        let (element, _) = unequal().next()?;
        let (x, y) = (view(a).unwrap_or_default(), view(b).unwrap_or_default());
        let at = |v: &[f32]| v.get(element).copied().unwrap_or(f32::NAN);
        return Some((element, at(&x), at(&y), unequal().count()));
    }
    let (x, y) = (view(a)?, view(b)?);
    let wrong = |p: f32, q: f32| {
        if p.is_nan() || q.is_nan() {
            return p.is_nan() != q.is_nan();
        }
        // An infinity is equal to itself and near nothing.
        let finite = p.is_finite() && q.is_finite();
        p != q && (!finite || (p - q).abs() > t.absolute + t.relative * p.abs().max(q.abs()))
    };
    let unequal = || x.iter().zip(&y).enumerate().filter(|(_, (p, q))| wrong(**p, **q));
    let (element, (p, q)) = unequal().next()?;
    Some((element, *p, *q, unequal().count()))
}
