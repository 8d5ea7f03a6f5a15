//! What a device is known not to run.

use super::Verdict;
use std::collections::BTreeSet;

/// Pairs of an op and the limit for which a device refuses some of its cases, as a text with one pair a line; `#` starts a
/// comment. A list must be exact: a pair that is missing and a pair by which nothing is refused are both errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectations(BTreeSet<(String, String)>);

impl Expectations {
    /// Reads a list; the error names the line.
    pub fn parse(text: &str) -> Result<Expectations, String> {
        let mut pairs = BTreeSet::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("");
            let words: Vec<_> = line.split_whitespace().collect();
            match words[..] {
                [] => {}
                [op, limit] if pairs.insert((op.to_string(), limit.to_string())) => {}
                _ => return Err(format!("line {}: expected an op and a limit, once", number + 1)),
            }
        }
        Ok(Expectations(pairs))
    }

    /// What is wrong with the list, given what a device did.
    pub fn compare(&self, verdict: &Verdict) -> Vec<String> {
        let refused: BTreeSet<_> =
            verdict.refused.keys().map(|(op, limit)| (op.to_string(), limit.to_string())).collect();
        let missing = refused.difference(&self.0).map(|(op, limit)| {
            format!("`{op} {limit}` is not expected, but the board refuses cases of {op} by that limit")
        });
        let stale = self
            .0
            .difference(&refused)
            .map(|(op, limit)| format!("`{op} {limit}` is out of date: the board refuses nothing by it"));
        missing.chain(stale).collect()
    }
}
