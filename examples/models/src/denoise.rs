//! Noise suppression with DTLN: two small LSTM networks, one after the other on each frame of 512 samples (32 ms), a new
//! frame every 128 samples. The first one weighs the magnitudes of the frame's spectrum, the second one improves the
//! frame that comes of it.

use crate::models;
use crate::place::{Place, numbers};
use anyhow::{Result, bail};
use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use serinette::compile::CompileOptions;
use serinette::{Session, TensorView};
use std::sync::Arc;

/// Samples by which frames follow each other.
pub const HOP: usize = 128;
/// Samples of a frame.
const FRAME: usize = 512;
/// Magnitudes of a frame.
const BINS: usize = FRAME / 2 + 1;
/// Samples that the result is behind what was heard: it is whole when the last frame that covers it was added.
const LATENCY: usize = FRAME - HOP;
const MASK: &str = "dtln/livekit/plugins/dtln/models/model_1.onnx";
const REFINE: &str = "dtln/livekit/plugins/dtln/models/model_2.onnx";

/// Removes noise from one stream. Both networks are entries of one blob; the states of their LSTMs lie in the session and
/// stay from frame to frame.
pub struct Denoiser {
    session: Session,
    forward: Arc<dyn RealToComplex<f32>>,
    backward: Arc<dyn ComplexToReal<f32>>,
    /// The newest frame, and the same for transforms, which destroy what they read.
    heard: [f32; FRAME],
    frame: [f32; FRAME],
    spectrum: [Complex<f32>; BINS],
    /// Sum of the frames that overlap; the first hop is whole.
    sum: [f32; FRAME],
}

impl Denoiser {
    /// Compiles the networks and opens them.
    ///
    /// # Errors
    /// Models that were not fetched, and whatever the device refuses.
    pub fn open(place: &Place) -> Result<Denoiser> {
        let mut options = CompileOptions::default();
        let states = [("input_3", "tf_op_layer_stack_2"), ("input_5", "tf_op_layer_stack_5")];
        options.import.states = states.map(|(old, new)| (old.into(), new.into())).to_vec();
        let (mask, refine) = (models::find(MASK)?, models::find(REFINE)?);
        let session = place.compile_entries(&[("mask", &mask), ("refine", &refine)], &options)?;
        let mut planner = RealFftPlanner::new();
        Ok(Denoiser {
            session,
            forward: planner.plan_fft_forward(FRAME),
            backward: planner.plan_fft_inverse(FRAME),
            heard: [0.0; FRAME],
            frame: [0.0; FRAME],
            spectrum: [Complex::default(); BINS],
            sum: [0.0; FRAME],
        })
    }

    /// Hears the next samples of the stream and gives as many without noise: those of 384 samples (24 ms) before.
    ///
    /// # Errors
    /// A run that fails.
    pub fn hear(&mut self, samples: &[f32; HOP]) -> Result<[f32; HOP]> {
        self.heard.copy_within(HOP.., 0);
        self.heard[LATENCY..].copy_from_slice(samples);
        self.frame = self.heard;
        self.forward.process(&mut self.frame, &mut self.spectrum)?;
        let magnitudes = self.spectrum.map(|c| c.norm());
        let input = TensorView::f32(&[1, 1, BINS], &magnitudes);
        let mask = numbers(&self.session.run("mask", &[("input_2", input)])?, "activation_2")?;
        if mask.len() != BINS {
            bail!("the network gave {} weights, expected {BINS}", mask.len());
        }
        // The inverse transform does not divide by the number of samples.
        for (c, m) in self.spectrum.iter_mut().zip(&mask) {
            *c *= m / FRAME as f32;
        }
        // Nothing weighs these imaginary parts, which are 0 but for rounding.
        self.spectrum[0].im = 0.0;
        self.spectrum[BINS - 1].im = 0.0;
        self.backward.process(&mut self.spectrum, &mut self.frame)?;
        let input = TensorView::f32(&[1, 1, FRAME], &self.frame);
        let refined = numbers(&self.session.run("refine", &[("input_4", input)])?, "conv1d_3")?;
        self.sum.copy_within(HOP.., 0);
        self.sum[LATENCY..].fill(0.0);
        for (s, r) in self.sum.iter_mut().zip(&refined) {
            *s += r;
        }
        let mut whole = [0.0; HOP];
        whole.copy_from_slice(&self.sum[..HOP]);
        Ok(whole)
    }

    /// A whole recording without noise: as many samples, at the same times.
    ///
    /// # Errors
    /// A run that fails.
    pub fn clean(&mut self, samples: &[f32]) -> Result<Vec<f32>> {
        self.session.reset_state()?;
        (self.heard, self.sum) = ([0.0; FRAME], [0.0; FRAME]);
        let mut clean = Vec::with_capacity(samples.len() + FRAME);
        let mut rest = samples.iter().copied();
        while clean.len() < samples.len() + LATENCY {
            clean.extend(self.hear(&std::array::from_fn(|_| rest.next().unwrap_or(0.0)))?);
        }
        Ok(clean.drain(LATENCY..LATENCY + samples.len()).collect())
    }
}
