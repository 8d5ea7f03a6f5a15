//! Compiles a directory of templates and lists its kernels: `expand SHADERS [OUT]`. With `OUT`, writes there what a
//! build script would write.
use serinette_kernel_build as kb;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let Some(shaders) = args.next() else {
        eprintln!("usage: expand SHADERS [OUT]");
        return ExitCode::from(2);
    };
    let built = match args.next() {
        Some(out) => kb::build(&shaders, &out),
        None => kb::compile_dir(&shaders),
    };
    match built {
        Ok(report) => {
            for k in &report.kernels {
                println!("{:6} B {:?} {}", k.spirv.len() * 4, k.workgroup, k.kernel.name);
            }
            println!("{:6} B in {} kernels", report.spirv_bytes(), report.kernels.len());
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
