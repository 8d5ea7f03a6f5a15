//! Compiled pipelines, kept in a file between processes.
//!
//! One file for each device, driver and set of kernels. It starts with [`MAGIC`] and the CRC-64 of what follows, so
//! that a damaged file is ignored before a driver sees it; wgpu checks that the rest was made by this driver for this
//! device. Files are replaced as a whole, so that processes may share them. The directory is made private to the
//! user: drivers trust what they read back.

use crate::errors::{Errors, lock};
use crate::options::CachePolicy;
use serinette_dispatch::KernelSource;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

const MAGIC: [u8; 8] = *b"SRNWGPU1";
/// Larger files are not ours.
const MAX_BYTES: u64 = 256 << 20;
const CRC: crc::Crc<u64> = crc::Crc::<u64>::new(&crc::CRC_64_XZ);

/// wgpu's pipeline cache with its file.
pub(crate) struct Cache {
    handle: wgpu::PipelineCache,
    path: PathBuf,
    /// CRC of the data in the file, as far as known.
    saved: Mutex<Option<u64>>,
}

impl Cache {
    /// Reads the file if there is a good one. `None` where the device has no such cache or the policy is against it.
    pub(crate) fn open(
        device: &wgpu::Device,
        errors: &Errors,
        info: &wgpu::AdapterInfo,
        sources: &[KernelSource],
        policy: &CachePolicy,
    ) -> Option<Cache> {
        if !device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return None;
        }
        let path = directory(policy)?.join(file_name(info, sources));
        let data = load(&path);
        let descriptor =
            wgpu::PipelineCacheDescriptor { label: Some("serinette"), data: data.as_deref(), fallback: true };
        let handle = errors.scoped(device, "create_pipeline_cache", 0, || {
            // SAFETY: the data is what `get_data` gave to `save` for a device with the same name and driver, which is
            // part of the file's name: it is whole (CRC), and lies in a directory that only the user can write.
            unsafe { device.create_pipeline_cache(&descriptor) }
        });
        Some(Cache { handle: handle.ok()?, path, saved: Mutex::new(data.map(|d| CRC.checksum(&d))) })
    }

    pub(crate) fn handle(&self) -> &wgpu::PipelineCache {
        &self.handle
    }

    /// Writes the file if there is anything new. A cache that cannot be written is no failure.
    pub(crate) fn save(&self) {
        let Some(data) = self.handle.get_data() else { return };
        let sum = CRC.checksum(&data);
        let mut saved = lock(&self.saved);
        if *saved == Some(sum) {
            return;
        }
        match store(&self.path, &data, sum) {
            Ok(()) => *saved = Some(sum),
            Err(e) => log::warn!("pipelines are not kept in {}: {e}", self.path.display()),
        }
    }
}

fn directory(policy: &CachePolicy) -> Option<PathBuf> {
    let from = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    match policy {
        CachePolicy::Off => None,
        CachePolicy::Directory(path) => Some(path.clone()),
        CachePolicy::Default => from("XDG_CACHE_HOME")
            .or_else(|| from("LOCALAPPDATA"))
            .or_else(|| from("HOME").map(|home| home.join(".cache")))
            .map(|base| base.join("serinette")),
    }
}

fn file_name(info: &wgpu::AdapterInfo, sources: &[KernelSource]) -> String {
    let mut digest = CRC.digest();
    for text in [&info.name, &info.driver, &info.driver_info] {
        digest.update(text.as_bytes());
        digest.update(&[0]);
    }
    for source in sources {
        for text in [source.name, source.wgsl_immediate, source.wgsl_uniform] {
            digest.update(text.as_bytes());
            digest.update(&[0]);
        }
    }
    format!("wgpu-{:08x}-{:08x}-{:016x}.bin", info.vendor, info.device, digest.finalize())
}

fn load(path: &Path) -> Option<Vec<u8>> {
    // Opening something else, a pipe for one, might block.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    let data = check(&bytes).map(<[u8]>::to_vec);
    if data.is_none() {
        log::warn!("{} is damaged and ignored", path.display());
    }
    data
}

fn check(file: &[u8]) -> Option<&[u8]> {
    let (sum, data) = file.strip_prefix(&MAGIC)?.split_first_chunk::<8>()?;
    (CRC.checksum(data) == u64::from_le_bytes(*sum)).then_some(data)
}

fn store(path: &Path, data: &[u8], sum: u64) -> io::Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    if let Some(directory) = path.parent() {
        make_private(directory)?;
    }
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let part = path.with_extension(format!("{}-{n}.part", std::process::id()));
    let file = [&MAGIC[..], &sum.to_le_bytes(), data].concat();
    let done = std::fs::write(&part, file).and_then(|()| std::fs::rename(&part, path));
    if done.is_err() {
        // Nothing more can be done about a part that cannot be removed.
        let _ = std::fs::remove_file(&part);
    }
    done
}

fn make_private(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_is_read_back_and_every_damage_is_seen() {
        let directory = std::env::temp_dir().join(format!("serinette-wgpu-cache-{}", std::process::id()));
        let path = directory.join("deep").join("file.bin");
        let data: Vec<u8> = (0..1237u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        store(&path, &data, CRC.checksum(&data)).unwrap();
        assert_eq!(load(&path).as_deref(), Some(&data[..]));
        let good = std::fs::read(&path).unwrap();
        for i in (0..good.len()).step_by(7) {
            let mut bad = good.clone();
            bad[i] ^= 0x10;
            assert_eq!(check(&bad), None, "byte {i}");
            assert_eq!(check(&good[..i]), None, "cut at {i}");
        }
        let names: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(names.len(), 1, "no part files stay");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
