//! Expands and compiles the shader templates for the devices that use them.

#[cfg(any(feature = "vulkan", feature = "wgpu"))]
fn main() -> std::process::ExitCode {
    use std::path::Path;
    use std::process::ExitCode;

    let Some(out) = std::env::var_os("OUT_DIR") else {
        eprintln!("OUT_DIR is not set: this is a build script");
        return ExitCode::FAILURE;
    };
    println!("cargo::rerun-if-changed=build.rs");
    match serinette_kernel_build::build(Path::new("shaders"), Path::new(&out)) {
        Ok(report) => {
            for file in report.inputs {
                println!("cargo::rerun-if-changed={}", file.display());
            }
            ExitCode::SUCCESS
        }
        Err(e) => {
            println!("cargo::rerun-if-changed=shaders");
            println!("cargo::error={}", e.to_string().replace('\n', "\ncargo::error="));
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(any(feature = "vulkan", feature = "wgpu")))]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
