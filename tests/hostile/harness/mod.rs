//! What the hostile tests and the fuzz targets share.
#![allow(dead_code)] // each user takes a part

pub mod attack;
pub mod base;
pub mod build;
pub mod choice;
pub mod draft;
pub mod mutate;
pub mod oracle;
pub mod random;
pub mod reference;
pub mod replay;
pub mod run;
