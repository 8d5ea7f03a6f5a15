//! Making self-tests: the host computes what is expected.

use crate::device::Device;
use crate::error::Error;
use crate::model::Model;
use crate::self_test::{Vector, compare};
use crate::session::SessionOptions;
use crate::tensor::{Tensor, TensorView};
use serinette_compiler::blob::Blob;
use serinette_core::DType;
use serinette_core::schedule::record::{SelfTest, WeightSection, role, symbol_kind};

/// What an entry shall be tested with.
#[derive(Clone, Debug, Default)]
pub struct SelfTestCase {
    /// Entry.
    pub entry: String,
    /// Its inputs by name.
    pub inputs: Vec<(String, Tensor)>,
    /// Open sizes that the inputs do not decide.
    pub sizes: Vec<(String, u64)>,
    /// Outputs known from elsewhere: what the host computes must agree with them.
    pub expected: Vec<(String, Tensor)>,
}

/// How far outputs may differ, relative to their largest magnitude: sums of a few thousand products in another order;
/// two units of the last place where the program computes with half precision.
fn tolerance(model: &Model) -> f64 {
    let values = model.program().values.iter();
    let computed = values.filter(|(_, v)| v.role == role::INTERMEDIATE);
    computed.fold(1e-4, |worst: f64, (_, v)| match DType::from_code(v.dtype) {
        Some(DType::F16) => worst.max(2.0 / 1024.0),
        Some(DType::BF16) => worst.max(2.0 / 128.0),
        _ => worst,
    })
}

/// Adds self-tests to a blob: runs each case on the host with the reference kernels and keeps inputs and outputs.
///
/// # Errors
/// A file that is no blob, cases that do not fit it or do not run, and outputs that are not those expected.
pub fn add_self_tests(file: Vec<u8>, cases: &[SelfTestCase]) -> Result<Vec<u8>, Error> {
    let mut blob = Blob::read(&file)?;
    let model = Model::from_bytes(file)?;
    let (section, tolerance) = (blob.weights.len() as u32, tolerance(&model));
    let mut data: Vec<u8> = Vec::new();
    for case in cases {
        let (offset, test) = (data.len() as u64, blob.self_tests.len() as u32);
        let entry = record(&model, case, test, tolerance, &mut data)?;
        let tolerance = (tolerance * f64::from(1 << 24)).round() as u32;
        blob.self_tests.push(SelfTest { entry, section, offset, tolerance, reserved: 0 });
    }
    let name = blob.text("self-test");
    blob.weights.push(WeightSection { name, ..bytemuck::Zeroable::zeroed() });
    blob.weight_data.push(data);
    let file = blob.to_bytes();
    // What is written has run once as whoever gets it will run it.
    let model = Model::from_bytes(file)?;
    model.run_self_tests(&Device::Host)?;
    Ok(model.bytes().to_vec())
}

/// Runs a case and appends its sizes, inputs and outputs; gives the number of its entry.
fn record(
    model: &Model,
    case: &SelfTestCase,
    test: u32,
    tolerance: f64,
    data: &mut Vec<u8>,
) -> Result<u32, Error> {
    let options = SessionOptions { deterministic: true, ..SessionOptions::default() };
    let mut session = model.session(&Device::Host, &options)?;
    for (name, value) in &case.sizes {
        session.set_dim(name, *value)?;
    }
    let inputs: Vec<(&str, TensorView<'_>)> =
        case.inputs.iter().map(|(n, t)| (n.as_str(), t.view())).collect();
    let outputs = session.run(&case.entry, &inputs)?;
    let expected = Vector {
        entry: case.entry.clone(),
        sizes: Vec::new(),
        inputs: Vec::new(),
        outputs: case.expected.clone(),
        tolerance,
    };
    compare(test, &expected, &outputs)?;
    let outputs: Vec<Vec<u8>> = outputs.iter().map(|o| o.bytes.to_vec()).collect();
    let program = model.program();
    for ((_, s), value) in program.symbols.iter().zip(session.symbols()) {
        let value = if s.kind == symbol_kind::COUNTER { 0 } else { *value };
        data.extend_from_slice(&value.to_le_bytes());
    }
    // It ran, so it is there.
    let Some((id, entry)) = program.entry(&case.entry) else { return Ok(0) };
    for v in program.entry_inputs(entry)? {
        let name = program.text(program.values.get(v)?.name)?;
        let given = inputs.iter().find(|(n, _)| *n == name);
        append(data, given.map_or(&[], |(_, t)| t.bytes));
    }
    outputs.iter().for_each(|o| append(data, o));
    Ok(id)
}

/// Tensors start at multiples of 8.
fn append(data: &mut Vec<u8>, bytes: &[u8]) {
    data.extend_from_slice(bytes);
    data.resize(data.len().next_multiple_of(8), 0);
}
