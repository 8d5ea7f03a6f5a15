//! What the example programs of this folder share, and what each of them does, one module each.
//!
//! The models are those that `tools/fetch.py` of the project fetches; [`models::find`] finds them.

pub mod audio;
pub mod denoise;
pub mod magika;
pub mod models;
pub mod ocr;
pub mod place;
pub mod sentences;
pub mod vad;
