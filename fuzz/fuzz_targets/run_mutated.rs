//! Valid blobs with changed plans and records: what is accepted runs and computes what the program means.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serinette_fuzz::harness::replay;

fuzz_target!(|data: &[u8]| replay::run_mutated(data));
