//! NumPy arrays and archives.

use super::Output;
use crate::input::npy::KINDS;
use crate::tensor::Tensor;
use std::io::{Cursor, Write};
use zip::write::{SimpleFileOptions, ZipWriter};

/// A tensor as the contents of a `.npy` file of format 1.0: magic, length of the header, a dictionary in Python's
/// notation padded so that the elements start at a multiple of 64, the elements.
pub fn array(t: &Tensor) -> Result<Vec<u8>, String> {
    let found = KINDS.iter().find(|(_, d)| *d == t.dtype);
    let (kind, _) = found.ok_or_else(|| format!("NumPy files hold no elements of type {}", t.dtype))?;
    let order = if t.dtype.size() == 1 { '|' } else { '<' };
    let dims: String = t.shape.iter().map(|d| format!("{d}, ")).collect();
    let mut header = format!("{{'descr': '{order}{kind}', 'fortran_order': False, 'shape': ({dims}), }}");
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let length =
        u16::try_from(header.len()).map_err(|_| "too many dimensions for a NumPy file".to_string())?;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(&t.bytes);
    Ok(bytes)
}

/// Outputs as the contents of a `.npz` file, not compressed.
pub fn archive(outputs: &[&Output]) -> Result<Vec<u8>, String> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for o in outputs {
        let bytes = array(&o.tensor)?;
        zip.start_file(format!("{}.npy", o.name), options).map_err(|e| e.to_string())?;
        zip.write_all(&bytes).map_err(|e| e.to_string())?;
    }
    Ok(zip.finish().map_err(|e| e.to_string())?.into_inner())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::input::npy::parse;

    #[test]
    fn what_is_written_is_read() {
        for (_, dtype) in KINDS {
            for shape in [vec![], vec![3], vec![2, 0], vec![1, 2, 3]] {
                let n: usize = shape.iter().product();
                // Bools are 0 and 1.
                let bytes = (0..n * dtype.size()).map(|i| (i % 2) as u8).collect();
                let t = Tensor { dtype, shape, bytes };
                let file = array(&t).unwrap();
                assert_eq!(parse(&file).unwrap(), t);
                assert_eq!((file.len() - t.bytes.len()) % 64, 0);
            }
        }
    }
}
