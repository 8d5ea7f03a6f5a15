//! Many sessions one after the other, and pipelines kept in files.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;
use common::*;
use serinette_dispatch::{Command, Gate, KernelLibrary, Shell, Target};
use serinette_wgpu::{CachePolicy, Options, WgpuDevice};

/// One session from buffers to the last drop, with every kind of object that a recording makes.
fn session(device: &WgpuDevice, random: &mut Random) {
    let n = 4000 + random.word() % 97;
    let weights = random.words(n as usize);
    let s = Session::new(device, 8 * u64::from(n), &weights, 1);
    let mut commands = vec![
        write(u64::from(n)),
        Command::Write { from: 4 * u64::from(n), to: Target::Control, offset: 80, bytes: 12 },
    ];
    let gate = Gate {
        condition: None,
        trips: None,
        negate: false,
        parent: None,
        flag: 4,
        first_record: 0,
        records: 1,
        table: 20,
    };
    LIBRARY.gate(&gate, device.caps(), &mut |d| commands.push(s.launch(d))).unwrap();
    commands.push(s.launch(affine(n, n, in_weights(0), 3, 1)));
    commands.push(Command::Dispatch {
        dispatch: affine(n, 0, n, 5, 2),
        arena: s.all(),
        weights: s.all_weights(),
        indirect: Some(0),
    });
    commands.push(read(u64::from(n)));
    let mut recording = s.record(&commands, 4 * u64::from(n) + 12, 4 * u64::from(n)).unwrap();
    let mut input = random.words(n as usize);
    input.extend([n.div_ceil(64), 1, 1]);
    let expected: Vec<u32> =
        weights.iter().map(|x| x.wrapping_mul(3).wrapping_add(1).wrapping_mul(5).wrapping_add(2)).collect();
    assert_eq!(s.run(&mut recording, &input), expected);
}

/// Memory of this process that is resident, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    1024 * line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn a_thousand_sessions_leave_nothing_behind() {
    let device = open(&options());
    let mut random = Random(61);
    let allocated =
        || device.wgpu_device().generate_allocator_report().map_or(0, |r| r.total_allocated_bytes);
    for _ in 0..100 {
        session(&device, &mut random);
    }
    let (resident_before, allocated_before) = (resident(), allocated());
    for _ in 0..1000 {
        session(&device, &mut random);
    }
    let (resident_after, allocated_after) = (resident(), allocated());
    println!(
        "resident {resident_before} -> {resident_after}, on the device {allocated_before} -> {allocated_after}"
    );
    // A leak of one word for each word of a session would be 64 MiB, of a handle a few hundred KiB; an allocator's
    // fragments and other tests in this process are below 2 MiB.
    assert!(resident_after < resident_before + (2 << 20), "{resident_before} -> {resident_after}");
    assert!(allocated_after <= allocated_before + (64 << 10), "{allocated_before} -> {allocated_after}");
}

#[test]
fn pipelines_are_kept_in_a_file() {
    let directory = std::env::temp_dir().join(format!("serinette-wgpu-lifetimes-{}", std::process::id()));
    let options = Options { cache: CachePolicy::Directory(directory.join("cache")), ..options() };
    let files = || -> Vec<std::path::PathBuf> {
        std::fs::read_dir(directory.join("cache")).map_or(vec![], |d| d.map(|f| f.unwrap().path()).collect())
    };
    let compute = || {
        let device = open(&options);
        session(&device, &mut Random(71));
        device.wgpu_device().features().contains(serinette_wgpu::wgpu::Features::PIPELINE_CACHE)
    };
    let kept = compute();
    assert_eq!(files().len(), usize::from(kept), "one file where the device can keep pipelines");
    compute();
    assert_eq!(files().len(), usize::from(kept));
    for file in files() {
        // Damage of every sort is ignored, and repaired.
        let good = std::fs::read(&file).unwrap();
        for bad in [&good[..good.len() / 2], &[], b"something else entirely, long enough for a header"] {
            std::fs::write(&file, bad).unwrap();
            compute();
            assert!(std::fs::read(&file).unwrap().starts_with(&good[..8]));
        }
        // A directory in the file's place: nothing is kept, everything works.
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        compute();
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
