//! Checks of the library as a whole that need no device.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::{Library, generated, table};
use serinette_core::op::{ALL, OpDescriptor};
use serinette_dispatch::{KernelLibrary, LowerError, LowerStep, MAX_PARAMS};
use std::process::Command;

/// All modules together; a kernel that is unrolled too far shows here.
const MOST_SPIRV_BYTES: usize = 400 << 10;

/// What has no kernel at all is listed in `tests/kernels/host_only.txt`.
#[test]
fn an_op_has_one_family() {
    for (op, _) in table() {
        let same = |o: &OpDescriptor| (o.code, o.version) == (op.code, op.version);
        assert!(ALL.iter().any(|o| same(o)), "{} is not in the op table", op.name);
        assert_eq!(table().filter(|(o, _)| same(o)).count(), 1, "{} is lowered by several families", op.name);
    }
}

#[test]
fn kernels_are_distinct_and_small() {
    let kernels = Library.kernels();
    for (i, k) in kernels.iter().enumerate() {
        assert!(kernels.iter().skip(i + 1).all(|other| other.name != k.name), "{}", k.name);
        assert!(k.param_words as usize <= MAX_PARAMS);
        assert_eq!(k.spirv.first(), Some(&0x0723_0203));
        assert_eq!(k.spirv.get(1), Some(&0x0001_0300), "SPIR-V 1.3");
    }
    let bytes: usize = kernels.iter().map(|k| k.spirv.len() * 4).sum();
    println!("{bytes} bytes of SPIR-V in {} kernels", kernels.len());
    assert!(bytes <= MOST_SPIRV_BYTES, "{bytes} bytes of SPIR-V");
}

#[test]
fn an_unknown_op_has_no_kernel() {
    let step = LowerStep {
        step: 0,
        op: 0xC000,
        version: 1,
        attrs: &[],
        inputs: &[],
        outputs: &[],
        scratch: None,
        expr: &|_| None,
    };
    let caps = serinette_dispatch::DeviceCaps {
        max_workgroups: [65_535; 3],
        max_invocations: 256,
        shared_bytes: 16 << 10,
        max_binding: 1 << 27,
        max_buffer: 1 << 28,
        window_align: 256,
        immediate_bytes: 128,
        subgroup: [1, 1],
        unified_memory: false,
    };
    assert_eq!(Library.lower(&step, &caps, &mut |_| unreachable!()), Err(LowerError::NoKernel));
}

/// The SPIR-V validator of the system, where there is one, accepts every module for Vulkan 1.1.
#[test]
fn modules_are_valid() {
    let dir = std::env::temp_dir().join(format!("serinette-spirv-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    for k in generated::KERNELS {
        let path = dir.join(k.name);
        std::fs::write(&path, k.spirv.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>()).unwrap();
        match Command::new("spirv-val").args(["--target-env", "vulkan1.1"]).arg(&path).output() {
            Ok(out) => {
                assert!(out.status.success(), "{}: {}", k.name, String::from_utf8_lossy(&out.stderr));
            }
            Err(e) => {
                println!("spirv-val not run: {e}");
                break;
            }
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
