//! Speech detection with Silero VAD: one probability for every 512 samples (32 ms), and segments of speech from them.

use crate::audio::RATE;
use crate::models;
use crate::place::{Place, numbers};
use anyhow::{Context, Result};
use serinette::compile::CompileOptions;
use serinette::{Session, TensorView};

/// Samples of a frame.
pub const FRAME: usize = 512;
/// Samples of the frame before that the network sees again.
const CONTEXT: usize = 64;
const MODEL: &str = "silero/silero_vad/data/silero_vad_openvino_16k.onnx";

/// A detector that listens to one stream. The state of the LSTM lies in the session and stays from frame to frame.
pub struct Vad {
    session: Session,
    /// The last samples of the frame before, then the frame.
    heard: [f32; CONTEXT + FRAME],
}

impl Vad {
    /// Compiles the network and opens it.
    ///
    /// # Errors
    /// A model that was not fetched, and whatever the device refuses.
    pub fn open(place: &Place) -> Result<Vad> {
        let mut options = CompileOptions::default();
        options.import.states = vec![("state".into(), "stateN".into())];
        let session = place.compile(&models::find(MODEL)?, &options)?;
        Ok(Vad { session, heard: [0.0; CONTEXT + FRAME] })
    }

    /// The probability that the next frame of the stream is speech. Of a shorter one, the rest is silence.
    ///
    /// # Errors
    /// A run that fails.
    pub fn hear(&mut self, frame: &[f32]) -> Result<f32> {
        self.heard.copy_within(FRAME.., 0);
        for (to, from) in self.heard[CONTEXT..].iter_mut().zip(frame.iter().chain(std::iter::repeat(&0.0))) {
            *to = *from;
        }
        let input = TensorView::f32(&[1, CONTEXT + FRAME], &self.heard);
        let outputs = self.session.run("main", &[("input", input)])?;
        numbers(&outputs, "output")?.first().copied().context("the network gave no probability")
    }
}

/// When speech begins and ends, as [`segments`] decides it.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Speech begins with a frame of at least this probability, and ends with one that is 0.15 below it.
    pub threshold: f32,
    /// Seconds of silence that end a segment.
    pub min_silence: f32,
    /// Shorter segments, in seconds, are left out.
    pub min_speech: f32,
    /// Seconds that are added on both sides.
    pub pad: f32,
}

impl Default for Rules {
    /// Those of the python package `silero-vad`.
    fn default() -> Rules {
        Rules { threshold: 0.5, min_silence: 0.1, min_speech: 0.25, pad: 0.03 }
    }
}

/// Segments of speech as first sample and the one behind the last, from the probabilities of the frames.
pub fn segments(probabilities: &[f32], samples: usize, rules: &Rules) -> Vec<(usize, usize)> {
    let count = |seconds: f32| (seconds * RATE as f32) as usize;
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut keep = |start: usize, end: usize| {
        if end.saturating_sub(start) > count(rules.min_speech) {
            found.push((start, end));
        }
    };
    let (mut begun, mut quiet) = (None, None);
    for (i, p) in probabilities.iter().enumerate() {
        let now = i * FRAME;
        if *p >= rules.threshold {
            quiet = None;
            begun.get_or_insert(now);
        } else if let Some(start) = begun.filter(|_| *p < rules.threshold - 0.15) {
            let end = *quiet.get_or_insert(now);
            if now - end >= count(rules.min_silence) {
                keep(start, end);
                (begun, quiet) = (None, None);
            }
        }
    }
    if let Some(start) = begun {
        keep(start, samples);
    }
    let pad = count(rules.pad);
    let mut padded = found.clone();
    for i in 0..found.len() {
        // Of a short silence each neighbour takes half.
        let before = match i.checked_sub(1) {
            Some(j) => pad.min((found[i].0 - found[j].1) / 2),
            None => pad.min(found[i].0),
        };
        padded[i].0 = found[i].0 - before;
        padded[i].1 = match found.get(i + 1) {
            Some(next) => found[i].1 + pad.min((next.0 - found[i].1) / 2),
            None => (found[i].1 + pad).min(samples),
        };
    }
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probabilities of runs of frames.
    fn frames(runs: &[(usize, f32)]) -> Vec<f32> {
        runs.iter().flat_map(|(n, p)| std::iter::repeat_n(*p, *n)).collect()
    }

    #[test]
    fn segments_follow_the_rules() {
        // A click of one frame; speech with a dip that is neither speech nor silence and a pause of 3 frames (96 ms); a
        // pause of 6 frames; speech to the end.
        let p = frames(&[
            (3, 0.1),
            (1, 0.9),
            (9, 0.0),
            (12, 0.8),
            (2, 0.4),
            (3, 0.2),
            (8, 0.7),
            (6, 0.1),
            (10, 0.6),
        ]);
        let samples = p.len() * FRAME - 100;
        let found = segments(&p, samples, &Rules::default());
        assert_eq!(found, [(13 * FRAME - 480, 38 * FRAME + 480), (44 * FRAME - 480, samples)]);
        assert!(segments(&frames(&[(40, 0.49)]), 40 * FRAME, &Rules::default()).is_empty());
    }
}
