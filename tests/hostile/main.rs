//! Blobs made to deceive: what the verifier must refuse, and what it must not let through.
#![allow(missing_docs)] // a test binary has no readers of its documentation
#![allow(clippy::unwrap_used, clippy::expect_used)] // a failed test panics

mod bytes;
mod corpus;
mod harness;
mod programs;
mod rejections;
mod soundness;
mod synthetic;
mod timing;
