//! Self-tests that `compile` puts into a blob.

use crate::args::TestOf;
use crate::failure::Failure;
use serinette::Model;

/// The model with the self-tests that flags ask for.
#[cfg(not(feature = "compiler"))]
pub fn add(model: Model, _: &[TestOf]) -> Result<Model, Failure> {
    Ok(model)
}

#[cfg(feature = "compiler")]
pub use made::add;

#[cfg(feature = "compiler")]
mod made {
    use super::{Failure, Model, TestOf};
    use crate::args::{Dim, InputArgs};
    use crate::entry::{self, Callable};
    use crate::input::{self, npz};
    use crate::tensor::Tensor;
    use serinette::compile::{SelfTestCase, add_self_tests};
    use serinette::core::schedule::record::{entry_kind, symbol_kind};
    use std::path::Path;

    /// The model with the self-tests that flags ask for.
    pub fn add(model: Model, tests: &[TestOf]) -> Result<Model, Failure> {
        if tests.is_empty() {
            return Ok(model);
        }
        let mut bytes = model.bytes().to_vec();
        for t in tests {
            bytes = match t {
                TestOf::File(path) => {
                    let cases = from_arrays(&model, path)?;
                    add_self_tests(bytes, &cases).map_err(|e| Failure::file(path, e))?
                }
                TestOf::Seed(seed) => {
                    // Several elements along open axes test more than one; where sizes are bound to each other, the
                    // lowest are taken.
                    let made =
                        from_seed(&model, *seed, 2).and_then(|c| Ok(add_self_tests(bytes.clone(), &c)?));
                    match made {
                        Ok(b) => b,
                        Err(_) => add_self_tests(bytes, &from_seed(&model, *seed, 0)?)
                            .map_err(|e| Failure::from(e).within(format!("--self-test {seed}")))?,
                    }
                }
            };
        }
        Ok(Model::from_bytes(bytes)?)
    }

    fn callables(model: &Model) -> Result<Vec<Callable<'_>>, Failure> {
        let program = model.program();
        let all = program.entries.iter().filter(|(_, e)| e.kind == entry_kind::CALL);
        all.map(|(_, record)| Ok(Callable { name: program.text(record.name)?, record })).collect()
    }

    /// Random inputs for every entry. Open sizes are `more` multiples above the least, as far as they may be.
    fn from_seed(model: &Model, seed: u64, more: u64) -> Result<Vec<SelfTestCase>, Failure> {
        let program = model.program();
        let mut dim = Vec::new();
        for (_, s) in program.symbols.iter().filter(|(_, s)| s.kind == symbol_kind::INPUT) {
            let multiple = s.multiple_of.max(1);
            let low = s.low.next_multiple_of(multiple);
            let value = low.saturating_add(multiple.saturating_mul(more)).min(s.high / multiple * multiple);
            dim.push(Dim { name: program.text(s.name)?.into(), value });
        }
        let mut cases = Vec::new();
        for (i, c) in callables(model)?.iter().enumerate() {
            let args = InputArgs { dim: dim.clone(), ..InputArgs::default() };
            // One seed for several entries shall not make their inputs equal.
            let seed = seed.wrapping_add(i as u64);
            let inputs = input::load(model, c, &args, Some(seed))?;
            let sizes = inputs.sizes.clone();
            let inputs = inputs.tensors.into_iter().map(|(n, t)| (n, owned(t))).collect();
            cases.push(SelfTestCase { entry: c.name.into(), inputs, sizes, expected: Vec::new() });
        }
        Ok(cases)
    }

    /// A case for each entry whose inputs are all in an archive, with those of its outputs that are there.
    fn from_arrays(model: &Model, path: &Path) -> Result<Vec<SelfTestCase>, Failure> {
        let arrays = npz::read(path)?;
        let find = |name: &str| {
            let found = arrays.iter().find(|(n, _)| n == name);
            found.map(|(n, t)| (n.clone(), owned(t.clone())))
        };
        let (mut cases, mut lacking) = (Vec::new(), Vec::new());
        for c in callables(model)? {
            let ports = entry::inputs(model, c.record)?;
            let missing: Vec<&str> =
                ports.iter().map(|p| p.name.as_str()).filter(|n| find(n).is_none()).collect();
            if !missing.is_empty() {
                lacking.push(format!("'{}' lacks {}", c.name, missing.join(", ")));
                continue;
            }
            let inputs = ports.iter().filter_map(|p| find(&p.name)).collect();
            let outputs = entry::outputs(model, c.record)?;
            let expected = outputs.iter().filter_map(|p| find(&p.name)).collect();
            cases.push(SelfTestCase { entry: c.name.into(), inputs, sizes: Vec::new(), expected });
        }
        if cases.is_empty() {
            let what = format!("no entry has all of its inputs there: {}", lacking.join("; "));
            return Err(Failure::file(path, what));
        }
        Ok(cases)
    }

    fn owned(t: Tensor) -> serinette::Tensor {
        serinette::Tensor { dtype: t.dtype, shape: t.shape, bytes: t.bytes }
    }
}
