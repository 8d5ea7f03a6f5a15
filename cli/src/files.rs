//! Files that are whole or not there.

use crate::failure::Failure;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file so that nobody ever sees half of it: into a new file in the same folder, which then takes the name.
/// If anything fails, what was there before stays.
pub fn write_whole(
    path: &Path,
    contents: &mut dyn FnMut(&mut File) -> io::Result<()>,
) -> Result<(), Failure> {
    // Renaming onto a device or a pipe would replace it; onto a link, would replace the link.
    let target = match std::fs::metadata(path) {
        Ok(m) if m.is_file() => std::fs::canonicalize(path).map_err(|e| Failure::file(path, e))?,
        Ok(m) if m.is_dir() => return Err(Failure::file(path, "is a folder, expected the name of a file")),
        Ok(_) => {
            return Err(Failure::file(path, "is not a regular file, so it cannot be replaced as a whole"));
        }
        Err(_) => path.to_path_buf(),
    };
    let name = target.file_name().ok_or_else(|| Failure::file(path, "is not the name of a file"))?;
    let temporary = target.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
    let cannot = |e: io::Error| Failure::file(path, format!("cannot be written: {e}"));
    let (guard, mut file) = Temporary::create(temporary).map_err(cannot)?;
    contents(&mut file).and_then(|()| file.sync_all()).map_err(cannot)?;
    drop(file);
    guard.rename(&target).map_err(cannot)
}

/// Writes bytes with [`write_whole`].
pub fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_whole(path, &mut |f| f.write_all(bytes))
}

/// A file that is removed unless it is renamed.
struct Temporary(Option<PathBuf>);

impl Temporary {
    fn create(path: PathBuf) -> io::Result<(Temporary, File)> {
        // A file of this name is a leftover of a process that was killed: its number is ours now.
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok((Temporary(Some(path)), file))
    }

    fn rename(mut self, to: &Path) -> io::Result<()> {
        let Some(path) = &self.0 else { return Ok(()) };
        std::fs::rename(path, to)?;
        self.0 = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Nothing can be done about a failure here, and the error that led here is reported.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_failure_leaves_the_old_file_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("serinette-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("out.bin");
        write_bytes(&path, b"old").unwrap();
        let failed = write_whole(&path, &mut |f| {
            f.write_all(b"ne")?;
            Err(io::Error::other("no space left"))
        });
        assert!(failed.unwrap_err().message().contains("no space left"));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        write_bytes(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        assert!(write_bytes(&folder, b"x").is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
