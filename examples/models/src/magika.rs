//! File types with Magika: what a file is by its contents, decided from the bytes of both ends.

use crate::models;
use crate::place::{Place, numbers};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serinette::compile::CompileOptions;
use serinette::{Session, TensorView};
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

const MODEL: &str = "magika/magika/models/standard_v3_3/model.onnx";
const CONFIG: &str = "magika/magika/models/standard_v3_3/config.min.json";
const KINDS: &str = "magika/magika/config/content_types_kb.min.json";
/// Files of one run at most.
const BATCH: usize = 16;

/// The model's own description of its features and labels.
#[derive(Deserialize)]
struct Config {
    beg_size: usize,
    mid_size: usize,
    end_size: usize,
    use_inputs_at_offsets: bool,
    medium_confidence_threshold: f32,
    min_file_size_for_dl: usize,
    padding_token: i32,
    block_size: usize,
    target_labels_space: Vec<String>,
    thresholds: BTreeMap<String, f32>,
    overwrite_map: BTreeMap<String, String>,
}

/// What is known about a content type.
#[derive(Deserialize)]
struct Kind {
    description: Option<String>,
    is_text: bool,
}

/// What a file was found to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Label of the content type, such as `rust`.
    pub label: String,
    /// The label that the network gave, which may have been too uncertain; `undefined` where it was not asked.
    pub network: String,
    /// The network's confidence in it; 1 where it was not asked.
    pub score: f32,
}

/// What is to be done for a file: nothing more, or a run of the network with these features.
#[derive(Debug, PartialEq)]
enum Seen {
    Decided(&'static str),
    Features(Vec<i32>),
}

/// A labeller of files.
pub struct Magika {
    session: Session,
    config: Config,
    kinds: BTreeMap<String, Kind>,
}

impl Magika {
    /// Compiles the network and opens it.
    ///
    /// # Errors
    /// A model that was not fetched or wants features that are not known here, and whatever the device refuses.
    pub fn open(place: &Place) -> Result<Magika> {
        let config: Config = json(CONFIG)?;
        if config.mid_size != 0 || config.use_inputs_at_offsets {
            bail!("{CONFIG}: expected features of beginning and end only");
        }
        if config.block_size < config.beg_size.max(config.end_size)
            || config.beg_size < config.min_file_size_for_dl
        {
            bail!("{CONFIG}: expected block_size ≥ beg_size, end_size and beg_size ≥ min_file_size_for_dl");
        }
        let mut options = CompileOptions::default();
        options.import.bounds.insert("unk__214".into(), (BATCH as u64, 1));
        let session = place.compile(&models::find(MODEL)?, &options)?;
        Ok(Magika { session, config, kinds: json(KINDS)? })
    }

    /// Labels files, in their order.
    ///
    /// # Errors
    /// A file that cannot be read, and a run that fails.
    pub fn label(&mut self, files: &[&Path]) -> Result<Vec<Found>> {
        let mut found = Vec::with_capacity(files.len());
        // Features that wait for the network, and whose they are.
        let (mut features, mut owners) = (Vec::new(), Vec::new());
        for file in files {
            match self.config.look_at(file).with_context(|| file.display().to_string())? {
                Seen::Decided(label) => {
                    found.push(Found { label: label.into(), network: "undefined".into(), score: 1.0 })
                }
                Seen::Features(f) => {
                    owners.push(found.len());
                    features.extend(f);
                    found.push(Found { label: String::new(), network: String::new(), score: 0.0 });
                }
            }
        }
        let width = self.config.beg_size + self.config.end_size;
        for (batch, owners) in features.chunks(BATCH * width).zip(owners.chunks(BATCH)) {
            let shape = [owners.len(), width];
            let outputs = self.session.run("main", &[("bytes", TensorView::i32(&shape, batch))])?;
            let scores = numbers(&outputs, "target_label")?;
            for (row, owner) in scores.chunks(self.config.target_labels_space.len().max(1)).zip(owners) {
                found[*owner] = self.decide(row)?;
            }
        }
        Ok(found)
    }

    /// The description of a label.
    pub fn description<'a>(&'a self, label: &'a str) -> &'a str {
        self.kinds.get(label).and_then(|k| k.description.as_deref()).unwrap_or(label)
    }

    /// A label from the network's scores: its best one where that is certain enough, else only text or not.
    fn decide(&self, scores: &[f32]) -> Result<Found> {
        let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
        let (i, score) = best.context("the network gave no scores")?;
        let network = self.config.target_labels_space.get(i).context("more scores than labels")?;
        let label = self.config.overwrite_map.get(network).unwrap_or(network);
        let least = self.config.thresholds.get(network);
        let sure = *score >= *least.unwrap_or(&self.config.medium_confidence_threshold);
        let label = match self.kinds.get(label) {
            _ if sure => label,
            Some(k) if k.is_text => "txt",
            Some(_) => "unknown",
            None => bail!("{KINDS} does not know '{label}'"),
        };
        Ok(Found { label: label.into(), network: network.clone(), score: *score })
    }
}

impl Config {
    fn look_at(&self, path: &Path) -> Result<Seen> {
        if path.is_dir() {
            return Ok(Seen::Decided("directory"));
        }
        let mut file = std::fs::File::open(path)?;
        if !file.metadata()?.is_file() {
            return Ok(Seen::Decided("unknown"));
        }
        let size = file.metadata()?.len();
        let count = size.min(self.block_size as u64);
        let mut start = vec![0; usize::try_from(count)?];
        file.read_exact(&mut start)?;
        let mut end = vec![0; start.len()];
        file.seek(SeekFrom::Start(size - count))?;
        file.read_exact(&mut end)?;
        Ok(self.see(&start, &end))
    }

    /// Decides from the first and the last block of a file; one block where it is no longer than that.
    fn see(&self, start: &[u8], end: &[u8]) -> Seen {
        let few = || match std::str::from_utf8(start) {
            Ok(_) => Seen::Decided("txt"),
            Err(_) => Seen::Decided("unknown"),
        };
        let space = |b: &u8| b.is_ascii_whitespace() || *b == 0x0b;
        if start.is_empty() {
            return Seen::Decided("empty");
        }
        let beginning = start.get(start.iter().take_while(|b| space(b)).count()..).unwrap_or(&[]);
        if start.len() < self.min_file_size_for_dl || beginning.len() < self.min_file_size_for_dl {
            return few();
        }
        let end = end.get(..end.len() - end.iter().rev().take_while(|b| space(b)).count()).unwrap_or(&[]);
        let mut features = vec![self.padding_token; self.beg_size + self.end_size];
        for (to, from) in features.iter_mut().zip(beginning.iter().take(self.beg_size)) {
            *to = i32::from(*from);
        }
        for (to, from) in features.iter_mut().rev().zip(end.iter().rev().take(self.end_size)) {
            *to = i32::from(*from);
        }
        Seen::Features(features)
    }
}

fn json<T: for<'a> Deserialize<'a>>(file: &str) -> Result<T> {
    let text = std::fs::read_to_string(models::find(file)?).with_context(|| file.to_string())?;
    serde_json::from_str(&text).with_context(|| file.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            beg_size: 10,
            mid_size: 0,
            end_size: 6,
            use_inputs_at_offsets: false,
            medium_confidence_threshold: 0.5,
            min_file_size_for_dl: 8,
            padding_token: 256,
            block_size: 20,
            target_labels_space: Vec::new(),
            thresholds: BTreeMap::new(),
            overwrite_map: BTreeMap::new(),
        }
    }

    #[test]
    fn features_are_the_stripped_ends_with_padding_on_the_inner_side() {
        let text = b" \n\x0babcdefghi\t ";
        let expected = [97, 98, 99, 100, 101, 102, 103, 104, 105, 9, 100, 101, 102, 103, 104, 105];
        assert_eq!(config().see(text, text), Seen::Features(expected.to_vec()));
        // A beginning keeps the space behind it, an end that before it.
        let expected = [97, 98, 99, 100, 101, 102, 103, 104, 256, 256, 256, 256, 32, 32, 32, 122];
        assert_eq!(config().see(b"abcdefgh", b"   z \n"), Seen::Features(expected.to_vec()));
    }

    #[test]
    fn what_is_too_short_is_text_or_not() {
        assert_eq!(config().see(b"", b""), Seen::Decided("empty"));
        assert_eq!(config().see(b"a\xc3\xa9", b"a\xc3\xa9"), Seen::Decided("txt"));
        assert_eq!(config().see(b"a\xc3", b"a\xc3"), Seen::Decided("unknown"));
        let padded = b"             1234567";
        assert_eq!(config().see(padded, padded), Seen::Decided("txt"));
    }
}
