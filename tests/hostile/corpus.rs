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

/// Writes the valid files that `verify_bytes` starts from; run with `--ignored` when the format has changed.
#[test]
#[ignore = "writes files"]
fn write_seeds() {
    use crate::harness::{base, choice::Seeded, random};
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.ancestors().map(|f| f.join("fuzz/corpus/verify_bytes")).find(|f| f.is_dir()).unwrap();
    let options = random::Options { ops: 5, live: 4, wave: 3, regions: true, depth: 2 };
    let mut seeds =
        vec![("chain".to_string(), base::chain()), ("everything".to_string(), base::everything().0)];
    seeds.extend((0..4).map(|s| (format!("random{s}"), random::program(&mut Seeded(s), options))));
    for (name, blob) in seeds {
        std::fs::write(folder.join(name), blob.to_bytes()).unwrap();
    }
}
