//! Replays the corpora of the fuzz targets.

use crate::harness::replay;
use std::path::Path;

fn each(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.ancestors().map(|f| f.join("fuzz/corpus").join(target)).find(|f| f.is_dir()).unwrap();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "an empty corpus tests nothing");
    for f in files {
        println!("{}", f.display());
        run(&std::fs::read(f).unwrap());
    }
}

#[test]
fn corpus_of_verify_bytes() {
    each("verify_bytes", replay::verify_bytes);
}

#[test]
fn corpus_of_verify_structured() {
    each("verify_structured", replay::verify_structured);
}

#[test]
fn corpus_of_run_mutated() {
    each("run_mutated", replay::run_mutated);
}
