//! The op suite on the GPU kernels, on every shell that finds a device.
//!
//! A case is laid out in an arena whose gaps hold a pattern, so that a write outside of the output shows. Each case
//! runs with its inputs in the arena, then with its inputs in the weights, then in place where the op allows it.
#![cfg(any(feature = "vulkan", feature = "wgpu"))]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use serinette::kernels::Library;
use serinette_core::Shape;
use serinette_dispatch::{
    Buffers, Command, Dispatch, FAULT_WORD, KernelLibrary, LowerError, LowerStep, Operand, Shell, Space,
    Usage, Window,
};
use serinette_op_suite::{Case, Tensor, cases, check};
use std::collections::BTreeMap;
use std::time::Duration;

/// Cases that the kernels do not run, and why: prefixes of names. A prefix that no longer fails is an error.
const NO_KERNEL: &[(&str, &str)] = &[];

const PATTERN: u8 = 0xa5;
const STEP: u32 = 41;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    Arena,
    Weights,
    InPlace(u8, u8),
}

/// Operands one after the other with a gap of a word before each.
#[derive(Default)]
struct Region {
    bytes: Vec<u8>,
}

impl Region {
    fn place(&mut self, contents: Option<&[u8]>, len: usize) -> u64 {
        self.bytes.resize(self.bytes.len() + 4, PATTERN);
        let at = self.bytes.len();
        match contents {
            Some(b) => self.bytes.extend_from_slice(b),
            None => self.bytes.resize(at + len, PATTERN),
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(4), PATTERN);
        at as u64
    }
}

fn operand(t: &Tensor, space: Space, offset: u64) -> Operand {
    Operand { dtype: t.dtype, shape: Shape::new(&t.dims).unwrap(), space, offset }
}

/// What a case gave: outputs, whether the fault word was set, or that there is no kernel.
fn run<S: Shell>(shell: &S, case: &Case, placement: Placement) -> Result<Option<(Vec<Tensor>, u32)>, String> {
    let (mut arena, mut weights) = (Region::default(), Region::default());
    let inputs: Vec<Option<Operand>> = case
        .inputs
        .iter()
        .map(|t| {
            let t = t.as_ref()?;
            let (region, space) = match placement {
                Placement::Weights => (&mut weights, Space::Weights),
                _ => (&mut arena, Space::Arena),
            };
            Some(operand(t, space, region.place(Some(&t.bytes), t.bytes.len())))
        })
        .collect();
    let outputs: Vec<Operand> = case
        .outputs
        .iter()
        .enumerate()
        .map(|(o, t)| match placement {
            Placement::InPlace(i, out) if usize::from(out) == o => {
                operand(t, Space::Arena, inputs[usize::from(i)].unwrap().offset)
            }
            _ => operand(t, Space::Arena, arena.place(None, t.bytes.len())),
        })
        .collect();
    arena.bytes.resize(arena.bytes.len() + 64, PATTERN);
    weights.bytes.resize(weights.bytes.len() + 64, PATTERN);

    let step = LowerStep {
        step: STEP,
        op: case.op.0,
        version: case.op.1,
        attrs: &case.attrs,
        inputs: &inputs,
        outputs: &outputs,
        scratch: None,
        expr: &|i| case.exprs.get(i as usize).copied(),
    };
    let mut dispatches: Vec<Dispatch> = Vec::new();
    match Library.lower(&step, shell.caps(), &mut |d| dispatches.push(d)) {
        Err(LowerError::NoKernel) => return Ok(None),
        Err(e) => return Err(format!("not lowered: {e}")),
        Ok(()) => {}
    }

    // The windows begin inside of the buffers.
    let align = u64::from(shell.caps().window_align).max(4);
    let buffer = |region: &Region, usage| {
        let b = shell.buffer(align + region.bytes.len() as u64, usage).map_err(|e| e.to_string())?;
        shell.upload(&b, align, &region.bytes).map_err(|e| e.to_string())?;
        Ok::<_, String>((b, Window { offset: align, bytes: region.bytes.len() as u64 }))
    };
    let (arena_buffer, arena_window) = buffer(&arena, Usage::Storage)?;
    let (weight_buffer, weight_window) = buffer(&weights, Usage::Weights)?;
    let control = shell.buffer(256, Usage::Storage).map_err(|e| e.to_string())?;
    let mut commands = Vec::new();
    for dispatch in dispatches {
        if dispatch.after_barrier {
            commands.push(Command::Barrier);
        }
        commands.push(Command::Dispatch {
            dispatch,
            arena: arena_window,
            weights: weight_window,
            indirect: None,
        });
    }
    let buffers =
        Buffers { arena: &arena_buffer, weights: Some(&weight_buffer), control: &control, indirect: None };
    // SAFETY: the dispatches come from the library that the shell was opened with, for operands laid out above inside
    // of the two windows, which are inside of the buffers.
    let mut recording =
        unsafe { shell.record(buffers, &commands, 0, 0) }.map_err(|e| format!("not recorded: {e}"))?;
    shell
        .run(&mut recording, &mut |_| (), &mut |_| (), Duration::from_secs(120))
        .map_err(|e| format!("not run: {e}"))?;

    let mut after = vec![0; arena.bytes.len()];
    shell.download(&arena_buffer, align, &mut after).map_err(|e| e.to_string())?;
    let mut words = [0; 4];
    shell.download(&control, u64::from(FAULT_WORD) * 4, &mut words).map_err(|e| e.to_string())?;
    let got = outputs
        .iter()
        .zip(&case.outputs)
        .map(|(o, t)| {
            let at = o.offset as usize;
            Tensor::new(t.dtype, &t.dims, after[at..at + t.bytes.len()].to_vec())
        })
        .collect();
    // Everything outside of the outputs (in whole words) is as it was.
    for (o, t) in outputs.iter().zip(&case.outputs) {
        let at = o.offset as usize;
        let end = at + t.bytes.len().next_multiple_of(4);
        after[at..end].copy_from_slice(&arena.bytes[at..end]);
    }
    if let Some(i) = (0..after.len()).find(|i| after[*i] != arena.bytes[*i]) {
        return Err(format!("byte {i} outside of the outputs was written"));
    }
    Ok(Some((got, u32::from_le_bytes(words))))
}

fn one<S: Shell>(shell: &S, case: &Case, placement: Placement) -> Result<bool, String> {
    let Some((got, fault)) = run(shell, case, placement)? else {
        return Ok(false);
    };
    check(case, &got)?;
    let want = if case.expect_fault { STEP + 1 } else { 0 };
    if fault != want {
        return Err(format!("fault word {fault}, expected {want}"));
    }
    Ok(true)
}

/// Runs the suite and gives the failures.
fn suite<S: Shell>(shell: &S) {
    let (mut ran, mut failures, mut hits) = (0, Vec::new(), BTreeMap::new());
    for case in &cases() {
        let mut placements = vec![Placement::Arena, Placement::Weights];
        placements.extend(case.in_place.iter().map(|(i, o)| Placement::InPlace(*i, *o)));
        for placement in placements {
            match one(shell, case, placement) {
                Ok(true) => ran += 1,
                Ok(false) => match NO_KERNEL.iter().find(|(p, _)| case.name.starts_with(p)) {
                    Some((p, _)) => *hits.entry(*p).or_insert(0) += 1,
                    None => failures.push(format!("{} {placement:?}: no kernel", case.name)),
                },
                Err(e) => failures.push(format!("{} {placement:?}: {e}", case.name)),
            }
        }
    }
    for (p, _) in NO_KERNEL {
        if !hits.contains_key(p) {
            failures.push(format!("the expectation `{p}` is out of date: nothing fails by it"));
        }
    }
    println!("{}: {ran} runs, {} failures", shell.name(), failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(ran > 100, "only {ran} runs");
}

#[cfg(feature = "vulkan")]
#[test]
fn op_suite_on_vulkan() {
    let options = serinette_vulkan::Options {
        cache: serinette_vulkan::CachePolicy::Off,
        validation: std::env::var_os("SERINETTE_VALIDATION").is_some(),
        ..Default::default()
    };
    match serinette_vulkan::VulkanDevice::open(&options, &Library) {
        Ok(device) => {
            suite(&device);
            let messages = device.messages().messages();
            assert!(messages.is_empty(), "{}", messages.join("\n"));
        }
        Err(e) => println!("no Vulkan device: {e}"),
    }
}

#[cfg(feature = "wgpu")]
#[test]
fn op_suite_on_wgpu() {
    let options = serinette_wgpu::Options { cache: serinette_wgpu::CachePolicy::Off, ..Default::default() };
    match serinette_wgpu::WgpuDevice::open(&options, &Library) {
        Ok(device) => suite(&device),
        Err(e) => println!("no device: {e}"),
    }
}

#[cfg(feature = "wgpu")]
#[test]
fn op_suite_on_wgpu_with_uniform_parameters() {
    let options = serinette_wgpu::Options {
        cache: serinette_wgpu::CachePolicy::Off,
        force_uniform_params: true,
        ..Default::default()
    };
    match serinette_wgpu::WgpuDevice::open(&options, &Library) {
        Ok(device) => suite(&device),
        Err(e) => println!("no device: {e}"),
    }
}
