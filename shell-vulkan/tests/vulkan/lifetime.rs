//! Order of destruction, and work that takes too long.

use serinette_dispatch::{Command, Shell, ShellError, Target, Usage};

use crate::kernels::SPIN;
use crate::*;

/// A session with a recording that adds one to the input, and its input and output.
fn small(gpu: &Gpu) -> (Session, Recording) {
    let session = Session::new(gpu, 64);
    let commands = [
        Command::Write { from: 0, to: Target::Arena, offset: 0, bytes: 40 },
        Command::Barrier,
        affine(&session, 0, 16, 10, 1),
        Command::Barrier,
        Command::Read { from: Target::Arena, offset: 64, bytes: 40, to: 0 },
    ];
    let recording = gpu.record(&session, &commands, 40, 40).unwrap();
    (session, recording)
}

fn works(gpu: &VulkanDevice, recording: &mut Recording) {
    let input = random(10, 9);
    let expected: Vec<u32> = input.iter().map(|x| x.wrapping_add(1)).collect();
    assert_eq!(run(gpu, recording, &input).unwrap(), expected);
}

#[test]
fn a_recording_keeps_its_buffers_and_its_device() {
    let gpu = Gpu::open();
    let (session, mut recording) = small(&gpu);
    drop(session);
    // Freed memory would be handed out again and overwritten.
    let others: Vec<_> = (0..8).map(|_| gpu.buffer(256, Usage::Storage).unwrap()).collect();
    works(&gpu, &mut recording);
    drop(others);
    drop(recording);

    let (session, recording) = small(&gpu);
    drop(recording);
    gpu.upload(&session.arena, 0, &[7; 16]).unwrap();
    assert_eq!(download(&gpu, &session.arena, 0, 5), [0x0707_0707, 0x0707_0707, 0x0707_0707, 0x0707_0707, 0]);
}

#[test]
fn devices_side_by_side_are_dropped_in_any_order() {
    let first = Gpu::open();
    let log = first.messages();
    let (first_session, mut first_recording) = small(&first);
    {
        let second = Gpu::open();
        let (second_session, mut second_recording) = small(&second);
        works(&first, &mut first_recording);
        works(&second, &mut second_recording);

        // What belongs to one device is refused by the other.
        assert_eq!(
            run(&first, &mut second_recording, &[]),
            Err(ShellError::Invalid("a recording of another device"))
        );
        let foreign = Err(ShellError::Invalid("a buffer of another device"));
        assert_eq!(first.upload(&second_session.arena, 0, &[0; 4]), foreign);
        assert_eq!(first.download(&second_session.arena, 0, &mut [0; 4]), foreign);
        let mixed = Session { control: second_session.control, ..Session::new(&first, 4) };
        assert_eq!(first.record(&mixed, &[], 0, 0).err(), foreign.err());
    }
    works(&first, &mut first_recording);

    // Handles first, then what they made; and the other way round. The layer tells of anything left over.
    let other_handle = first.device.clone().unwrap();
    drop(first);
    works(&other_handle, &mut first_recording);
    drop(other_handle);
    drop(first_session);
    drop(first_recording);
    assert_eq!(log.messages(), Vec::<String>::new());
}

#[test]
fn a_device_is_opened_again_and_again() {
    // Some drivers gave up after a dozen times.
    for _ in 0..30 {
        let gpu = Gpu::open();
        let (_session, mut recording) = small(&gpu);
        works(&gpu, &mut recording);
    }
}

#[test]
fn a_timeout_is_an_error_and_leaves_everything_safe() {
    let gpu = Gpu::open();
    let session = Session::new(&gpu, 16);
    // Far more than a millisecond, and far less than the shell's patience at the end. One dispatch would not do: some
    // drivers end the loops of an invocation after 65,535 rounds altogether.
    let (dispatches, rounds) = (1000, 60_000);
    let mut commands = vec![Command::Write { from: 0, to: Target::Arena, offset: 0, bytes: 4 }];
    for _ in 0..dispatches {
        let launch = dispatch(SPIN, [1, 1, 1], &[0, rounds]);
        let (arena, weights) = (session.whole(), NO_WINDOW);
        commands.push(Command::Barrier);
        commands.push(Command::Dispatch { dispatch: launch, arena, weights, indirect: None });
    }
    commands.push(Command::Barrier);
    commands.push(Command::Read { from: Target::Arena, offset: 0, bytes: 4, to: 0 });
    let spin = |x: u32| {
        let x = x ^ (x << 13);
        let x = x ^ (x >> 17);
        x ^ (x << 5)
    };
    let mut recording = gpu.record(&session, &commands, 4, 4).unwrap();
    let (_other, mut other_recording) = small(&gpu);
    let short = Duration::from_millis(1);
    let mut read = false;
    let outcome = gpu.run(&mut recording, &mut |input| input.fill(7), &mut |_| read = true, short);
    assert_eq!(outcome.err(), Some(ShellError::Timeout));
    assert!(!read, "there is nothing to read yet");

    // While it is busy its buffers are out of reach, and others are not.
    let mut written = false;
    let again = gpu.run(&mut recording, &mut |_| written = true, &mut |_| read = true, short);
    let busy = gpu.upload(&session.arena, 0, &[1; 4]);
    assert_eq!(again.err(), Some(ShellError::Timeout));
    assert_eq!(busy, Err(ShellError::Timeout));
    assert!(!written && !read, "the device may be using the staging memory");
    works(&gpu, &mut other_recording);

    // When the work has ended, the recording works again.
    let start = std::time::Instant::now();
    let output = loop {
        match run(&gpu, &mut recording, &[12345]) {
            Err(ShellError::Timeout) if start.elapsed() < PATIENCE => std::thread::sleep(short),
            outcome => break outcome.unwrap(),
        }
    };
    assert_eq!(output, [(0..dispatches * rounds).fold(12345, |x, _| spin(x))]);
    gpu.upload(&session.arena, 0, &[1; 4]).unwrap();

    // Dropped in the middle of its work: the layer would tell of objects destroyed in use.
    let outcome =
        gpu.run(&mut recording, &mut |input| input.copy_from_slice(&to_bytes(&[12345])), &mut |_| {}, short);
    assert_eq!(outcome.err(), Some(ShellError::Timeout));
    drop(recording);
    assert_eq!(download(&gpu, &session.arena, 0, 1), output, "the run had ended before the drop returned");
}
