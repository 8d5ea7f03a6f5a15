//! Valid blobs with changed records, sealed again: verifying them gives an answer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serinette_fuzz::harness::replay;

fuzz_target!(|data: &[u8]| replay::verify_structured(data));
