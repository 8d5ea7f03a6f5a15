//! What making every pipeline of the kernel library takes on a Vulkan device, without and with the cache file.
//!
//! `cargo run --release --example pipelines -- DIRECTORY`, twice: the second process finds the file of the first. Set the
//! driver's own cache aside when comparing (Mesa: `MESA_SHADER_CACHE_DISABLE=1`, NVIDIA: `__GL_SHADER_DISK_CACHE=0`).

use serinette::kernels::Library;
use serinette_dispatch::{KernelLibrary, Shell};
use serinette_vulkan::{CachePolicy, Options, VulkanDevice};
use std::error::Error;
use std::time::Instant;

static LIBRARY: Library = Library;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: pipelines DIRECTORY")?;
    let options = Options { cache: CachePolicy::Directory(directory.into()), ..Options::default() };
    let start = Instant::now();
    let device = VulkanDevice::open(&options, &LIBRARY)?;
    let opened = start.elapsed().as_secs_f64() * 1e3;
    let kernels: Vec<u16> = (0..LIBRARY.kernels().len()).filter_map(|k| u16::try_from(k).ok()).collect();
    device.load_kernels(&kernels)?;
    let made = device.pipeline_stats();
    println!(
        "{}: device opened in {opened:.1} ms; {} pipelines in {:.1} ms, {} from the cache, cache file of {} bytes",
        device.name(),
        made.created,
        made.milliseconds,
        made.cache_hits,
        made.cache_file_bytes
    );
    Ok(())
}
