//! Laying out a case on a device, running it, reading it back.

use serinette::kernels::Library;
use serinette_core::Shape;
use serinette_dispatch::{
    Buffers, Command, DeviceCaps, Dispatch, FAULT_WORD, KernelLibrary, LowerError, LowerStep, Operand, Shell,
    Space, Usage, Window,
};
use serinette_op_suite::{Case, Tensor};
use std::time::Duration;

/// What memory holds where nothing was placed.
const PATTERN: u8 = 0xa5;
/// Number of the step, for the fault word.
pub const STEP: u32 = 41;

/// Where the operands of a case lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// All in the arena.
    Arena,
    /// Inputs in the weights.
    Weights,
    /// All in the arena, this input and this output in one range.
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
pub fn run<S: Shell>(
    shell: &S,
    caps: &DeviceCaps,
    case: &Case,
    placement: Placement,
) -> Result<Option<(Vec<Tensor>, u32)>, String> {
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
    match Library.lower(&step, caps, &mut |d| dispatches.push(d)) {
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
