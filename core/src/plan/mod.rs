//! Memory planning on slices that the caller owns.
