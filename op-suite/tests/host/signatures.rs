//! Signatures: every one that an op accepts, and only those.

use super::{CASES, make_signature, signature};
use serinette_core::DType;
use serinette_core::op::{self, OpDescriptor};
use serinette_core::schedule::record::Signature;
use serinette_host_kernels::registry;
use std::collections::BTreeSet;

/// Every list of element types that an op accepts; a repeated last input is there once.
fn accepted(op: &OpDescriptor) -> Vec<(Vec<Option<DType>>, Vec<DType>)> {
    let mut lists: Vec<Vec<Option<DType>>> = vec![vec![]];
    let (least, most) = (op.min_inputs(), op.inputs.len());
    let operands = op.inputs.iter().chain(op.outputs);
    let mut all = Vec::new();
    for inputs in least..=most {
        lists.truncate(0);
        lists.push(vec![]);
        for (i, operand) in operands.clone().enumerate().filter(|(i, _)| *i < inputs || *i >= most) {
            // An optional input at the end is left out by giving fewer inputs.
            let may_lack = operand.optional && i + 1 < inputs;
            let choices: Vec<_> = operand.dtypes.iter().map(Some).chain(may_lack.then_some(None)).collect();
            // Tied operands have one type: lists that cannot be accepted are not continued.
            let tied: Vec<_> = operands
                .clone()
                .enumerate()
                .filter(|(k, o)| {
                    *k < i && (*k < inputs || *k >= most) && operand.tie != '-' && o.tie == operand.tie
                })
                .map(|(k, _)| if k < inputs { k } else { k - most + inputs })
                .collect();
            let fits = |l: &[Option<DType>], c: &Option<DType>| {
                c.is_none() || tied.iter().all(|k| l[*k].is_none() || l[*k] == *c)
            };
            lists = lists
                .iter()
                .flat_map(|l| choices.iter().filter(|c| fits(l, c)).map(|c| [&l[..], &[*c]].concat()))
                .collect();
        }
        for list in &lists {
            let outputs: Vec<_> = list[inputs..].iter().map(|t| t.expect("an output")).collect();
            if op.accepts(&list[..inputs], &outputs) {
                all.push((list[..inputs].to_vec(), outputs));
            }
        }
    }
    all
}

#[test]
fn every_signature_has_cases_and_one_kernel() {
    let signatures: BTreeSet<_> = CASES
        .iter()
        .map(|c| {
            let s = signature(c);
            (s.op, s.version, s.inputs, s.dtypes)
        })
        .collect();
    let mut used = BTreeSet::new();
    for op in op::ALL {
        let accepted = accepted(op);
        assert!(!accepted.is_empty(), "{}", op.name);
        for (inputs, outputs) in accepted {
            let s = make_signature((op.code, op.version), &inputs, &outputs);
            assert!(
                signatures.contains(&(s.op, s.version, s.inputs, s.dtypes)),
                "no case for {} of {inputs:?} giving {outputs:?}",
                op.name
            );
            let kernels: Vec<_> = registry::all().filter(|r| r.accepts(&s)).map(|r| r.name).collect();
            assert_eq!(kernels.len(), 1, "{} of {inputs:?} giving {outputs:?}: {kernels:?}", op.name);
            used.extend(kernels);
        }
    }
    assert_eq!(used.len(), registry::all().count(), "kernels registered that no signature reaches");
}

#[test]
fn foreign_signatures_have_no_kernel() {
    let f32s = [Some(DType::F32), Some(DType::F32)];
    let good = make_signature((1, 1), &f32s, &[DType::F32]);
    assert!(registry::find(&good).is_some());
    for bad in [
        Signature { op: 999, ..good },
        Signature { version: 2, ..good },
        Signature { variant: 1, ..good },
        Signature { inputs: 255, ..good },
        Signature { outputs: 0, ..good },
        Signature { inputs: 1, outputs: 2, ..good },
        Signature { dtypes: [77; 24], ..good },
        make_signature((1, 1), &f32s, &[DType::F16]),
    ] {
        assert!(registry::find(&bad).is_none(), "{bad:?}");
    }
}
