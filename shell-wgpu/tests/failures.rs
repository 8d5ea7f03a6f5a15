//! Failures are values, and leave the rest working.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;
use common::*;
use serinette_dispatch::{Buffers, Command, Shell, ShellError, Target, Usage, Window};
use serinette_wgpu::{Options, Selector, WgpuDevice, wgpu};
use std::time::Duration;

fn refused(result: Result<impl Sized, ShellError>) -> ShellError {
    result.err().expect("this must be refused")
}

#[test]
fn devices_are_listed_and_chosen() {
    let all = WgpuDevice::devices(&options());
    assert!(!all.is_empty(), "these tests need a device; a software one will do");
    for info in &all {
        let chosen = |device| open(&Options { device, ..options() }).name().to_string();
        assert_eq!(chosen(Selector::Index(info.index)), info.name);
        let part = info.name.to_uppercase();
        let first = all.iter().find(|i| i.name.to_uppercase().contains(&part)).unwrap();
        assert_eq!(chosen(Selector::Name(part)), first.name);
    }
    let miss =
        |options: &Options| matches!(WgpuDevice::open(options, &LIBRARY), Err(ShellError::Unavailable(_)));
    assert!(miss(&Options { device: Selector::Name("no such device".into()), ..options() }));
    assert!(miss(&Options { device: Selector::Index(all.len()), ..options() }));
    assert!(miss(&Options { backends: wgpu::Backends::empty(), ..options() }));
    assert!(WgpuDevice::devices(&Options { backends: wgpu::Backends::empty(), ..options() }).is_empty());
}

#[test]
fn ranges_outside_are_refused() {
    let device = open(&options());
    let align = u64::from(device.caps().window_align);
    let s = Session::new(&device, 4 * align, &[1; 64], 2);
    let size = s.arena.bytes();
    let ok = affine(4, 0, 0, 1, 1);
    let launch = |dispatch, offset, bytes, indirect| Command::Dispatch {
        dispatch,
        arena: Window { offset, bytes },
        weights: s.all_weights(),
        indirect,
    };
    let clear = |offset, bytes| Command::Clear { buffer: Target::Arena, offset, bytes };
    let write = |from, offset, bytes| Command::Write { from, to: Target::Arena, offset, bytes };
    let read = |offset, bytes, to| Command::Read { from: Target::Control, offset, bytes, to };
    let weights = |offset, bytes| Command::Dispatch {
        dispatch: ok,
        arena: s.all(),
        weights: Window { offset, bytes },
        indirect: None,
    };
    let refusals = [
        clear(size - 4, 8),
        clear(u64::MAX - 3, 8),
        clear(2, 4),
        clear(0, 6),
        write(0, size, 4),
        write(8, 0, 4),
        write(2, 0, 4),
        write(u64::MAX - 3, 0, 4),
        read(0, 4, 12),
        read(256, 4, 0),
        read(0, u64::MAX - 3, 0),
        launch(ok, 0, size + 4, None),
        launch(ok, align, size, None),
        launch(ok, 4, align - 4, None),
        launch(ok, 0, 0, None),
        launch(ok, 0, 6, None),
        launch(ok, 0, size, Some(2)),
        launch(ok, 0, size, Some(u32::MAX)),
        launch(dispatch(AFFINE, [1; 3], &[0; 6]), 0, size, None),
        launch(dispatch(6, [1; 3], &[]), 0, size, None),
        launch(dispatch(u16::MAX, [1; 3], &[]), 0, size, None),
        launch(dispatch(GATE, [1; 3], &[0; 7]), 0, size, Some(0)),
        weights(0, 260),
        weights(align, 256),
    ];
    for command in refusals {
        let error = refused(s.record(&[command], 8, 12));
        assert!(matches!(error, ShellError::Invalid(_)), "{command:?}: {error}");
    }
    let most = device.caps().max_workgroups[1];
    let error =
        refused(s.record(&[launch(dispatch(AFFINE, [1, most + 1, 1], &[0; 5]), 0, size, None)], 0, 0));
    let needed = u64::from(most) + 1;
    assert_eq!(error, ShellError::Limit { what: "workgroups along an axis", limit: u64::from(most), needed });
    assert!(
        s.record(&[launch(ok, 0, size, Some(1)), clear(size - 4, 4), write(4, 0, 4), read(252, 4, 8)], 8, 12)
            .is_ok()
    );

    let plain = Session::new(&device, 64, &[], 0);
    let gate = plain.launch(dispatch(GATE, [1; 3], &[0; 7]));
    assert!(matches!(refused(plain.record(&[gate], 0, 0)), ShellError::Invalid(_)));
    let window = Window { offset: 0, bytes: 16 };
    for (weights, indirect) in [(window, None), (Window { offset: 0, bytes: 0 }, Some(0))] {
        let command = Command::Dispatch { dispatch: ok, arena: plain.all(), weights, indirect };
        assert!(matches!(refused(plain.record(&[command], 0, 0)), ShellError::Invalid(_)));
    }

    let mut four = [0; 4];
    for (offset, n) in [(size, 4), (2, 4), (0, 3), (u64::MAX - 3, 4)] {
        assert!(matches!(device.upload(&s.arena, offset, &four[..n]), Err(ShellError::Invalid(_))));
        assert!(matches!(device.download(&s.arena, offset, &mut four[..n]), Err(ShellError::Invalid(_))));
    }
}

#[test]
fn sizes_over_limits_are_named() {
    let device = open(&options());
    let limit = device.caps().max_buffer;
    for bytes in [limit + 1, u64::MAX] {
        let error = refused(device.buffer(bytes, Usage::Storage));
        assert!(
            matches!(error, ShellError::Limit { what: "bytes of a buffer", limit: l, needed } if l == limit && needed >= bytes),
            "{error}"
        );
    }
    let s = Session::new(&device, 64, &[], 0);
    for (input, output) in [(u64::MAX, 0), (0, u64::MAX), (limit + 1, 0), (0, limit + 1)] {
        assert!(matches!(refused(s.record(&[], input, output)), ShellError::Limit { .. }));
    }
}

#[test]
fn a_kernel_that_is_refused_is_named() {
    let device = open(&options());
    assert_eq!(device.last_error(), "");
    assert_eq!(device.load_kernels(&[AFFINE, BROKEN, AFFINE]), Err(ShellError::Kernel("broken")));
    assert!(device.last_error().contains("broken"), "{}", device.last_error());
    let s = Session::new(&device, 64, &[], 0);
    assert_eq!(
        refused(s.record(&[s.launch(dispatch(BROKEN, [1; 3], &[0]))], 0, 0)),
        ShellError::Kernel("broken")
    );
    // Others work, before and after.
    let mut recording = s.record(&[s.launch(affine(3, 1, 8, 1, 9)), read(4)], 0, 16).unwrap();
    assert_eq!(s.run(&mut recording, &[]), [0, 9, 9, 9]);
    assert!(matches!(device.load_kernels(&[6]), Err(ShellError::Invalid(_))));
}

#[test]
fn two_devices_in_any_order_of_dropping() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2], [2, 0, 3, 1]] {
        let (a, b) = (open(&options()), open(&options()));
        let mut random = Random(51);
        let (sa, sb) = (Session::new(&a, 400, &[], 0), Session::new(&b, 400, &[], 0));
        let commands = |s: &Session, term| [write(100), s.launch(affine(100, 0, 0, 5, term)), read(100)];
        let mut ra = sa.record(&commands(&sa, 1), 400, 400).unwrap();
        let mut rb = sb.record(&commands(&sb, 2), 400, 400).unwrap();
        for _ in 0..3 {
            let input = random.words(100);
            let expected =
                |term| input.iter().map(|x| x.wrapping_mul(5).wrapping_add(term)).collect::<Vec<_>>();
            assert_eq!(sa.run(&mut ra, &input), expected(1));
            assert_eq!(sb.run(&mut rb, &input), expected(2));
        }
        // What belongs to one is refused by the other.
        assert!(matches!(a.upload(&sb.arena, 0, &[0; 4]), Err(ShellError::Invalid(_))));
        assert!(matches!(a.run(&mut rb, &mut |_| {}, &mut |_| {}, LONG), Err(ShellError::Invalid(_))));
        // SAFETY: no commands.
        assert!(matches!(refused(unsafe { a.record(sb.buffers(), &[], 0, 0) }), ShellError::Invalid(_)));

        let (mut a, mut b, mut ra, mut rb) = (Some((a, sa)), Some((b, sb)), Some(ra), Some(rb));
        for i in order {
            match i {
                0 => drop(a.take()),
                1 => drop(b.take()),
                2 => drop(ra.take()),
                _ => drop(rb.take()),
            }
            // What is left still works.
            if let (Some((_, s)), Some(r)) = (&a, &mut ra) {
                assert_eq!(s.run(r, &[0; 100]), [1; 100]);
            }
            if let (Some((_, s)), Some(r)) = (&b, &mut rb) {
                assert_eq!(s.run(r, &[0; 100]), [2; 100]);
            }
        }
    }
}

#[test]
fn a_recording_keeps_its_buffers_and_device() {
    let device = open(&options());
    let s = Session::new(&device, 64, &[], 0);
    let mut recording = s.record(&[write(2), s.launch(affine(2, 0, 0, 7, 1)), read(2)], 8, 8).unwrap();
    drop(s);
    let mut out = Vec::new();
    device.run(&mut recording, &mut |b| b.fill(0), &mut |b| out = words(b), LONG).unwrap();
    assert_eq!(out, [1, 1]);
    drop(device);
    drop(recording);
}

/// Needs a device with memory of its own: a software device would take all of the host's.
#[test]
#[ignore = "fills the device's memory"]
fn memory_that_is_not_there() {
    let device = open(&options());
    let bytes = device.caps().max_buffer.min(2 << 30);
    let mut buffers = Vec::new();
    let error = loop {
        match device.buffer(bytes, Usage::Storage) {
            Ok(buffer) => buffers.push(buffer),
            Err(e) => break e,
        }
    };
    println!("{} buffers of {bytes} bytes", buffers.len());
    assert_eq!(error, ShellError::OutOfMemory { bytes });
    buffers.clear();
    let s = Session::new(&device, 64, &[], 0);
    let mut recording = s.record(&[s.launch(affine(1, 0, 0, 1, 3)), read(1)], 0, 4).unwrap();
    assert_eq!(s.run(&mut recording, &[]), [3]);
}

#[test]
fn a_run_that_does_not_end_in_time() {
    let device = open(&options());
    let s = Session::new(&device, 64, &[], 0);
    let steps = 60_000_000;
    let slow = [write(1), s.launch(dispatch(SLOW, [1; 3], &[0, steps])), read(1)];
    let mut recording = s.record(&slow, 4, 4).unwrap();
    let mut fill = |b: &mut [u8]| b.fill(1);
    let result = device.run(&mut recording, &mut fill, &mut |_| unreachable!(), Duration::from_millis(1));
    assert_eq!(result.err(), Some(ShellError::Timeout));
    // The recording stays failed, other ones on the device do not.
    assert_eq!(device.run(&mut recording, &mut fill, &mut |_| {}, LONG).err(), Some(ShellError::Timeout));
    let other = Session::new(&device, 64, &[], 0);
    let mut quick = other.record(&[other.launch(affine(1, 0, 0, 1, 3)), read(1)], 0, 4).unwrap();
    assert_eq!(other.run(&mut quick, &[]), [3]);
}

#[test]
fn a_lost_device_stays_lost() {
    let device = open(&options());
    let s = Session::new(&device, 64, &[], 0);
    let mut recording = s.record(&[s.launch(affine(1, 0, 0, 1, 3)), read(1)], 0, 4).unwrap();
    assert_eq!(s.run(&mut recording, &[]), [3]);
    device.wgpu_device().destroy();
    let run = |r: &mut _| device.run(r, &mut |_| {}, &mut |_| {}, LONG).map(|_| ());
    assert_eq!(run(&mut recording), Err(ShellError::DeviceLost));
    assert_eq!(run(&mut recording), Err(ShellError::DeviceLost));
    assert_eq!(refused(device.buffer(64, Usage::Storage)), ShellError::DeviceLost);
    assert_eq!(device.upload(&s.arena, 0, &[0; 4]), Err(ShellError::DeviceLost));
    assert_eq!(device.download(&s.arena, 0, &mut [0; 4]), Err(ShellError::DeviceLost));
    assert_eq!(refused(s.record(&[], 0, 0)), ShellError::DeviceLost);
    assert_eq!(device.load_kernels(&[SLOW]), Err(ShellError::DeviceLost));
    assert!(!device.last_error().is_empty());
    // A new one works.
    let s = Session::new(&open(&options()), 64, &[], 0);
    let mut recording = s.record(&[s.launch(affine(1, 0, 0, 1, 4)), read(1)], 0, 4).unwrap();
    assert_eq!(s.run(&mut recording, &[]), [4]);
}

#[test]
fn a_device_lost_during_a_run() {
    let device = open(&options());
    let s = Session::new(&device, 64, &[], 0);
    let slow = [write(1), s.launch(dispatch(SLOW, [1; 3], &[0, 60_000_000])), read(1)];
    let mut recording = s.record(&slow, 4, 4).unwrap();
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            device.wgpu_device().destroy();
        });
        device.run(&mut recording, &mut |b| b.fill(1), &mut |_| {}, LONG).map(|_| ())
    });
    // Destroying waits for nothing; whether the mapping came first is a race.
    assert!(matches!(run, Ok(()) | Err(ShellError::DeviceLost)), "{run:?}");
    let again = device.run(&mut recording, &mut |_| {}, &mut |_| {}, LONG);
    assert_eq!(again.err(), Some(ShellError::DeviceLost));
}

#[test]
fn what_wgpu_refuses_is_refused_when_recording() {
    let device = open(&options());
    let s = Session::new(&device, 64, &[], 0);
    // wgpu does not bind one buffer for reading only and for writing at once.
    let buffers = Buffers { arena: &s.arena, weights: Some(&s.arena), control: &s.control, indirect: None };
    let command = Command::Dispatch {
        dispatch: affine(2, 0, in_weights(4), 1, 1),
        arena: s.all(),
        weights: s.all(),
        indirect: None,
    };
    // SAFETY: the ranges lie inside the buffer and do not overlap.
    let error = refused(unsafe { device.record(buffers, &[command], 0, 0) });
    assert_eq!(error, ShellError::Driver { call: "record", code: serinette_wgpu::code::VALIDATION });
    assert!(!device.last_error().is_empty());
}

#[test]
fn the_longest_and_the_shortest_wait() {
    let device = open(&options());
    let s = Session::new(&device, 64, &[], 0);
    let mut recording = s.record(&[write(1), s.launch(affine(1, 0, 0, 2, 1)), read(1)], 4, 4).unwrap();
    let mut out = Vec::new();
    let forever = device.run(&mut recording, &mut |b| b.fill(0), &mut |b| out = words(b), Duration::MAX);
    assert!(forever.is_ok());
    assert_eq!(out, [1]);
    let none = device.run(&mut recording, &mut |b| b.fill(0), &mut |_| {}, Duration::ZERO);
    assert!(matches!(none.err(), None | Some(ShellError::Timeout)));
}

#[test]
fn a_panic_in_a_closure_leaves_the_recording_usable() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let device = open(&options());
    let s = Session::new(&device, 64, &[], 0);
    let mut recording = s.record(&[write(1), s.launch(affine(1, 0, 0, 2, 1)), read(1)], 4, 4).unwrap();
    for (in_write, in_read) in [(true, false), (false, true)] {
        let run = AssertUnwindSafe(|| {
            let mut write = |b: &mut [u8]| if in_write { panic!("in write") } else { b.fill(0) };
            device.run(&mut recording, &mut write, &mut |_| assert!(!in_read, "in read"), LONG)
        });
        assert!(catch_unwind(run).is_err());
        assert_eq!(s.run(&mut recording, &[20]), [41]);
    }
}

#[test]
fn an_applications_device_is_shared() {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = ready(instance.request_adapter(&wgpu::RequestAdapterOptions::default())).unwrap();
    // With no more than WebGPU's default limits and no features at all.
    let (device, queue) = ready(adapter.request_device(&wgpu::DeviceDescriptor::default())).unwrap();
    let shell = WgpuDevice::from_parts(&adapter, device.clone(), queue.clone(), &LIBRARY).unwrap();
    assert_eq!(shell.caps().immediate_bytes, 0);
    assert_eq!(shell.caps().subgroup, [1, 1]);
    let s = Session::new(&shell, 64, &[], 0);
    let mut recording = s.record(&[write(1), s.launch(affine(1, 0, 0, 2, 1)), read(1)], 4, 4).unwrap();
    assert_eq!(s.run(&mut recording, &[20]), [41]);
    // Lost behind the shell's back: no handler of the shell's is told.
    device.destroy();
    let error = shell.run(&mut recording, &mut |_| {}, &mut |_| {}, LONG).err();
    assert!(matches!(error, Some(ShellError::DeviceLost | ShellError::Driver { .. })), "{error:?}");
}

#[test]
fn checked_kernels_stay_inside_their_window() {
    let device = open(&Options { checked: true, ..options() });
    let align = u64::from(device.caps().window_align);
    let s = Session::new(&device, 4 * align, &[], 0);
    let command = |past| Command::Dispatch {
        dispatch: dispatch(OUTSIDE, [1; 3], &[past]),
        arena: Window { offset: align, bytes: align },
        weights: Window { offset: 0, bytes: 0 },
        indirect: None,
    };
    let commands = [command(0), command(3), command(1 << 20), command(u32::MAX - 9)];
    let mut recording = s.record(&commands, 0, 0).unwrap();
    s.run(&mut recording, &[]);
    let words = s.arena_words(align as usize);
    let inside = (align / 4) as usize..(align / 2) as usize;
    for (i, &w) in words.iter().enumerate() {
        assert!(w == 0 || inside.contains(&i), "word {i} is {w}");
    }
}

/// Everything that wgpu does here natively is done at once.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("not done"),
    }
}
