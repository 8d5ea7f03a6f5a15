//! What recordings compute.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use serinette_dispatch::{Command, Shell, Target, Usage, Window};

use crate::kernels::{AFFINE, AFFINE_WEIGHTS, GATE, GRID};
use crate::*;

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands everything to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: promised by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// `x · factor + 1` modulo 2^32, computed in 64 bits.
fn reference(x: u32, factor: u32) -> u32 {
    ((u64::from(x) * u64::from(factor) + 1) % (1 << 32)) as u32
}

#[test]
fn new_buffers_are_zero_and_rounded_up() {
    let gpu = Gpu::open();
    for usage in [Usage::Weights, Usage::Storage, Usage::Indirect] {
        for (asked, made) in [(0, 4), (1, 4), (4, 4), (5, 8), (4097, 4100), (1_000_003, 1_000_004)] {
            let buffer = gpu.buffer(asked, usage).unwrap();
            assert_eq!(buffer.bytes(), made);
            assert!(download(&gpu, &buffer, 0, made as usize / 4).iter().all(|&word| word == 0));
        }
    }
}

#[test]
fn a_chain_of_200_dependent_dispatches() {
    let gpu = Gpu::open();
    let count = 1013;
    let session = Session::new(&gpu, 2 * 1013 + 3);
    let mut commands = vec![Command::Write { from: 0, to: Target::Arena, offset: 0, bytes: 1013 * 4 }];
    let factors = random(200, 5);
    for (i, &factor) in factors.iter().enumerate() {
        // There and back between two regions: a missing barrier breaks both reads and overwrites.
        let (from, to) = if i % 2 == 0 { (0, 1016) } else { (1016, 0) };
        commands.push(Command::Barrier);
        if i % 7 == 0 {
            // More of them are no more than one.
            commands.push(Command::Barrier);
        }
        commands.push(affine(&session, from, to, count, factor));
    }
    commands.push(Command::Barrier);
    commands.push(Command::Read { from: Target::Arena, offset: 0, bytes: 1013 * 4, to: 4 });
    commands.push(Command::Read { from: Target::Control, offset: 0, bytes: 4, to: 0 });
    let mut recording = gpu.record(&session, &commands, 1013 * 4, 1014 * 4).unwrap();
    for seed in 0..5 {
        let input = random(1013, seed);
        let output = run(&gpu, &mut recording, &input).unwrap();
        let expected: Vec<u32> =
            input.iter().map(|&x| factors.iter().fold(x, |x, &factor| reference(x, factor))).collect();
        assert_eq!(output[0], 0);
        assert_eq!(output[1..], expected, "run {seed}");
    }
}

#[test]
fn after_barrier_orders_dispatches_of_a_step_even_past_empty_ones() {
    let gpu = Gpu::open();
    let session = Session::new(&gpu, 3 * 5003);
    let step = |from, to, factor, after| {
        let mut command = affine(&session, from, to, 5003, factor);
        if let Command::Dispatch { dispatch, .. } = &mut command {
            dispatch.after_barrier = after;
        }
        command
    };
    let mut empty = affine(&session, 0, 0, 0, 0);
    if let Command::Dispatch { dispatch, .. } = &mut empty {
        assert_eq!(dispatch.grid[0], 0);
        dispatch.after_barrier = true;
    }
    let commands = [
        Command::Write { from: 0, to: Target::Arena, offset: 0, bytes: 5003 * 4 },
        step(0, 5003, 3, true),
        step(5003, 10006, 5, true),
        empty,
        step(10006, 0, 7, false),
        Command::Barrier,
        Command::Read { from: Target::Arena, offset: 0, bytes: 5003 * 4, to: 0 },
    ];
    let mut recording = gpu.record(&session, &commands, 5003 * 4, 5003 * 4).unwrap();
    for seed in 0..20 {
        let input = random(5003, seed);
        let expected: Vec<u32> = input.iter().map(|&x| [3, 5, 7].into_iter().fold(x, reference)).collect();
        assert!(run(&gpu, &mut recording, &input).unwrap() == expected, "run {seed}");
    }
}

#[test]
fn windows_of_arena_and_weights() {
    let gpu = Gpu::open();
    let align = u64::from(gpu.caps().window_align).max(4);
    let word = (align / 4) as usize;
    let mut session = Session::new(&gpu, 64 * align / 4 + 777);
    let weights = random(40 * word + 500, 11);
    let buffer = gpu.buffer(weights.len() as u64 * 4, Usage::Weights).unwrap();
    gpu.upload(&buffer, 0, &to_bytes(&weights)).unwrap();
    session.weights = Some(buffer);
    let input = random(64 * word + 777, 12);
    gpu.upload(&session.arena, 0, &to_bytes(&input)).unwrap();

    let launch = |arena_at: u64, weights_at: u64, from: u32, to: u32, first: u32| Command::Dispatch {
        dispatch: dispatch(AFFINE_WEIGHTS, [2, 1, 1], &[from, to, 101, first]),
        arena: Window { offset: arena_at * align, bytes: 820 },
        weights: Window { offset: weights_at * align, bytes: 820 },
        indirect: None,
    };
    // Three distinct pairs of windows, one of them twice, without hazards among them.
    let places = [(0u64, 0u64, 3u32), (64, 17, 9), (0, 17, 0), (64, 17, 9)];
    let mut commands = Vec::new();
    for &(arena_at, weights_at, first) in &places {
        commands.push(launch(arena_at, weights_at, 0, 103, first));
        commands.push(Command::Barrier);
    }
    let mut recording = gpu.record(&session, &commands, 0, 0).unwrap();
    run(&gpu, &mut recording, &[]).unwrap();
    let mut expected = input;
    for &(arena_at, weights_at, first) in &places {
        let base = arena_at as usize * word;
        let from: Vec<u32> = expected[base..base + 101].to_vec();
        for (i, x) in from.into_iter().enumerate() {
            expected[base + 103 + i] = reference(x, weights[weights_at as usize * word + first as usize + i]);
        }
    }
    assert!(download(&gpu, &session.arena, 0, expected.len()) == expected);
}

#[test]
fn writes_clears_and_reads() {
    let gpu = Gpu::open();
    let session = Session::new(&gpu, 1000);
    let old = random(1000, 1);
    gpu.upload(&session.arena, 0, &to_bytes(&old)).unwrap();
    gpu.upload(&session.control, 0, &to_bytes(&random(64, 2))).unwrap();
    let commands = [
        Command::Write { from: 20, to: Target::Arena, offset: 400, bytes: 80 },
        Command::Clear { buffer: Target::Arena, offset: 4, bytes: 12 },
        Command::Clear { buffer: Target::Control, offset: 0, bytes: 256 },
        // Nothing at all is allowed too.
        Command::Clear { buffer: Target::Arena, offset: 4000, bytes: 0 },
        Command::Write { from: 100, to: Target::Arena, offset: 0, bytes: 0 },
        Command::Barrier,
        Command::Write { from: 0, to: Target::Control, offset: 8, bytes: 20 },
        Command::Barrier,
        Command::Read { from: Target::Arena, offset: 0, bytes: 4000, to: 256 },
        Command::Read { from: Target::Control, offset: 0, bytes: 256, to: 0 },
    ];
    let mut recording = gpu.record(&session, &commands, 100, 4256).unwrap();
    let input = random(25, 3);
    let output = run(&gpu, &mut recording, &input).unwrap();
    let mut control = vec![0; 64];
    control[2..7].copy_from_slice(&input[..5]);
    let mut arena = old;
    arena[100..120].copy_from_slice(&input[5..]);
    arena[1..4].fill(0);
    assert_eq!(output[..64], control);
    assert_eq!(output[64..], arena);
}

#[test]
fn an_empty_recording_runs() {
    let gpu = Gpu::open();
    let session = Session::new(&gpu, 0);
    for commands in [&[][..], &[Command::Barrier, Command::Barrier]] {
        let mut recording = gpu.record(&session, commands, 0, 0).unwrap();
        assert_eq!(run(&gpu, &mut recording, &[]).unwrap(), []);
    }
}

#[test]
fn gates_open_and_close_indirect_dispatches() {
    let gpu = Gpu::open();
    let count = 300u32;
    let mut session = Session::new(&gpu, 2 * 300 + 8);
    session.indirect = Some(gpu.buffer(4 * 12, Usage::Indirect).unwrap());
    // Grids of records 1 and 2 from control word 8 on.
    gpu.upload(&session.control, 32, &to_bytes(&[count.div_ceil(64), 1, 1, 2, 1, 1])).unwrap();
    let gate = Command::Dispatch {
        dispatch: dispatch(GATE, [1, 1, 1], &[0, 1, 2, 8]),
        arena: session.whole(),
        weights: NO_WINDOW,
        indirect: None,
    };
    let gated = |record, from, to, count, factor| {
        let mut command = affine(&session, from, to, count, factor);
        if let Command::Dispatch { indirect, .. } = &mut command {
            *indirect = Some(record);
        }
        command
    };
    let commands = [
        Command::Write { from: 0, to: Target::Arena, offset: 0, bytes: 301 * 4 },
        Command::Clear { buffer: Target::Arena, offset: 304 * 4, bytes: 300 * 4 },
        Command::Barrier,
        gate,
        Command::Barrier,
        // Of record 2 two groups run: 128 elements.
        gated(1, 1, 304, count, 9),
        Command::Barrier,
        gated(2, 304, 304, count, 11),
        // A record that no gate fills stays closed.
        gated(3, 1, 304, count, 1),
        Command::Barrier,
        Command::Read { from: Target::Arena, offset: 304 * 4, bytes: 300 * 4, to: 0 },
    ];
    let mut recording = gpu.record(&session, &commands, 301 * 4, 300 * 4).unwrap();
    for (round, open) in [1, 0, 0, 77, 0, 1].into_iter().enumerate() {
        let mut input = random(301, round as u64);
        input[0] = open;
        let output = run(&gpu, &mut recording, &input).unwrap();
        let expected: Vec<u32> = input[1..]
            .iter()
            .enumerate()
            .map(|(i, &x)| match (open, i) {
                (0, _) => 0,
                (_, 0..128) => reference(reference(x, 9), 11),
                _ => reference(x, 9),
            })
            .collect();
        assert_eq!(output, expected, "round {round}");
    }
}

#[test]
fn grids_have_three_axes_and_may_be_empty() {
    let gpu = Gpu::open();
    let session = Session::new(&gpu, 200);
    let launch = |grid, to| Command::Dispatch {
        dispatch: dispatch(GRID, grid, &[to]),
        arena: session.whole(),
        weights: NO_WINDOW,
        indirect: None,
    };
    let commands = [launch([3, 5, 7], 10), launch([0, 5, 7], 0), launch([3, 0, 7], 0), launch([3, 5, 0], 0)];
    let mut recording = gpu.record(&session, &commands, 0, 0).unwrap();
    run(&gpu, &mut recording, &[]).unwrap();
    let seen = download(&gpu, &session.arena, 0, 200);
    let mut expected = vec![0; 200];
    let numbers = (0..7u32).flat_map(|z| (0..5u32).flat_map(move |y| (0..3u32).map(move |x| (x, y, z))));
    for (place, (x, y, z)) in expected[10..].iter_mut().zip(numbers) {
        *place = x + 100 * y + 10_000 * z;
    }
    assert_eq!(seen, expected);
}

#[test]
fn runs_allocate_nothing() {
    let gpu = Gpu::open();
    let session = Session::new(&gpu, 4096);
    let commands = [
        Command::Write { from: 0, to: Target::Arena, offset: 0, bytes: 4004 },
        Command::Barrier,
        affine(&session, 0, 2048, 1001, 3),
        Command::Barrier,
        Command::Read { from: Target::Arena, offset: 8192, bytes: 4004, to: 0 },
    ];
    let mut recording = gpu.record(&session, &commands, 4004, 4004).unwrap();
    let input = to_bytes(&random(1001, 4));
    let mut output = vec![0u8; 4004];
    let mut once = |output: &mut [u8]| {
        gpu.run(
            &mut recording,
            &mut |staging| staging.copy_from_slice(&input),
            &mut |staging| output.copy_from_slice(staging),
            PATIENCE,
        )
    };
    let mut times = once(&mut output).unwrap();
    let first = output.clone();
    let allocations = ALLOCATIONS.with(Cell::get);
    for _ in 0..100 {
        output.fill(0);
        times = once(&mut output).unwrap();
        assert_eq!(output, first);
    }
    assert_eq!(ALLOCATIONS.with(Cell::get), allocations, "a run allocated");
    let device = times.device.expect("this device has timestamps");
    assert!(device > Duration::ZERO && device < PATIENCE, "{device:?}");

    let expected: Vec<u32> = to_words(&input).into_iter().map(|x| reference(x, 3)).collect();
    assert_eq!(to_words(&first), expected);
}

#[test]
fn threads_share_a_device_and_its_weights() {
    let gpu = Gpu::open();
    let weights_words = random(999, 1);
    let weights = gpu.buffer(999 * 4, Usage::Weights).unwrap();
    gpu.upload(&weights, 0, &to_bytes(&weights_words)).unwrap();
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (gpu, weights, weights_words, done) = (&gpu, &weights, &weights_words, &done);
            scope.spawn(move || {
                let session = Session::new(gpu, 2000);
                let commands = [
                    Command::Write { from: 0, to: Target::Arena, offset: 0, bytes: 999 * 4 },
                    Command::Barrier,
                    Command::Dispatch {
                        dispatch: dispatch(AFFINE_WEIGHTS, [16, 1, 1], &[0, 1000, 999, 0]),
                        arena: session.whole(),
                        weights: Window { offset: 0, bytes: 999 * 4 },
                        indirect: None,
                    },
                    Command::Barrier,
                    Command::Read { from: Target::Arena, offset: 4000, bytes: 999 * 4, to: 0 },
                ];
                let buffers = Buffers { weights: Some(weights), ..session.buffers() };
                // SAFETY: the operands lie in their windows.
                let mut recording =
                    unsafe { Shell::record(&**gpu, buffers, &commands, 999 * 4, 999 * 4) }.unwrap();
                for round in 0..25 {
                    let input = random(999, 100 * thread + round);
                    let expected: Vec<u32> =
                        input.iter().zip(weights_words).map(|(&x, &w)| reference(x, w)).collect();
                    assert!(run(gpu, &mut recording, &input).unwrap() == expected);
                    // Uploads in between take the queue and the weights' lock too.
                    gpu.upload(&session.arena, 0, &to_bytes(&input)).unwrap();
                    gpu.upload(weights, 0, &to_bytes(weights_words)).unwrap();
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(done.into_inner(), 4);
    assert_eq!(gpu.pipeline_stats().created, 1, "the threads made the same pipeline once");
    gpu.load_kernels(&[AFFINE, AFFINE, AFFINE_WEIGHTS]).unwrap();
    assert_eq!(gpu.pipeline_stats().created, 2);
}
