//! The file that keeps compiled pipelines between processes.
//!
//! The name and the header carry a key: device, driver and kernels. A file that is truncated, damaged or of
//! another key is ignored, and replaced at the next chance. Little-endian:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | `SRNVKPC` 1 |
//! | 8 | 4 | vendor |
//! | 12 | 4 | device |
//! | 16 | 4 | driver version |
//! | 20 | 4 | zero |
//! | 24 | 16 | pipeline cache UUID of the driver |
//! | 40 | 8 | CRC-64 of the kernels |
//! | 48 | 8 | bytes of data |
//! | 56 | 8 | CRC-64 of everything else |
//! | 64 | | data, as the driver gave it |

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use ash::vk;
use crc::{CRC_64_XZ, Crc};
use serinette_dispatch::KernelSource;

const MAGIC: [u8; 8] = *b"SRNVKPC\x01";
const HEADER: usize = 64;
/// Where the checksum lies in the header.
const CHECKSUM: usize = 56;
/// Larger files are not read.
const MAX_FILE: u64 = 1 << 30;
const CRC: Crc<u64> = Crc::<u64>::new(&CRC_64_XZ);

/// Where compiled pipelines are kept between processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// In `serinette` below the user's cache directory (`$XDG_CACHE_HOME`, else `~/.cache`); nowhere where there is
    /// none.
    #[default]
    Default,
    /// In this directory, which is made when needed.
    Directory(PathBuf),
    /// Nowhere.
    Off,
}

/// What compiled pipelines depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    vendor: u32,
    device: u32,
    driver: u32,
    uuid: [u8; 16],
    kernels: u64,
}

impl Key {
    pub fn new(properties: &vk::PhysicalDeviceProperties, kernels: &[KernelSource]) -> Self {
        let mut digest = CRC.digest();
        for kernel in kernels {
            digest.update(&(kernel.spirv.len() as u64).to_le_bytes());
            for word in kernel.spirv {
                digest.update(&word.to_le_bytes());
            }
        }
        Self {
            vendor: properties.vendor_id,
            device: properties.device_id,
            driver: properties.driver_version,
            uuid: properties.pipeline_cache_uuid,
            kernels: digest.finalize(),
        }
    }

    /// The file of this key.
    pub fn path(&self, policy: &CachePolicy) -> Option<PathBuf> {
        let uuid = u128::from_be_bytes(self.uuid);
        let name = format!(
            "vulkan-{:08x}-{:08x}-{:08x}-{uuid:032x}-{:016x}.bin",
            self.vendor, self.device, self.driver, self.kernels
        );
        directory(policy).map(|directory| directory.join(name))
    }
}

fn directory(policy: &CachePolicy) -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    match policy {
        CachePolicy::Off => None,
        CachePolicy::Directory(path) => Some(path.clone()),
        CachePolicy::Default => {
            let home = || variable("HOME").map(|home| home.join(".cache"));
            let base = variable("XDG_CACHE_HOME").or_else(|| variable("LOCALAPPDATA")).or_else(home);
            base.map(|base| base.join("serinette"))
        }
    }
}

/// The data of the file, if it is intact and of this key.
pub(crate) fn read(path: &Path, key: &Key) -> Option<Vec<u8>> {
    let file = File::open(path).ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || about.len() > MAX_FILE {
        return None;
    }
    let mut bytes = Vec::new();
    // The file may grow meanwhile.
    file.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
    decode(&bytes, key).map(<[u8]>::to_vec)
}

/// Replaces the file: it has either its old or its new contents, whatever happens meanwhile.
pub(crate) fn write(path: &Path, key: &Key, data: &[u8]) -> io::Result<()> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(directory)?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let temporary = directory.join(format!(".vulkan-{}-{number}.tmp", std::process::id()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        file.write_all(&encode(key, data))?;
        file.sync_data()?;
        drop(file);
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn encode(key: &Key, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + data.len());
    bytes.extend(MAGIC);
    for word in [key.vendor, key.device, key.driver, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(key.uuid);
    bytes.extend(key.kernels.to_le_bytes());
    bytes.extend((data.len() as u64).to_le_bytes());
    let mut digest = CRC.digest();
    digest.update(&bytes);
    digest.update(data);
    bytes.extend(digest.finalize().to_le_bytes());
    bytes.extend(data);
    bytes
}

fn decode<'a>(bytes: &'a [u8], key: &Key) -> Option<&'a [u8]> {
    let data = bytes.get(HEADER..)?;
    // The header of this key and this data must be the header that is there.
    let expected = encode(key, &[]);
    let length = u64::from_le_bytes(bytes.get(48..CHECKSUM)?.try_into().ok()?);
    let checksum = u64::from_le_bytes(bytes.get(CHECKSUM..HEADER)?.try_into().ok()?);
    if bytes.get(..48)? != expected.get(..48)? || length != data.len() as u64 {
        return None;
    }
    let mut digest = CRC.digest();
    digest.update(bytes.get(..CHECKSUM)?);
    digest.update(data);
    (digest.finalize() == checksum && fits_driver(data, key)).then_some(data)
}

/// Whether the header that Vulkan itself puts before the data names this device (Vulkan specification, "Pipeline
/// Cache Header"). Drivers ought to check that, and not all do.
fn fits_driver(data: &[u8], key: &Key) -> bool {
    let word =
        |at: usize| data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    word(0).is_some_and(|length| length >= 32)
        && word(4) == Some(1)
        && word(8) == Some(key.vendor)
        && word(12) == Some(key.device)
        && data.get(16..32) == Some(&key.uuid[..])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const KEY: Key =
        Key { vendor: 0x10de, device: 7, driver: 9, uuid: [3; 16], kernels: 0x1234_5678_9abc_def0 };

    fn data() -> Vec<u8> {
        let mut data = Vec::new();
        for word in [32u32, 1, KEY.vendor, KEY.device] {
            data.extend(word.to_le_bytes());
        }
        data.extend(KEY.uuid);
        data.extend((0..101u8).map(|i| i.wrapping_mul(37)));
        data
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes = encode(&KEY, &data());
        assert_eq!(bytes.len(), HEADER + 133);
        assert_eq!(decode(&bytes, &KEY), Some(&data()[..]));
    }

    #[test]
    fn every_truncation_and_every_changed_bit_is_refused() {
        let bytes = encode(&KEY, &data());
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length], &KEY), None, "{length} bytes");
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged, &KEY), None, "bit {bit}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(decode(&longer, &KEY), None);
    }

    #[test]
    fn another_key_is_refused() {
        let bytes = encode(&KEY, &data());
        let others = [
            Key { vendor: 1, ..KEY },
            Key { device: 1, ..KEY },
            Key { driver: 1, ..KEY },
            Key { uuid: [4; 16], ..KEY },
            Key { kernels: 1, ..KEY },
        ];
        for other in others {
            assert_eq!(decode(&bytes, &other), None);
            let policy = CachePolicy::Directory(PathBuf::from("x"));
            assert_ne!(other.path(&policy), KEY.path(&policy));
        }
    }

    #[test]
    fn data_that_the_driver_made_for_another_device_is_refused() {
        for at in [0, 4, 8, 12, 16, 31] {
            let mut foreign = data();
            foreign[at] ^= 0x40;
            // A length of 96 is no reason to refuse; the others are.
            assert_eq!(decode(&encode(&KEY, &foreign), &KEY).is_some(), at == 0, "byte {at}");
        }
        assert_eq!(decode(&encode(&KEY, &[]), &KEY), None);
    }
}
