//! What is refused, and with which numbers.

use std::path::PathBuf;

use serinette_dispatch::{Command, Shell, ShellError, Target, Usage, Window};
use serinette_vulkan::{Selector, devices};

use crate::kernels::{AFFINE, AFFINE_WEIGHTS, COUNT, FOREIGN, GARBAGE, GATE, TOO_MANY_PARAMETERS, TOO_WIDE};
use crate::*;

#[test]
fn without_a_loader_or_a_device_it_is_unavailable() {
    let missing =
        Options { loader: Some(PathBuf::from("/nonexistent/libvulkan.so.1")), ..Options::default() };
    // A library, but no loader.
    let wrong = Options { loader: Some(PathBuf::from("libm.so.6")), ..Options::default() };
    for options in [missing, wrong] {
        assert!(matches!(devices(&options), Err(ShellError::Unavailable(_))));
        assert!(matches!(VulkanDevice::open(&options, &LIBRARY).err(), Some(ShellError::Unavailable(_))));
    }
    for device in [Selector::Index(1000), Selector::Name("no such device".into())] {
        let options = Options { device, ..options() };
        assert!(matches!(VulkanDevice::open(&options, &LIBRARY).err(), Some(ShellError::Unavailable(_))));
    }
}

#[test]
fn every_listed_device_opens_by_number_and_by_name() {
    let listed = devices(&options()).unwrap();
    assert!(!listed.is_empty(), "no Vulkan device");
    for (index, info) in listed.iter().enumerate() {
        let opened =
            VulkanDevice::open(&Options { device: Selector::Index(index), ..options() }, &LIBRARY).unwrap();
        assert_eq!(opened.info(), info);
        assert_eq!(opened.name(), info.name);
        assert!(info.api_version >= [1, 1, 0]);
        let caps = opened.caps();
        // What every Vulkan device has (specification, "Required Limits").
        assert!(caps.max_workgroups.iter().all(|&most| most >= 65_535));
        assert!(caps.max_invocations >= 128 && caps.shared_bytes >= 16_384 && caps.immediate_bytes == 128);
        assert!(caps.max_binding >= 1 << 27 && caps.max_binding <= (2 << 30) - 256);
        assert!(caps.window_align.is_power_of_two() && (4..=256).contains(&caps.window_align));
        assert!(caps.subgroup[0] >= 1 && caps.subgroup[0] <= caps.subgroup[1]);
        assert!(caps.max_buffer >= caps.max_binding);
        let name = Selector::Name(info.name.to_uppercase());
        let by_name = VulkanDevice::open(&Options { device: name, ..options() }, &LIBRARY).unwrap();
        assert_eq!(by_name.name(), info.name);
    }
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    let gpu = Gpu::open();
    let limit = gpu.caps().max_buffer;
    for bytes in [limit + 1, u64::MAX - 2, u64::MAX] {
        let refused = gpu.buffer(bytes, Usage::Storage).err();
        assert_eq!(refused, Some(ShellError::Limit { what: "buffer bytes", limit, needed: bytes }));
    }
    let session = Session::new(&gpu, 4);
    assert!(gpu.record(&session, &[], u64::MAX, 0).is_err());
    assert!(gpu.record(&session, &[], 0, u64::MAX).is_err());
}

#[test]
fn kernels_that_cannot_run_are_refused_by_name() {
    let gpu = Gpu::open();
    assert_eq!(gpu.load_kernels(&[FOREIGN]), Err(ShellError::Kernel("foreign")));
    assert_eq!(gpu.load_kernels(&[AFFINE, GARBAGE]), Err(ShellError::Kernel("garbage")));
    assert_eq!(
        gpu.load_kernels(&[TOO_MANY_PARAMETERS]),
        Err(ShellError::Limit { what: "parameter words of a kernel", limit: 32, needed: 33 })
    );
    assert!(matches!(
        gpu.load_kernels(&[TOO_WIDE]),
        Err(ShellError::Limit { what: "workgroup size", needed: 0x4000_0000, .. })
    ));
    for number in [COUNT, u16::MAX] {
        assert!(matches!(gpu.load_kernels(&[number]), Err(ShellError::Invalid(_))));
    }
    assert_eq!(gpu.pipeline_stats().created, 0);
    gpu.load_kernels(&[AFFINE]).unwrap();
    let session = Session::new(&gpu, 4);
    let command = Command::Dispatch {
        dispatch: dispatch(FOREIGN, [1, 1, 1], &[]),
        arena: session.whole(),
        weights: NO_WINDOW,
        indirect: None,
    };
    assert_eq!(gpu.record(&session, &[command], 0, 0).err(), Some(ShellError::Kernel("foreign")));
}

#[test]
fn ranges_outside_of_buffers_are_refused() {
    let gpu = Gpu::open();
    let session = Session::new(&gpu, 100);
    let (arena, control) = (400, 256);
    let write = |from, to, offset, bytes| Command::Write { from, to, offset, bytes };
    let read = |from, offset, bytes, to| Command::Read { from, offset, bytes, to };
    let clear = |buffer, offset, bytes| Command::Clear { buffer, offset, bytes };
    let huge = u64::MAX - 3;
    let wrong = [
        write(0, Target::Arena, arena - 4, 8),
        write(0, Target::Arena, arena + 4, 0),
        write(60, Target::Arena, 0, 8),
        write(huge, Target::Arena, 0, 8),
        write(0, Target::Arena, huge, 8),
        write(0, Target::Arena, 4, huge),
        write(2, Target::Arena, 0, 4),
        write(0, Target::Arena, 1, 4),
        write(0, Target::Arena, 0, 3),
        write(0, Target::Control, control, 4),
        read(Target::Arena, arena - 4, 8, 0),
        read(Target::Arena, 0, 8, 60),
        read(Target::Arena, huge, 8, 0),
        read(Target::Arena, 0, 8, huge),
        read(Target::Control, control - 4, 8, 0),
        read(Target::Control, 2, 4, 0),
        clear(Target::Arena, arena, 4),
        clear(Target::Arena, 4, huge),
        clear(Target::Control, 0, control + 4),
        clear(Target::Control, 0, 2),
    ];
    for command in wrong {
        let refused = gpu.record(&session, &[Command::Barrier, command], 64, 64).err();
        assert!(matches!(refused, Some(ShellError::Invalid(_))), "{command:?}: {refused:?}");
    }
    let right = [
        write(56, Target::Arena, arena - 8, 8),
        clear(Target::Control, control - 4, 4),
        Command::Barrier,
        read(Target::Arena, 0, 64, 0),
    ];
    assert!(gpu.record(&session, &right, 64, 64).is_ok());
}

#[test]
fn wrong_dispatches_are_refused() {
    let gpu = Gpu::open();
    let caps = *gpu.caps();
    let align = u64::from(caps.window_align);
    let mut session = Session::new(&gpu, 4 * align);
    let launch = |kernel, grid, arena, weights, indirect| Command::Dispatch {
        dispatch: dispatch(kernel, grid, &[0, 0, 0, 0]),
        arena,
        weights,
        indirect,
    };
    let one = [1, 1, 1];
    let window = |offset, bytes| Window { offset, bytes };
    let whole = session.whole();
    let end = whole.bytes;
    let refused = |session: &Session, command| gpu.record(session, &[command], 0, 0).err();

    for (axis, &most) in caps.max_workgroups.iter().enumerate() {
        // Where the limit is that of the type, nothing can be too large.
        if let Some(more) = most.checked_add(1) {
            let mut grid = one;
            grid[axis] = more;
            let expected = ShellError::Limit { what: "workgroups", limit: most.into(), needed: more.into() };
            assert_eq!(refused(&session, launch(AFFINE, grid, whole, NO_WINDOW, None)), Some(expected));
        }
    }
    let wrong = [
        launch(COUNT, one, whole, NO_WINDOW, None),
        launch(AFFINE, one, window(0, end + 4), NO_WINDOW, None),
        launch(AFFINE, one, window(end, 4), NO_WINDOW, None),
        launch(AFFINE, one, window(0, 6), NO_WINDOW, None),
        launch(AFFINE, one, window(align / 2, 4), NO_WINDOW, None),
        launch(AFFINE, one, window(u64::MAX - align + 1, align), NO_WINDOW, None),
        // There are no weights and no indirect buffer.
        launch(AFFINE_WEIGHTS, one, whole, window(0, 4), None),
        launch(AFFINE, one, whole, NO_WINDOW, Some(0)),
        launch(GATE, one, whole, NO_WINDOW, None),
    ];
    for command in wrong {
        let error = refused(&session, command);
        assert!(matches!(error, Some(ShellError::Invalid(_))), "{command:?}: {error:?}");
    }
    let large = launch(AFFINE, one, window(0, caps.max_binding + 4), NO_WINDOW, None);
    assert!(matches!(refused(&session, large), Some(ShellError::Limit { what: "bytes of a window", .. })));
    let mut many = dispatch(AFFINE, one, &[0; 33]);
    for (words, invalid) in [(33, false), (64, false), (65, true), (u32::MAX, true)] {
        many.param_words = words;
        let command = Command::Dispatch { dispatch: many, arena: whole, weights: NO_WINDOW, indirect: None };
        let error = refused(&session, command);
        assert_eq!(matches!(error, Some(ShellError::Invalid(_))), invalid, "{words} words: {error:?}");
        assert!(invalid || matches!(error, Some(ShellError::Limit { limit: 32, .. })));
    }

    session.weights = Some(gpu.buffer(64, Usage::Weights).unwrap());
    session.indirect = Some(gpu.buffer(30, Usage::Indirect).unwrap());
    let wrong = [
        launch(AFFINE_WEIGHTS, one, whole, window(0, 68), None),
        launch(AFFINE_WEIGHTS, one, whole, window(u64::MAX - align + 1, 4), None),
        // Two whole records fit into 32 bytes.
        launch(AFFINE, one, whole, NO_WINDOW, Some(2)),
        launch(AFFINE, one, whole, NO_WINDOW, Some(u32::MAX)),
        launch(GATE, one, whole, NO_WINDOW, Some(0)),
    ];
    for command in wrong {
        let error = refused(&session, command);
        assert!(matches!(error, Some(ShellError::Invalid(_))), "{command:?}: {error:?}");
    }
    assert_eq!(refused(&session, launch(AFFINE, one, whole, NO_WINDOW, Some(1))), None);

    // One buffer in two roles, and an indirect buffer that was not made as one.
    let twice = Buffers { control: &session.arena, ..session.buffers() };
    let plain = Buffers { indirect: session.weights.as_ref(), weights: None, ..session.buffers() };
    for buffers in [twice, plain] {
        // SAFETY: no dispatches.
        let error = unsafe { Shell::record(&*gpu, buffers, &[], 0, 0) }.err();
        assert!(matches!(error, Some(ShellError::Invalid(_))), "{error:?}");
    }
}
