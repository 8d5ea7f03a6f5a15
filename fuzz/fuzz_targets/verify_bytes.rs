//! Arbitrary bytes: reading and verifying them gives an answer, and what is accepted runs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serinette_fuzz::harness::replay;

fuzz_target!(|data: &[u8]| replay::verify_bytes(data));
