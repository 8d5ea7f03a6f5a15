//! What the targets share with the hostile tests.

#[path = "../../tests/hostile/harness/mod.rs"]
pub mod harness;
