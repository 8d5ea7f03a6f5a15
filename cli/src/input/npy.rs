//! NumPy arrays.

use crate::failure::Failure;
use crate::tensor::{Tensor, elements};
use serinette::DType;
use std::path::Path;

/// Reads a `.npy` file.
pub fn read(path: &Path) -> Result<Tensor, Failure> {
    let bytes = std::fs::read(path).map_err(|e| Failure::file(path, e))?;
    parse(&bytes).map_err(|e| Failure::file(path, e))
}

/// Reads the contents of a `.npy` file. Both byte orders and both orders of axes are taken.
pub fn parse(bytes: &[u8]) -> Result<Tensor, String> {
    let (text, data) = split(bytes)?;
    let header =
        Header::parse(text).ok_or_else(|| format!("a NumPy header that cannot be read: {}", text.trim()))?;
    let dtype = dtype(&header.descr)
        .ok_or_else(|| format!("elements of type '{}': expected numbers or bools", header.descr))?;
    let (shape, size) = (header.shape, dtype.size());
    let expected = elements(&shape).and_then(|n| n.checked_mul(size));
    if expected != Some(data.len()) {
        let expected = expected.map_or("more than there can be".into(), |n| n.to_string());
        let found = data.len();
        return Err(format!(
            "shape {shape:?} of {dtype}: expected {expected} bytes of elements, found {found}"
        ));
    }
    let mut bytes = data.to_vec();
    if header.descr.starts_with('>') {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    if dtype == DType::Bool {
        bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0));
    }
    let bytes = if header.column_major { transpose(&bytes, &shape, size) } else { bytes };
    Ok(Tensor { dtype, shape, bytes })
}

/// The text of the header, and the elements.
fn split(bytes: &[u8]) -> Result<(&str, &[u8]), String> {
    let not = || "not a NumPy array".to_string();
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or_else(not)?;
    let (length, rest) = match rest {
        [1, _, a, b, rest @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => {
            (usize::try_from(u32::from_le_bytes([*a, *b, *c, *d])).unwrap_or(usize::MAX), rest)
        }
        [version, ..] => {
            return Err(format!("a NumPy array of format {version}: expected 1, 2 or 3, or it is cut off"));
        }
        [] => return Err(not()),
    };
    let (text, data) = rest.split_at_checked(length).ok_or("a NumPy array that is cut off in its header")?;
    Ok((std::str::from_utf8(text).map_err(|_| not())?, data))
}

/// The element type of NumPy's description: byte order, kind, bytes.
fn dtype(descr: &str) -> Option<DType> {
    let kind = descr.strip_prefix(['<', '>', '|', '='])?;
    // `=` would be the order of the machine that wrote the file, which is not known.
    if descr.starts_with('=') {
        return None;
    }
    KINDS.iter().find(|(k, _)| *k == kind).map(|(_, t)| *t)
}

/// NumPy's kinds of elements that are also ours.
pub const KINDS: [(&str, DType); 12] = [
    ("b1", DType::Bool),
    ("i1", DType::I8),
    ("i2", DType::I16),
    ("i4", DType::I32),
    ("i8", DType::I64),
    ("u1", DType::U8),
    ("u2", DType::U16),
    ("u4", DType::U32),
    ("u8", DType::U64),
    ("f2", DType::F16),
    ("f4", DType::F32),
    ("f8", DType::F64),
];

/// What the header says: a dictionary in Python's notation.
struct Header {
    descr: String,
    column_major: bool,
    shape: Vec<usize>,
}

impl Header {
    fn parse(text: &str) -> Option<Header> {
        let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
        let (mut descr, mut column_major, mut shape) = (None, None, None);
        while !rest.is_empty() {
            let (key, after) = quoted(rest)?;
            let value = after.trim_start().strip_prefix(':')?.trim_start();
            let after = match key {
                "descr" => {
                    let (d, after) = quoted(value)?;
                    descr = Some(d.to_string());
                    after
                }
                "fortran_order" => {
                    let (truth, after) = value
                        .strip_prefix("True")
                        .map(|a| (true, a))
                        .or_else(|| value.strip_prefix("False").map(|a| (false, a)))?;
                    column_major = Some(truth);
                    after
                }
                "shape" => {
                    let (dims, after) = value.strip_prefix('(')?.split_once(')')?;
                    let dims = dims.split(',').map(str::trim).filter(|d| !d.is_empty());
                    shape = Some(dims.map(|d| d.parse().ok()).collect::<Option<Vec<usize>>>()?);
                    after
                }
                _ => return None,
            };
            let after = after.trim_start();
            rest = after.strip_prefix(',').or(after.is_empty().then_some(after))?.trim_start();
        }
        Some(Header { descr: descr?, column_major: column_major?, shape: shape? })
    }
}

/// A text in quotes at the start, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text.strip_prefix(quote)?.split_once(quote)
}

/// Elements in column-major order as row-major.
fn transpose(bytes: &[u8], shape: &[usize], size: usize) -> Vec<u8> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = 1usize;
    for d in shape {
        strides.push(stride);
        stride *= d;
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = vec![0; shape.len()];
    for _ in 0..stride {
        let at: usize = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
        out.extend_from_slice(bytes.get(at * size..(at + 1) * size).unwrap_or(&[]));
        for (i, d) in index.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < *d {
                break;
            }
            *i = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A file of version 1.0.
    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut text = header.to_string();
        while !(10 + text.len() + 1).is_multiple_of(64) {
            text.push(' ');
        }
        text.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn byte_orders_and_axis_orders() {
        let big: Vec<u8> = [1i16, -2, 3, 4, 5, 6].iter().flat_map(|x| x.to_be_bytes()).collect();
        let t = parse(&file("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }", &big)).unwrap();
        assert_eq!((t.dtype, t.shape), (DType::I16, vec![2, 3]));
        // Its columns are (1, -2), (3, 4), (5, 6).
        let want: Vec<u8> = [1i16, 3, 5, -2, 4, 6].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(t.bytes, want);
    }

    #[test]
    fn scalars_and_empty_arrays() {
        let t =
            parse(&file("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", &1.5f32.to_le_bytes()))
                .unwrap();
        assert_eq!((t.shape.len(), t.bytes.as_slice()), (0, &1.5f32.to_le_bytes()[..]));
        let t = parse(&file("{'descr': '|b1', 'fortran_order': False, 'shape': (0, 3), }", &[])).unwrap();
        assert_eq!((t.dtype, t.shape, t.bytes.len()), (DType::Bool, vec![0, 3], 0));
    }

    #[test]
    fn wrong_files_are_refused() {
        let short =
            parse(&file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", &[0; 4])).unwrap_err();
        assert!(short.contains("expected 8 bytes of elements, found 4"), "{short}");
        let huge = "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 8), }";
        assert!(parse(&file(huge, &[0; 8])).is_err());
        let text =
            parse(&file("{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }", &[0; 16])).unwrap_err();
        assert!(text.contains("U4"), "{text}");
        assert!(parse(b"GIF89a").is_err());
        let whole = file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", &[0; 8]);
        for cut in 0..whole.len() {
            assert!(parse(&whole[..cut]).is_err(), "cut at {cut}");
        }
        for bad in [
            "",
            "{",
            "{'shape': (1,)}",
            "{'descr': <f4}",
            "{'descr': '<f4', 'fortran_order': 1, 'shape': ()}",
        ] {
            assert!(parse(&file(bad, &[0; 4])).is_err(), "{bad}");
        }
    }
}
