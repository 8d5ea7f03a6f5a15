//! What the images of this example share.
#![no_std]

// Brings the critical section that semihosting output needs.
use cortex_m as _;

/// The embedded classifier, as `serinette-embed` writes it.
#[cfg(feature = "classifier")]
#[allow(clippy::all, dead_code)]
pub mod classifier {
    include!(concat!(env!("OUT_DIR"), "/classifier.rs"));
}

/// The picture to classify.
#[cfg(feature = "classifier")]
pub mod picture {
    include!(concat!(env!("OUT_DIR"), "/picture.rs"));
}

#[cfg(feature = "suite")]
pub mod files;
#[cfg(feature = "suite")]
pub mod stack;
