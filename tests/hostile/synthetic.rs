//! Large blobs, well-meant and not.

use crate::harness::build::Build;
use crate::harness::choice::Seeded;
use crate::harness::draft::Draft;
use crate::harness::random::{Options, program};
use serinette_compiler::blob::Blob;
use serinette_core::op::{binary, unary};
use serinette_core::schedule::record::*;
use serinette_core::{DType, NONE};

/// About `steps` steps with 50 live slots; waves of up to `wave` steps.
pub fn large(steps: usize, wave: usize) -> Blob {
    program(
        &mut Seeded(steps as u64),
        Options { ops: steps * 3 / 4, live: 50, wave, regions: false, depth: 0 },
    )
}

/// `n` slots that become live one by one, from the highest address to the lowest, and die in that order.
pub fn descending(n: u32) -> Blob {
    let mut b = Build::default();
    let one = b.constant(1);
    let x = b.value(DType::F32, role::INPUT, &[one]);
    let mut d = Draft::default();
    let values: Vec<u32> = (0..n).map(|_| b.value(DType::F32, role::INTERMEDIATE, &[one])).collect();
    for v in &values {
        b.op(&unary::RELU, &[0u8; 0], &[x], &[*v], [0; 4]);
        d.wave(1, &[*v], &[]);
    }
    for v in &values {
        b.op(&unary::RELU, &[0u8; 0], &[x], &[*v], [0; 4]);
        d.wave(1, &[], &[*v]);
    }
    b.entry("main", entry_kind::CALL, &[x], &[]);
    let mut plan = d.plan(&b, &[], 8);
    let top = plan.arenas[0].1;
    plan.slots.iter_mut().for_each(|s| s.1 = top - 8 - s.1);
    plan.write(&mut b.blob, "plan");
    b.blob.max_live = n + 1;
    b.blob
}

/// `n` values whose names are each nearly all of a string section of `16 n` bytes.
pub fn long_names(n: u32) -> Blob {
    let mut b = Build::default();
    let one = b.constant(1);
    b.blob.strings = vec![b'a'; 16 * n as usize];
    for i in 0..n {
        let v = b.value(DType::F32, role::STATE, &[one]);
        b.blob.values[v as usize].name = Text { offset: i % 16, length: 16 * n - 16 };
    }
    Draft::default().plan(&b, &[], 8).write(&mut b.blob, "plan");
    b.blob
}

/// `n` relations between sizes.
pub fn guards(n: u32) -> Blob {
    let mut b = Build::default();
    let one = b.constant(1);
    b.blob.guards = vec![Guard { relation: 0, a: one, b: one, reserved: 0 }; n as usize];
    Draft::default().plan(&b, &[], 8).write(&mut b.blob, "plan");
    b.blob
}

/// `n` steps whose attributes are the same long range of zeros.
pub fn long_attributes(n: u32) -> Blob {
    let mut b = Build::default();
    let one = b.constant(1);
    let x = b.value(DType::F32, role::STATE, &[one]);
    let mut d = Draft::default();
    for _ in 0..n {
        b.op(&binary::ADD, &binary::Binary::default(), &[x, x], &[x], [0; 4]);
        d.wave(1, &[], &[]);
    }
    b.blob.attributes = vec![0; 32 * n as usize];
    for s in &mut b.blob.steps {
        (s.attrs, s.attr_bytes) = (0, 32 * n);
    }
    b.entry("main", entry_kind::CALL, &[], &[]);
    d.plan(&b, &[], 8).write(&mut b.blob, "plan");
    b.blob.max_live = 1;
    b.blob
}

/// `n` waves that all define and kill the same `n` slots.
pub fn shared_lists(n: u32) -> Blob {
    let mut blob = descending(n);
    let plan = &mut blob.plans[0];
    for w in &mut blob.waves {
        (w.defs, w.kills) = ([0, n], [0, n]);
    }
    blob.slot_lists = (0..n).map(|i| i + 1).collect();
    plan.lists[1] = n;
    blob
}

/// Eight nested loops, each carrying the same 127 values, around `n` steps that write the last of them.
pub fn deep_lists(n: u32) -> Blob {
    let mut b = Build::default();
    let one = b.constant(1);
    let x = b.value(DType::F32, role::INPUT, &[one]);
    let mut d = Draft::default();
    let carried: Vec<u32> = (0..127).map(|_| b.value(DType::F32, role::INTERMEDIATE, &[one])).collect();
    for v in &carried {
        b.op(&unary::RELU, &[0u8; 0], &[x], &[*v], [0; 4]);
        d.wave(1, &[*v], &[]);
    }
    let inputs: Vec<u32> = [NONE, NONE].into_iter().chain(carried.iter().copied()).collect();
    let opens: Vec<u32> = (0..8).map(|_| b.edge(step_kind::LOOP, &inputs, &carried)).collect();
    opens.iter().for_each(|o| {
        b.set_loop(*o, one, None);
        d.wave(1, &[], &[]);
    });
    for _ in 0..n {
        b.op(&unary::RELU, &[0u8; 0], &[x], &[carried[126]], [0; 4]);
        d.wave(1, &[], &[]);
    }
    for o in opens.iter().rev() {
        let end = b.edge(step_kind::END, &[], &[]);
        b.close(&[*o, end]);
        d.wave(1, &[], &[]);
    }
    b.entry("main", entry_kind::CALL, &[x], &[]);
    d.plan(&b, &[], 8).write(&mut b.blob, "plan");
    b.blob.max_live = 128;
    b.blob
}
