//! Memory planning on slices that the caller owns.
pub mod offsets;
