//! Tensor data in files beside the model.

use super::proto::{GraphProto, ModelProto, TensorProto};
use crate::error::Error;
use bytes::Bytes;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// Code of [`TensorProto::data_location`] for data in another file.
const EXTERNAL: i32 = 1;

/// Puts the contents of all external tensors into the messages. `folder` is where the model lies; each file is read once, and
/// its parts are shared.
///
/// # Errors
/// A path that leaves the folder, a file that cannot be read, a part that is not within it, a model without a folder.
pub(super) fn resolve(model: &mut ModelProto, folder: Option<&Path>) -> Result<(), Error> {
    let mut files = HashMap::new();
    match &mut model.graph {
        Some(graph) => each_tensor(graph, &mut |t| tensor(t, folder, &mut files)),
        None => Ok(()),
    }
}

fn each_tensor(
    graph: &mut GraphProto,
    f: &mut dyn FnMut(&mut TensorProto) -> Result<(), Error>,
) -> Result<(), Error> {
    graph.initializer.iter_mut().try_for_each(&mut *f)?;
    for a in graph.node.iter_mut().flat_map(|n| &mut n.attribute) {
        a.t.iter_mut().try_for_each(&mut *f)?;
        if let Some(g) = &mut a.g {
            each_tensor(g, f)?;
        }
    }
    Ok(())
}

fn tensor(
    t: &mut TensorProto,
    folder: Option<&Path>,
    files: &mut HashMap<PathBuf, Bytes>,
) -> Result<(), Error> {
    if t.data_location != EXTERNAL {
        return Ok(());
    }
    let wrong = |what: String| Error::malformed(&t.name, what);
    let get = |key: &str| t.external_data.iter().find(|e| e.key == key).map(|e| e.value.as_str());
    let number = |key: &str| match get(key).filter(|v| !v.is_empty()) {
        Some(v) => {
            v.parse::<usize>().map(Some).map_err(|_| wrong(format!("{key} of its external data is {v:?}")))
        }
        None => Ok(None),
    };
    let location = get("location").ok_or_else(|| wrong("external data without a location".into()))?;
    let folder = folder.ok_or_else(|| {
        wrong(format!("its data lie in the file {location:?}, and the model was not read from a folder"))
    })?;
    let relative = Path::new(location);
    if location.is_empty()
        || !relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir))
    {
        return Err(wrong(format!(
            "external data at {location:?}: only files below the folder of the model are read"
        )));
    }
    let path = folder.join(relative);
    let file = match files.get(&path) {
        Some(file) => file.clone(),
        None => {
            let bytes =
                std::fs::read(&path).map_err(|e| wrong(format!("external data {}: {e}", path.display())))?;
            files.entry(path.clone()).or_insert(Bytes::from(bytes)).clone()
        }
    };
    let from = number("offset")?.unwrap_or(0);
    let length = number("length")?.unwrap_or(file.len().saturating_sub(from));
    let end = from.checked_add(length).filter(|e| *e <= file.len());
    let end = end.ok_or_else(|| {
        wrong(format!(
            "external data at {from}, {length} bytes, in {} of {} bytes",
            path.display(),
            file.len()
        ))
    })?;
    (t.raw_data, t.data_location) = (Some(file.slice(from..end)), 0);
    Ok(())
}
