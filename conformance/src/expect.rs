//! The list of failures expected.

use std::collections::BTreeMap;
use std::path::Path;

/// Test → reason. Lines are `NAME: REASON`; empty ones and those that begin with `#` are comments.
pub fn read(file: &Path) -> Result<BTreeMap<String, String>, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut all = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = || format!("{}:{}", file.display(), number + 1);
        let (name, reason) =
            line.split_once(':').ok_or_else(|| format!("{}: expected NAME: REASON", at()))?;
        if all.insert(name.trim().to_string(), reason.trim().to_string()).is_some() {
            return Err(format!("{}: {name} is there twice", at()));
        }
    }
    Ok(all)
}
