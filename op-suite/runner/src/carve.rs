//! Cutting one piece of memory into the operands of a case.

/// Where every operand starts: at a multiple of the largest element.
pub(crate) const ALIGN: usize = 16;

/// The part of `memory` from its first aligned byte on.
pub(crate) fn aligned(memory: &mut [u8]) -> &mut [u8] {
    let skip = memory.as_ptr().align_offset(ALIGN);
    memory.get_mut(skip..).unwrap_or(&mut [])
}

/// What an operand of so many bytes takes.
pub(crate) fn padded(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(ALIGN as u64).unwrap_or(u64::MAX)
}

/// Cuts `bytes` off the front of `rest`, which stays aligned; `None` if it is shorter.
pub(crate) fn take<'m>(rest: &mut &'m mut [u8], bytes: u64) -> Option<&'m mut [u8]> {
    let whole = usize::try_from(padded(bytes)).ok()?;
    if whole > rest.len() {
        return None;
    }
    let (front, back) = core::mem::take(rest).split_at_mut_checked(whole)?;
    *rest = back;
    front.get_mut(..usize::try_from(bytes).ok()?)
}
