//! The bodies of the fuzz targets, so that a corpus can be replayed without a fuzzer.

use super::attack;
use super::base;
use super::choice::{Bytes, Choice};
use super::mutate;
use super::oracle::{judge, judge_bytes};
use super::random::{Options, program};
use super::run::{Aligned, check_default};
use serinette_compiler::blob::{Blob, seal};
use serinette_core::schedule::Program;

/// A file as it came. Its checksum is made right first, as an attacker would.
pub fn verify_bytes(data: &[u8]) {
    let mut file = Aligned::of(data);
    let meta = Program::parse(file.bytes(), data.len() as u64).map_or(0, |p| p.meta.len());
    if let Some(meta) = file.bytes_mut().get_mut(..meta) {
        seal(meta);
    }
    judge_bytes(file.bytes());
}

/// A valid blob: one made by hand, or a random program.
fn seed(choice: &mut Bytes<'_>) -> Blob {
    match choice.below(6) {
        0 => base::chain(),
        1 | 2 => base::everything().0,
        n => {
            let options = Options { ops: 3 + choice.below(10), live: 5, wave: 3, regions: n > 3, depth: 2 };
            program(choice, options)
        }
    }
}

/// Records changed, verified only.
pub fn verify_structured(data: &[u8]) {
    let mut choice = Bytes(data);
    let mut blob = seed(&mut choice);
    for _ in 0..8 {
        mutate::any(&mut blob, &mut choice);
        // Accepted or not: there is an answer.
        let _ = check_default(Aligned::of(&blob.to_bytes()).bytes());
        if choice.is_empty() {
            break;
        }
    }
}

/// Plans and records changed; what is accepted is compared with private memory.
pub fn run_mutated(data: &[u8]) {
    let mut choice = Bytes(data);
    let mut blob = seed(&mut choice);
    // Attacks need a valid blob, so they come first.
    if choice.one_in(4) {
        attack::regions(&mut blob, &mut choice);
    }
    for _ in 0..choice.below(4) {
        mutate::any(&mut blob, &mut choice);
    }
    judge(&blob);
}
