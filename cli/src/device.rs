//! Devices by name.

use crate::args::DeviceName;
use crate::failure::Failure;
use serinette::Device;

/// An open device.
pub struct Opened {
    /// What opens it again: `host`, `vulkan:0`.
    pub id: String,
    /// The device.
    pub device: Device,
}

/// The devices that names stand for, in their order, each once.
pub fn ids(names: &[DeviceName]) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for n in names {
        let more = match n {
            DeviceName::All => Device::list().into_iter().map(|d| d.id).collect(),
            // `auto` is resolved here, so that results say which device they are from.
            DeviceName::One(one) if one == "auto" => {
                let found = Device::list().into_iter().find(|d| d.accelerator);
                vec![found.map_or_else(|| "host".into(), |d| d.id)]
            }
            DeviceName::One(one) => vec![one.clone()],
        };
        for id in more {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
    }
    ids
}

/// Opens one device.
pub fn open(id: &str) -> Result<Opened, Failure> {
    let kind = id.split(':').next().unwrap_or(id);
    let missing = match kind {
        "vulkan" => !cfg!(feature = "vulkan"),
        "wgpu" => !cfg!(feature = "wgpu"),
        _ => false,
    };
    if missing {
        return Err(Failure::new(format!("'{id}': this program was built without the feature '{kind}'")));
    }
    Ok(Opened { id: id.into(), device: Device::open(id)? })
}
