//! `serinette devices`.

use super::print_json;
use crate::args::Devices;
use crate::failure::Failure;
use serde_json::json;
use serinette::Device;
use std::io::Write;

/// Lists the devices.
pub fn run(args: &Devices) -> Result<(), Failure> {
    let all = Device::list();
    if args.json {
        let each = |d: &serinette::DeviceInfo| json!({ "id": d.id, "name": d.name, "detail": d.detail, "accelerator": d.accelerator });
        return print_json(&json!({ "devices": all.iter().map(each).collect::<Vec<_>>() }));
    }
    let mut out = std::io::stdout().lock();
    let width =
        |f: fn(&serinette::DeviceInfo) -> &str| all.iter().map(|d| f(d).chars().count()).max().unwrap_or(0);
    let (id, name) = (width(|d| &d.id), width(|d| &d.name));
    for d in &all {
        writeln!(out, "{:<id$}  {:<name$}  {}", d.id, d.name, d.detail)?;
    }
    Ok(())
}
