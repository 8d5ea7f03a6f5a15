//! Self-tests: inputs and outputs that a blob brings along, to check a new driver or port.
//!
//! A vector holds sizes, inputs, and the outputs that the reference kernels of the host gave for them from zero state
//! and initial params. Running them compares a device with that.

use crate::device::Device;
use crate::error::Error;
use crate::model::Model;
use crate::session::{Outputs, SessionOptions};
use crate::tensor::{Tensor, TensorView};
use serinette_core::schedule::bind::bind;
use serinette_core::schedule::record::{SectionId, SelfTest, symbol_kind};
use serinette_core::schedule::{self, Reason};
use serinette_core::{DType, op};

/// One unit of [`SelfTest::tolerance`].
const UNIT: f64 = 1.0 / (1 << 24) as f64;

/// A vector that agreed.
#[derive(Clone, Debug, PartialEq)]
pub struct Passed {
    /// Entry.
    pub entry: String,
    /// Open sizes, in the order of the program.
    pub sizes: Vec<(String, u64)>,
    /// Outputs compared.
    pub outputs: usize,
    /// Largest difference of floating-point numbers, relative to the largest magnitude of their output.
    pub deviation: f64,
    /// What it might have been.
    pub tolerance: f64,
}

/// What is wrong with the outputs of a self-test.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// Number of the test in the blob.
    pub test: u32,
    /// Entry.
    pub entry: String,
    /// Output.
    pub output: String,
    /// First element that differs, as a flat index.
    pub element: usize,
    /// What the blob says.
    pub expected: f64,
    /// What came.
    pub found: f64,
    /// How far floating-point elements of this output might differ.
    pub tolerance: f64,
    /// How many elements differ.
    pub count: usize,
}

impl std::fmt::Display for Deviation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Deviation { test, entry, output, element, expected, found, tolerance, count } = self;
        write!(
            f,
            "self-test {test} of entry '{entry}': output '{output}': {count} elements differ; element "
        )?;
        write!(f, "{element} is {found}, expected {expected}")?;
        if *tolerance > 0.0 { write!(f, " within {tolerance:.3e}") } else { Ok(()) }
    }
}

/// A vector as it lies in the blob.
pub(crate) struct Vector {
    pub entry: String,
    pub sizes: Vec<(String, u64)>,
    pub inputs: Vec<(String, Tensor)>,
    pub outputs: Vec<(String, Tensor)>,
    pub tolerance: f64,
}

impl Model {
    /// How many self-tests the blob holds.
    pub fn self_tests(&self) -> u32 {
        self.program().self_tests.len() as u32
    }

    /// Runs every self-test on a device, each in a session of its own.
    ///
    /// # Errors
    /// The first test that deviates, with names and numbers; vectors that are not all there; what else keeps a session
    /// from running.
    pub fn run_self_tests(&self, device: &Device) -> Result<Vec<Passed>, Error> {
        let mut passed = Vec::new();
        for (id, t) in self.program().self_tests.iter() {
            let v = read(self, device, id, t)?;
            let sizes: Vec<(&str, u64)> = v.sizes.iter().map(|(n, s)| (n.as_str(), *s)).collect();
            let mut session = self.session_for(device, &SessionOptions::default(), &sizes)?;
            let inputs: Vec<(&str, TensorView<'_>)> =
                v.inputs.iter().map(|(n, t)| (n.as_str(), t.view())).collect();
            let outputs = session.run(&v.entry, &inputs)?;
            let deviation = compare(id, &v, &outputs)?;
            let outputs = v.outputs.len();
            passed.push(Passed {
                entry: v.entry,
                sizes: v.sizes,
                outputs,
                deviation,
                tolerance: v.tolerance,
            });
        }
        Ok(passed)
    }
}

/// Reads a vector; `device` chooses the plan whose bounds its sizes must fit.
fn read(model: &Model, device: &Device, id: u32, t: &SelfTest) -> Result<Vector, Error> {
    let program = model.program();
    let mut data =
        Data { bytes: model.weights(t.section), at: usize::try_from(t.offset).unwrap_or(usize::MAX), id };
    let (mut symbols, mut sizes) = (Vec::new(), Vec::new());
    for (_, s) in program.symbols.iter() {
        let bytes = data.take(8)?;
        let value = bytes.try_into().map_or(0, u64::from_le_bytes);
        if s.kind == symbol_kind::INPUT {
            sizes.push((program.text(s.name)?.to_string(), value));
        }
        symbols.push(value);
    }
    let named: Vec<(&str, u64)> = sizes.iter().map(|(n, s)| (n.as_str(), *s)).collect();
    let (plan, _) = model.plan_for(device.parallel(), &named)?;
    let mut exprs = vec![0; program.exprs.len()];
    let bindings = bind(program, op::ALL, plan, &symbols, &mut exprs)?;
    let entry = program.entries.get(t.entry)?;
    let mut tensors = |ids: &mut dyn Iterator<Item = u32>| -> Result<Vec<(String, Tensor)>, Error> {
        let mut all = Vec::new();
        for v in ids {
            let b = bindings.value(v, &[])?;
            let bytes = data.take(b.bytes)?.to_vec();
            let tensor = Tensor { dtype: b.dtype, shape: b.shape.dims().to_vec(), bytes };
            all.push((program.text(program.values.get(v)?.name)?.to_string(), tensor));
        }
        Ok(all)
    };
    let inputs = tensors(&mut program.entry_inputs(entry)?)?;
    let outputs = tensors(&mut program.entry_outputs(entry)?)?;
    let tolerance = f64::from(t.tolerance) * UNIT;
    Ok(Vector { entry: program.text(entry.name)?.to_string(), sizes, inputs, outputs, tolerance })
}

/// The bytes of a vector, front to back, each tensor at a multiple of 8.
struct Data<'a> {
    bytes: &'a [u8],
    at: usize,
    id: u32,
}

impl<'a> Data<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let end = self.at.saturating_add(count);
        let (expected, found) = (end as u64, self.bytes.len() as u64);
        let missing =
            schedule::Error::at(Reason::WeightRange, SectionId::SelfTests, self.id, expected, found);
        let taken = self.bytes.get(self.at..end).ok_or(missing)?;
        self.at = end.checked_next_multiple_of(8).unwrap_or(usize::MAX);
        Ok(taken)
    }
}

/// Compares all outputs of a run; gives the largest deviation.
pub(crate) fn compare(test: u32, v: &Vector, found: &Outputs<'_>) -> Result<f64, Error> {
    let mut worst = 0.0f64;
    for (name, want) in &v.outputs {
        let (have, want) = (found.named(name)?, want.view());
        let have = have.view();
        if have.dtype != want.dtype || have.shape != want.shape {
            let (expected, found) = (format!("{:?}", want.shape), have.shape.to_vec());
            return Err(Error::Shape { name: name.clone(), expected, found });
        }
        let deviation = |element, expected, found, tolerance, count| {
            let (entry, output) = (v.entry.clone(), name.clone());
            Deviation { test, entry, output, element, expected, found, tolerance, count }
        };
        worst =
            worst.max(differ(have, want, v.tolerance, &deviation).map_err(|d| Error::SelfTest(Box::new(d)))?);
    }
    Ok(worst)
}

/// The largest relative deviation of two tensors of one type and shape.
fn differ(
    have: TensorView<'_>,
    want: TensorView<'_>,
    tolerance: f64,
    deviation: &dyn Fn(usize, f64, f64, f64, usize) -> Deviation,
) -> Result<f64, Deviation> {
    let floats = matches!(want.dtype, DType::F32 | DType::F16 | DType::BF16 | DType::F64);
    let numbers = |t: TensorView<'_>| t.to_f32().unwrap_or_default();
    let (a, b) = (numbers(have), numbers(want));
    let at = |v: &[f32], i: usize| v.get(i).copied().map_or(f64::NAN, f64::from);
    if !floats {
        let size = want.dtype.size().max(1);
        let mut unequal = have.bytes.chunks(size).zip(want.bytes.chunks(size)).enumerate();
        let mut unequal = unequal.by_ref().filter(|(_, (x, y))| x != y).map(|(i, _)| i);
        return match unequal.next() {
            Some(first) => Err(deviation(first, at(&b, first), at(&a, first), 0.0, 1 + unequal.count())),
            None => Ok(0.0),
        };
    }
    let finite = b.iter().filter(|x| x.is_finite());
    let magnitude = finite.fold(0.0f64, |m, x| m.max(f64::from(x.abs())));
    let (mut worst, mut first, mut count) = (0.0f64, None, 0);
    for (i, (x, y)) in a.iter().zip(&b).enumerate() {
        if x == y || (x.is_nan() && y.is_nan()) {
            continue;
        }
        // Beside a NaN or an infinity nothing is near.
        let distance = (f64::from(*x) - f64::from(*y)).abs();
        let near = x.is_finite() && y.is_finite() && distance <= tolerance * magnitude;
        if near {
            worst = worst.max(distance / magnitude);
        } else {
            first.get_or_insert(i);
            count += 1;
        }
    }
    match first {
        Some(i) => Err(deviation(i, at(&b, i), at(&a, i), tolerance * magnitude, count)),
        None => Ok(worst),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(dtype: DType, a: &[u8], b: &[u8]) -> Result<f64, Deviation> {
        let shape = [a.len() / dtype.size()];
        let view = |bytes| TensorView { dtype, shape: &shape, bytes };
        differ(view(a), view(b), 1e-3, &|element, expected, found, tolerance, count| {
            let (entry, output) = ("main".into(), "y".into());
            Deviation { test: 3, entry, output, element, expected, found, tolerance, count }
        })
    }

    fn floats(v: &[f32]) -> Vec<u8> {
        v.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    #[test]
    fn floats_are_near_by_the_magnitude_of_their_output() {
        let of = |a: &[f32], b: &[f32]| check(DType::F32, &floats(a), &floats(b));
        assert_eq!(of(&[10.0, 0.0], &[10.0, 0.0]), Ok(0.0));
        let worst = of(&[10.0, 0.005], &[10.0, 0.001]).unwrap();
        assert!((worst - 4e-4).abs() < 1e-6, "{worst}");
        assert_eq!(of(&[f32::NAN, f32::INFINITY], &[f32::NAN, f32::INFINITY]), Ok(0.0));
        let wrong = of(&[1.0, 5.0, f32::NAN, 2.0], &[1.0, 2.0, 3.0, f32::INFINITY]).unwrap_err();
        assert_eq!((wrong.element, wrong.count, wrong.expected, wrong.found), (1, 3, 2.0, 5.0));
        let text = wrong.to_string();
        for part in ["self-test 3", "'main'", "'y'", "3 elements", "element 1 is 5, expected 2", "3.000e-3"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn integers_are_equal_or_not() {
        assert_eq!(check(DType::I32, &[1, 0, 0, 0], &[1, 0, 0, 0]), Ok(0.0));
        let wrong = check(DType::I8, &[5, 255, 7], &[5, 254, 8]).unwrap_err();
        assert_eq!((wrong.element, wrong.count, wrong.expected, wrong.found), (1, 2, -2.0, -1.0));
    }
}
