//! Host kernels for every op: the no_std reference, and the fast path with std.
