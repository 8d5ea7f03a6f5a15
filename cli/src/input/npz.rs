//! Archives of NumPy arrays.

use super::npy;
use crate::failure::Failure;
use crate::tensor::Tensor;
use std::io::Read;
use std::path::Path;
use zip::ZipArchive;

/// Reads every array of an archive, by name.
pub fn read(path: &Path) -> Result<Vec<(String, Tensor)>, Failure> {
    let file = std::fs::File::open(path).map_err(|e| Failure::file(path, e))?;
    let mut archive = ZipArchive::new(std::io::BufReader::new(file))
        .map_err(|e| Failure::file(path, format!("not an archive of arrays: {e}")))?;
    let mut arrays = Vec::new();
    for i in 0..archive.len() {
        let mut member = archive.by_index(i).map_err(|e| Failure::file(path, e))?;
        let name = member.name().map_err(|e| Failure::file(path, e))?.into_owned();
        let Some(name) = name.strip_suffix(".npy").map(String::from) else {
            return Err(Failure::file(path, format!("'{name}' is no array: its name does not end in .npy")));
        };
        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes).map_err(|e| Failure::file(path, format!("array '{name}': {e}")))?;
        let tensor = npy::parse(&bytes).map_err(|e| Failure::file(path, format!("array '{name}': {e}")))?;
        arrays.push((name, tensor));
    }
    Ok(arrays)
}
