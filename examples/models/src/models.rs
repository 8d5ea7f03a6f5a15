//! Where the fetched models lie.

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// A file of a fetched package, by its path below the folder of models: `$SERINETTE_MODELS`, or
/// `~/.cache/serinette/models`.
///
/// # Errors
/// A file that is not there; the error says how to fetch it.
pub fn find(file: &str) -> Result<PathBuf> {
    let given = std::env::var_os("SERINETTE_MODELS").filter(|d| !d.is_empty()).map(PathBuf::from);
    let folder = given.or_else(|| Some(std::env::home_dir()?.join(".cache/serinette/models")));
    let Some(folder) = folder else {
        bail!("no folder of models: neither SERINETTE_MODELS nor a home directory is known");
    };
    find_in(&folder, file)
}

fn find_in(folder: &Path, file: &str) -> Result<PathBuf> {
    let path = folder.join(file);
    if path.is_file() {
        return Ok(path);
    }
    let package = file.split('/').next().unwrap_or(file);
    bail!(
        "{} is missing: `python3 tools/fetch.py {package}` in the project's root fetches it \
         (SERINETTE_MODELS names another folder of models)",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_missing_is_named_with_the_command_that_fetches_it() {
        let folder = std::path::Path::new("/nowhere");
        let error = super::find_in(folder, "silero/a/b.onnx").map_err(|e| e.to_string());
        let error = error.err().unwrap_or_default();
        assert!(error.starts_with("/nowhere/silero/a/b.onnx is missing"), "{error}");
        assert!(error.contains("tools/fetch.py silero`"), "{error}");
        let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(super::find_in(here, "src/models.rs").is_ok_and(|p| p.is_file()));
    }
}
