//! Damaged files: cut at every length, changed at every byte.

use crate::harness::base;
use crate::harness::oracle::judge_bytes;
use crate::harness::run::{Aligned, check_default};
use serinette_compiler::blob::seal;
use serinette_core::schedule::{Program, Reason};

#[test]
fn every_prefix_is_refused() {
    for file in [base::chain().to_bytes(), base::everything().0.to_bytes()] {
        let all = Aligned::of(&file);
        for n in 0..file.len() {
            let short = &all.bytes()[..n];
            let e = check_default(short).expect_err("a part of a file is accepted");
            assert_eq!(e.reason, Reason::Truncated, "at {n}");
        }
        // A reader that has the right length but not all the records.
        let meta = u64::from_le_bytes(file[16..24].try_into().unwrap()) as usize;
        for n in 0..file.len() {
            let parsed = Program::parse(&all.bytes()[..n], file.len() as u64);
            assert_eq!(parsed.is_ok(), n >= meta, "at {n}");
        }
    }
}

/// Each byte of the records is changed and the file is sealed again: it is refused, or runs as what it now says.
fn change_every_byte(file: &[u8], changes: &[u8]) -> (usize, usize) {
    let mut changed = Aligned::of(file);
    let meta = u64::from_le_bytes(file[16..24].try_into().unwrap()) as usize;
    let (mut refused, mut accepted) = (0, 0);
    for at in 0..meta {
        let bits = changes[at % changes.len()];
        changed.bytes_mut()[at] ^= bits;
        seal(&mut changed.bytes_mut()[..meta]);
        if judge_bytes(changed.bytes()).accepted {
            accepted += 1
        } else {
            refused += 1
        }
        changed.bytes_mut()[at] ^= bits;
    }
    (refused, accepted)
}

#[test]
fn every_changed_byte_is_survived() {
    let chain = base::chain().to_bytes();
    for bits in [0x01, 0x80, 0xff, 0x04] {
        let (refused, accepted) = change_every_byte(&chain, &[bits]);
        assert!(refused > accepted && accepted > 0, "{refused} refused, {accepted} accepted");
    }
    let (refused, accepted) =
        change_every_byte(&base::everything().0.to_bytes(), &[0x01, 0xff, 0x02, 0x80, 0x10]);
    assert!(refused > accepted && accepted > 0, "{refused} refused, {accepted} accepted");
}
