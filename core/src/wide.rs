//! 64-bit arithmetic that is several instructions on small processors: one copy of each.

/// `a × b`; `None` where it does not fit.
#[cfg_attr(target_pointer_width = "32", inline(never))]
pub fn mul(a: u64, b: u64) -> Option<u64> {
    a.checked_mul(b)
}

/// `a × b`, at most the largest number.
#[cfg_attr(target_pointer_width = "32", inline(never))]
pub fn saturating_mul(a: u64, b: u64) -> u64 {
    a.saturating_mul(b)
}
