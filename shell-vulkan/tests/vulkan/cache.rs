//! The pipeline cache file.

use std::fs;
use std::path::{Path, PathBuf};

use serinette_dispatch::Shell;

use crate::kernels::{AFFINE, AFFINE_WEIGHTS, GATE};
use crate::*;

/// A directory of its own, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("serinette-vulkan-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn policy(&self) -> CachePolicy {
        // Made on demand, with what leads to it.
        CachePolicy::Directory(self.0.join("a/b"))
    }

    fn files(&self) -> Vec<PathBuf> {
        let listed = fs::read_dir(self.0.join("a/b"));
        listed.map_or_else(|_| Vec::new(), |list| list.map(|entry| entry.unwrap().path()).collect())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Opens, makes pipelines, and says how many bytes the file held at opening.
fn use_cache(directory: &Directory) -> u64 {
    let gpu = Gpu::with(directory.policy());
    gpu.load_kernels(&[AFFINE, AFFINE_WEIGHTS, GATE]).unwrap();
    let stats = gpu.pipeline_stats();
    assert_eq!(stats.created, 3);
    assert!(stats.milliseconds > 0.0 && stats.cache_hits <= 3);
    stats.cache_file_bytes
}

fn single_file(directory: &Directory) -> PathBuf {
    let files = directory.files();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

fn data_bytes(file: &Path) -> u64 {
    fs::metadata(file).unwrap().len() - 64
}

#[test]
fn the_file_is_written_once_and_read_again() {
    let directory = Directory::new("again");
    {
        let gpu = Gpu::with(directory.policy());
        assert!(!gpu.save_cache().unwrap(), "there is nothing to save yet");
        gpu.load_kernels(&[AFFINE]).unwrap();
        assert_eq!(directory.files(), [] as [PathBuf; 0], "nothing is written before it is asked for");
        assert!(gpu.save_cache().unwrap());
        assert!(!gpu.save_cache().unwrap());
        let file = single_file(&directory);
        fs::remove_file(&file).unwrap();
    }
    assert_eq!(directory.files(), [] as [PathBuf; 0], "nothing new, nothing written");
    assert_eq!(use_cache(&directory), 0);
    let file = single_file(&directory);
    let bytes = data_bytes(&file);
    assert!(bytes >= 32);
    assert_eq!(use_cache(&directory), bytes);
}

#[test]
fn damaged_foreign_and_truncated_files_are_ignored_and_replaced() {
    let directory = Directory::new("damaged");
    use_cache(&directory);
    let file = single_file(&directory);
    let good = fs::read(&file).unwrap();
    let mut cases: Vec<Vec<u8>> = vec![
        Vec::new(),
        good[..good.len() - 1].to_vec(),
        good[..63].to_vec(),
        good[..64].to_vec(),
        vec![0xff; 4096],
        [&good[..], &[0]].concat(),
    ];
    for place in [0, 7, 8, 16, 20, 24, 40, 48, 56, 64, 70, good.len() - 1] {
        let mut damaged = good.clone();
        damaged[place] ^= 0x10;
        cases.push(damaged);
    }
    for (number, case) in cases.into_iter().enumerate() {
        fs::write(&file, case).unwrap();
        assert_eq!(use_cache(&directory), 0, "case {number}");
        let written = fs::read(single_file(&directory)).unwrap();
        assert_eq!(written[..48], good[..48], "case {number}: not replaced");
    }

    // Where the file cannot be replaced, the error is told by `save_cache` and nothing else suffers.
    fs::remove_file(&file).unwrap();
    fs::create_dir_all(file.join("x")).unwrap();
    {
        let gpu = Gpu::with(directory.policy());
        gpu.load_kernels(&[AFFINE]).unwrap();
        assert!(gpu.save_cache().is_err());
        assert!(gpu.save_cache().is_err(), "still unsaved");
    }
    assert_eq!(directory.files(), [file], "temporary files were left behind");
}

#[test]
fn switched_off_means_no_file() {
    let gpu = Gpu::open();
    gpu.load_kernels(&[AFFINE]).unwrap();
    assert!(!gpu.save_cache().unwrap());
}
