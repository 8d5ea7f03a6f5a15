//! What recordings compute.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;
use common::*;
use serinette_dispatch::{Command, Gate, KernelLibrary, Shell, Target, Usage, Window};
use serinette_wgpu::Options;

/// Device options under which every result must be the same.
fn flavours() -> [Options; 3] {
    [
        options(),
        Options { force_uniform_params: true, ..options() },
        Options { checked: true, timestamps: false, ..options() },
    ]
}

#[test]
fn transfers_of_odd_sizes() {
    let device = open(&options());
    let mut random = Random(7);
    for size in [1u64, 4, 13, 20, 1237, 65_541] {
        for usage in [Usage::Weights, Usage::Storage, Usage::Indirect] {
            let buffer = device.buffer(size, usage).unwrap();
            assert!(buffer.bytes() >= size && buffer.bytes().is_multiple_of(4));
            let mut seen = vec![0xA5; buffer.bytes() as usize];
            device.download(&buffer, 0, &mut seen).unwrap();
            assert!(seen.iter().all(|&b| b == 0), "a new buffer is zeroed");
            let mut all = seen;
            for (offset, len) in
                [(0, buffer.bytes() as usize), (4, 4), (8, buffer.bytes() as usize / 8 * 4), (4, 0)]
            {
                if offset + len > all.len() {
                    continue;
                }
                let part: Vec<u8> = (0..len).map(|_| random.word() as u8).collect();
                device.upload(&buffer, offset as u64, &part).unwrap();
                all[offset..offset + len].copy_from_slice(&part);
            }
            let mut seen = vec![0; all.len()];
            device.download(&buffer, 0, &mut seen).unwrap();
            assert_eq!(seen, all, "{size} {usage:?}");
            let mut tail = vec![0; all.len() - 4];
            device.download(&buffer, 4, &mut tail).unwrap();
            assert_eq!(tail, all[4..]);
        }
    }
}

#[test]
fn transfers_in_several_chunks() {
    let device = open(&options());
    let n = (2 * (32 << 20) + 1236) / 4;
    let data = bytes(&Random(11).words(n));
    let buffer = device.buffer(data.len() as u64 + 4, Usage::Weights).unwrap();
    device.upload(&buffer, 4, &data).unwrap();
    let mut seen = vec![0; data.len()];
    device.download(&buffer, 4, &mut seen).unwrap();
    assert!(seen == data);
}

#[test]
fn a_chain_of_200_dependent_dispatches() {
    for options in flavours() {
        let device = open(&options);
        let (n, mut random) = (1237u32, Random(3));
        let weights = random.words(n as usize + 3);
        let s = Session::new(&device, 8 * u64::from(n), &weights, 0);
        let mut expected: Vec<u32> = weights[3..].to_vec();
        let mut commands = vec![s.launch(affine(n, 0, in_weights(3), 1, 0))];
        for k in 0..200 {
            let (factor, term) = (random.word() | 1, random.word());
            let (from, to) = if k % 2 == 0 { (0, n) } else { (n, 0) };
            commands.extend([Command::Barrier, s.launch(affine(n, to, from, factor, term))]);
            for x in &mut expected {
                *x = x.wrapping_mul(factor).wrapping_add(term);
            }
        }
        commands.extend([Command::Barrier, read(u64::from(n))]);
        let mut recording = s.record(&commands, 0, 4 * u64::from(n)).unwrap();
        for _ in 0..3 {
            assert_eq!(s.run(&mut recording, &[]), expected, "{options:?}");
        }
    }
}

#[test]
fn a_hundred_runs_with_new_inputs() {
    let device = open(&options());
    let (n, mut random) = (333u32, Random(5));
    let s = Session::new(&device, 4 * u64::from(n) + 64, &[], 0);
    // The second word-range keeps what earlier runs left: runs share the arena.
    let sum = n + 5;
    let commands = [
        write(u64::from(n)),
        Command::Barrier,
        s.launch(affine(n, 0, 0, 3, 1)),
        s.launch(affine(1, sum, sum, 5, 7)),
        Command::Barrier,
        read(u64::from(n)),
        Command::Read { from: Target::Arena, offset: 4 * u64::from(sum), bytes: 4, to: 4 * u64::from(n) },
    ];
    let mut recording = s.record(&commands, 4 * u64::from(n), 4 * u64::from(n) + 4).unwrap();
    let mut state = 0u32;
    for _ in 0..100 {
        let input = random.words(n as usize);
        state = state.wrapping_mul(5).wrapping_add(7);
        let mut expected: Vec<u32> = input.iter().map(|x| x.wrapping_mul(3).wrapping_add(1)).collect();
        expected.push(state);
        assert_eq!(s.run(&mut recording, &input), expected);
    }
}

#[test]
fn copies_keep_their_place_among_dispatches() {
    for options in flavours() {
        let device = open(&options);
        let s = Session::new(&device, 400, &[], 0);
        let input = Random(9).words(13);
        let to = |word: u64, from: u64, words: u64| Command::Write {
            from: 4 * from,
            to: Target::Arena,
            offset: 4 * word,
            bytes: 4 * words,
        };
        let commands = [
            to(0, 0, 11),
            Command::Barrier,
            s.launch(affine(11, 20, 0, 1, 1)),
            Command::Barrier,
            // Overwritten after it was read, cleared in part, read again.
            to(1, 9, 4),
            Command::Clear { buffer: Target::Arena, offset: 12, bytes: 8 },
            Command::Clear { buffer: Target::Arena, offset: 12, bytes: 0 },
            Command::Barrier,
            s.launch(affine(11, 40, 0, 1, 2)),
            Command::Write { from: 8, to: Target::Control, offset: 16, bytes: 12 },
            Command::Barrier,
            Command::Read { from: Target::Arena, offset: 80, bytes: 44, to: 0 },
            Command::Read { from: Target::Arena, offset: 160, bytes: 44, to: 44 },
            Command::Read { from: Target::Control, offset: 16, bytes: 12, to: 88 },
        ];
        let mut recording = s.record(&commands, 52, 100).unwrap();
        let mut second = input[..11].to_vec();
        second[1..5].copy_from_slice(&input[9..13]);
        second[3..5].fill(0);
        let mut expected: Vec<u32> = input[..11].iter().map(|x| x.wrapping_add(1)).collect();
        expected.extend(second.iter().map(|x| x.wrapping_add(2)));
        expected.extend(&input[2..5]);
        for _ in 0..3 {
            assert_eq!(s.run(&mut recording, &input), expected, "{options:?}");
        }
    }
}

#[test]
fn windows_move_the_origin() {
    let device = open(&options());
    let align = device.caps().window_align;
    let step = align / 4;
    let weights = Random(21).words(3 * step as usize + 10);
    let s = Session::new(&device, 5 * u64::from(align), &weights, 0);
    let launch = |dispatch, arena: u64, weights: u64| Command::Dispatch {
        dispatch,
        arena: Window { offset: arena * u64::from(align), bytes: u64::from(align) },
        weights: Window { offset: weights * u64::from(align), bytes: 40 },
        indirect: None,
    };
    let n = step.min(10);
    let commands = [
        launch(affine(n, 0, in_weights(0), 1, 5), 4, 3),
        launch(affine(n, 0, in_weights(0), 1, 6), 1, 1),
        launch(affine(0, 0, 0, 9, 9), 1, 0),
    ];
    let mut recording = s.record(&commands, 0, 0).unwrap();
    assert_eq!(s.run(&mut recording, &[]), []);
    let mut expected = vec![0u32; 5 * step as usize];
    for i in 0..n as usize {
        expected[4 * step as usize + i] = weights[3 * step as usize + i].wrapping_add(5);
        expected[step as usize + i] = weights[step as usize + i].wrapping_add(6);
    }
    assert_eq!(s.arena_words(expected.len()), expected);
}

#[test]
fn many_parameter_words_go_through_a_uniform() {
    for options in flavours() {
        let device = open(&options);
        let s = Session::new(&device, 64, &[], 0);
        let mut random = Random(31);
        let (mut commands, mut expected) = (Vec::new(), vec![0u32; 7]);
        for to in 0..7u32 {
            let mut p = random.words(48);
            p[0] = to;
            expected[to as usize] =
                (1..48).fold(0u32, |sum, i| sum.wrapping_add(p[i as usize].wrapping_mul(i)));
            commands.push(s.launch(dispatch(WIDE, [1; 3], &p)));
            // Another form in between: pipelines, bind groups and immediates change.
            commands.push(s.launch(affine(1, to, to, 3, to)));
            expected[to as usize] = expected[to as usize].wrapping_mul(3).wrapping_add(to);
        }
        commands.push(read(7));
        let mut recording = s.record(&commands, 0, 28).unwrap();
        assert_eq!(s.run(&mut recording, &[]), expected, "{options:?}");
    }
}

#[test]
fn gates_open_and_close_dispatches() {
    const GRIDS: u32 = 20;
    for options in flavours() {
        let device = open(&options);
        let (n, mut random) = (130u32, Random(41));
        let s = Session::new(&device, 2048, &[], 5);
        let mut commands = vec![write(2)];
        commands.push(Command::Write {
            from: 8,
            to: Target::Control,
            offset: 4 * u64::from(GRIDS),
            bytes: 36,
        });
        commands.push(Command::Clear { buffer: Target::Arena, offset: 64, bytes: 1616 });
        commands.push(Command::Barrier);
        // Byte 1 is the condition of `then` and (negated) `else`; byte 6 of a gate inside `then`.
        let gates = [(1, false, None, 4, 1), (1, true, None, 5, 2), (6, false, Some(4), 6, 4)];
        for (i, (condition, negate, parent, flag, first_record)) in gates.into_iter().enumerate() {
            let table = GRIDS + 3 * i as u32;
            let condition = Some(condition);
            let gate = Gate { condition, trips: None, negate, parent, flag, first_record, records: 1, table };
            LIBRARY.gate(&gate, device.caps(), &mut |d| commands.push(s.launch(d))).unwrap();
            commands.push(Command::Barrier);
        }
        for (to, record, term) in [(16, 1, 100), (150, 2, 200), (290, 4, 300)] {
            commands.push(Command::Dispatch {
                dispatch: affine(n, to, 1000 / 4, 0, term),
                arena: s.all(),
                weights: s.all_weights(),
                indirect: Some(record),
            });
        }
        commands.extend([Command::Barrier, read(420)]);
        let mut recording = s.record(&commands, 44, 1680).unwrap();
        for case in 0..8u32 {
            let (a, b) = (case & 1, case >> 1 & 1);
            // Other bytes are noise, and a true bool may be any byte but 0.
            let noise = random.word();
            let mut input =
                vec![noise & 0xFFFF_00FF | a << (8 + case % 8), noise & 0xFF00_FFFF | b << (16 + case % 8)];
            for _ in gates {
                input.extend([n.div_ceil(64), 1, 1]);
            }
            let out = s.run(&mut recording, &input);
            for (open, to, term) in [(a == 1, 16, 100), (a == 0, 150, 200), (a == 1 && b == 1, 290, 300)] {
                let expected = if open { term } else { 0 };
                assert_eq!(out[to..to + n as usize], vec![expected; n as usize], "case {case} at {to}");
            }
        }
    }
}

#[test]
fn device_time_is_below_wall_time() {
    let device = open(&options());
    let s = Session::new(&device, 64, &[], 0);
    let mut recording =
        s.record(&[write(1), s.launch(dispatch(SLOW, [1; 3], &[0, 2_000_000])), read(1)], 4, 4).unwrap();
    let start = std::time::Instant::now();
    let times = device.run(&mut recording, &mut |b| b.fill(1), &mut |_| {}, LONG).unwrap();
    let wall = start.elapsed();
    if device.wgpu_device().features().contains(serinette_wgpu::wgpu::Features::TIMESTAMP_QUERY) {
        let time = times.device.expect("the device has timestamps");
        assert!(time > std::time::Duration::ZERO && time <= wall, "{time:?} of {wall:?}");
    } else {
        assert_eq!(times.device, None);
    }
}

#[test]
fn sessions_on_several_threads_share_a_device() {
    let device = open(&options());
    std::thread::scope(|scope| {
        for t in 0..4u32 {
            let device = &device;
            scope.spawn(move || {
                let mut random = Random(100 + u64::from(t));
                let n = 200 + 31 * t;
                for _ in 0..3 {
                    let s = Session::new(device, 4 * u64::from(n), &[], 0);
                    let commands = [write(u64::from(n)), s.launch(affine(n, 0, 0, t, 7)), read(u64::from(n))];
                    let mut recording = s.record(&commands, 4 * u64::from(n), 4 * u64::from(n)).unwrap();
                    for _ in 0..20 {
                        let input = random.words(n as usize);
                        let expected: Vec<u32> =
                            input.iter().map(|x| x.wrapping_mul(t).wrapping_add(7)).collect();
                        assert_eq!(s.run(&mut recording, &input), expected);
                    }
                }
            });
        }
    });
}
