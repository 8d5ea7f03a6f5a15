//! Weights from files.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{Array, Session, near, random};
use serinette_compiler::{CompileOptions, Error, GraphBuilder, WeightFile, compile};
use serinette_core::DType;
use std::io::Write;

/// A safetensors file: the length of the header, the header, the elements.
fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

fn npy(descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

fn npz(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

#[test]
fn both_kinds_of_files_give_the_same_weights() {
    let w = random(1, 6);
    let header = r#"{"w":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]},"n":{"dtype":"I64","shape":[2],"data_offsets":[24,40]}}"#;
    let integers: Vec<u8> = [7i64, -9].iter().flat_map(|v| v.to_le_bytes()).collect();
    let st = WeightFile::safetensors(safetensors(header, &[bytes(&w), integers.clone()].concat())).unwrap();
    let arrays = [
        ("w.npy", npy("<f4", "False", "(3, 2)", &bytes(&w))),
        ("n.npy", npy("<i8", "False", "(2,)", &integers)),
    ];
    let np = WeightFile::npz(npz(&arrays)).unwrap();
    for file in [&st, &np] {
        assert_eq!(file.names().collect::<Vec<_>>(), ["n", "w"]);
        let n = file.tensor("n").unwrap();
        assert_eq!((n.dtype, n.dims.as_slice(), n.data.as_bytes()), (DType::I64, &[2u64][..], &integers[..]));
        let mut b = GraphBuilder::new();
        let weight = b.weight_of(file, "w").unwrap();
        b.entry("main").unwrap();
        let x = b.input("x", DType::F32, &[4.into(), 3.into()]).unwrap();
        let y = b.matmul("y", x, weight, None).unwrap();
        b.output("y", y).unwrap();
        let compiled = compile(b.finish().unwrap(), &CompileOptions::default()).unwrap();
        let x = random(2, 12);
        let y =
            Session::new(&compiled.bytes).run("main", &[("x", Array::new(&[4, 3], &x))]).outputs["y"].f32();
        let want: Vec<f32> = (0..8)
            .map(|i| {
                (0..3).map(|k| f64::from(x[i / 2 * 3 + k]) * f64::from(w[k * 2 + i % 2])).sum::<f64>() as f32
            })
            .collect();
        near(&y, &want, 1e-6, "y");
    }
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let w = bytes(&random(1, 6));
    let reasons: [(Result<WeightFile, Error>, &str); 8] = [
        (WeightFile::safetensors(b"short".to_vec()), "safetensors file"),
        (WeightFile::safetensors(safetensors("{", &[])), "safetensors file"),
        (
            WeightFile::safetensors(safetensors(
                r#"{"w":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}}"#,
                &w[..20],
            )),
            "safetensors file",
        ),
        (
            WeightFile::safetensors(safetensors(
                r#"{"w":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}}"#,
                &w[..4],
            )),
            "element type",
        ),
        (WeightFile::npz(b"PK no archive".to_vec()), "npz file"),
        (WeightFile::npz(npz(&[("w.npy", npy("<f4", "False", "(3, 2)", &w[..20]))])), "20 bytes of elements"),
        (WeightFile::npz(npz(&[("w.npy", npy(">f4", "False", "(3, 2)", &w))])), "big-endian"),
        (WeightFile::npz(npz(&[("w.npy", npy("<f4", "True", "(3, 2)", &w))])), "Fortran"),
    ];
    for (result, wanted) in reasons {
        let e = result.unwrap_err().to_string();
        assert!(e.contains(wanted), "{e} should say {wanted}");
    }
    let file = WeightFile::npz(npz(&[("weight.npy", npy("<f4", "False", "(3, 2)", &w))])).unwrap();
    let e = GraphBuilder::new().weight_of(&file, "wieght").unwrap_err().to_string();
    assert!(e.contains("weight"), "{e}");
}
