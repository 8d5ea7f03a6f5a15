//! Inputs, their symbols, and hints.

use super::entries::Names;
use super::graph::{Importer, Item};
use super::proto::{GraphProto, ValueInfoProto};
use super::tensor::Constant;
use super::{AxisSize, Contents, DEFAULT_BOUND, Tensor, tensor};
use crate::builder::Size;
use crate::data::Data;
use crate::error::Error;
use crate::graph::Graph;
use serinette_core::shape::DimAlgebra;
use serinette_core::{DType, MAX_RANK};

pub(super) fn import<'m>(im: &mut Importer<'m>, graph: &'m GraphProto) -> Result<(), Error> {
    let mut defaults = Vec::new();
    for input in &graph.input {
        // Old files list initialisers among the inputs, as defaults that a caller may replace.
        if graph.initializer.iter().any(|t| t.name == input.name) {
            if matches!(im.lookup(&input.name), Some(Item::Constant(_))) {
                defaults.push(input.name.as_str());
            }
            continue;
        }
        let item = match im.options.constants.get(&input.name) {
            Some(t) => fixed(im, input, t)?,
            None => one(im, input)?,
        };
        im.define("input", &input.name, item)?;
    }
    match defaults.as_slice() {
        [] => {}
        [one] => im.b.note(format!("input {one} has a default and is taken as a constant")),
        [first, .., last] => {
            let n = defaults.len();
            im.b.note(format!("{n} inputs from {first} to {last} have defaults and are taken as constants"));
        }
    }
    Ok(())
}

/// An input whose contents are known now.
fn fixed(im: &mut Importer<'_>, input: &ValueInfoProto, contents: &Contents) -> Result<Item, Error> {
    let name = input.name.as_str();
    let declared = input.r#type.as_ref().and_then(|t| t.tensor_type.as_ref());
    let dtype = declared.and_then(|t| tensor::dtype(t.elem_type));
    let t = match contents {
        Contents::Tensor(t) => t.clone(),
        Contents::Numbers(numbers) => {
            let scalar = declared.and_then(|t| t.shape.as_ref()).is_some_and(|s| s.dim.is_empty());
            of_numbers(name, dtype, scalar, numbers)?
        }
    };
    match dtype {
        Some(d) if d != t.dtype => return Err(Error::types(name, d.name(), t.dtype.name())),
        _ => {}
    }
    im.b.note(format!("input {name} is fixed"));
    let constant =
        Constant { name: String::new(), dtype: t.dtype, dims: t.dims.clone(), data: t.data.clone() };
    Ok(im.add_constant(constant))
}

/// Numbers as the contents of an input.
fn of_numbers(name: &str, dtype: Option<DType>, scalar: bool, numbers: &[f64]) -> Result<Tensor, Error> {
    let whole = |least: f64, limit: f64| match numbers
        .iter()
        .find(|x| x.fract() != 0.0 || !(least..limit).contains(*x))
    {
        Some(x) => Err(Error::malformed(name, format!("{x} is no number of its type"))),
        None => Ok(()),
    };
    let data = match dtype {
        Some(DType::F32) => Data::from_slice(&numbers.iter().map(|x| *x as f32).collect::<Vec<_>>()),
        Some(DType::I64) => {
            // Whole numbers of a double are exact up to there.
            whole(-(2f64.powi(53)), 2f64.powi(53))?;
            Data::from_slice(&numbers.iter().map(|x| *x as i64).collect::<Vec<_>>())
        }
        Some(DType::I32) => {
            whole(-(2f64.powi(31)), 2f64.powi(31))?;
            Data::from_slice(&numbers.iter().map(|x| *x as i32).collect::<Vec<_>>())
        }
        Some(DType::Bool) => {
            whole(0.0, 2.0)?;
            Data::from_slice(&numbers.iter().map(|x| *x as u8).collect::<Vec<_>>())
        }
        other => {
            let found = other.map_or("an unknown type", DType::name);
            return Err(Error::types(name, "f32, i32, i64 or bool (give others as a tensor)", found));
        }
    };
    let dims = match (scalar, numbers) {
        (true, [_]) => vec![],
        (true, _) => return Err(Error::count(name, "numbers of a scalar", 1, numbers.len() as u64)),
        (false, _) => vec![numbers.len() as u64],
    };
    Ok(Tensor { dtype: dtype.unwrap_or(DType::F32), dims, data })
}

fn one(im: &mut Importer<'_>, input: &ValueInfoProto) -> Result<Item, Error> {
    let name = input.name.as_str();
    let t = input.r#type.as_ref().and_then(|t| t.tensor_type.as_ref());
    let t = t.ok_or_else(|| Error::malformed(name, "the input is not a tensor"))?;
    let dtype = tensor::dtype(t.elem_type)
        .ok_or_else(|| Error::malformed(name, format!("element type code {} is not known", t.elem_type)))?;
    let sizes = sizes(im, input)?;
    if im.options.states.iter().any(|(i, _)| i == name) {
        let known: Option<Vec<u64>> = sizes
            .iter()
            .map(|s| match s {
                Size::Number(n) => Some(*n),
                Size::Expr(d) => im.b.graph.dims.known(*d),
            })
            .collect();
        let dims =
            known.ok_or_else(|| Error::malformed(name, "a state must have known sizes (give its shape)"))?;
        if dtype == DType::I64 {
            return Err(Error::types(name, "a state of a 32-bit or narrower type", dtype.name()));
        }
        return Ok(Item::Value { value: im.b.state(name, dtype, &dims)?, wide: false });
    }
    let mut value = im.b.input(name, dtype, &sizes)?;
    let wide = dtype == DType::I64;
    if wide {
        value = im.b.cast(&format!("{name}:i32"), value, DType::I32)?;
        im.b.note(format!("input {name} is int64; it is cast to i32, saturating"));
    }
    Ok(Item::Value { value, wide })
}

/// The sizes of an input: from the options, else from the file.
fn sizes(im: &mut Importer<'_>, input: &ValueInfoProto) -> Result<Vec<Size>, Error> {
    let name = input.name.as_str();
    let declared = input.r#type.as_ref().and_then(|t| t.tensor_type.as_ref()?.shape.as_ref());
    let given = im.options.shapes.get(name);
    let rank = match (declared, given) {
        (Some(d), Some(g)) if d.dim.len() != g.len() => {
            return Err(Error::count(name, "axes of the given shape", d.dim.len() as u64, g.len() as u64));
        }
        (Some(d), _) => d.dim.len(),
        (None, Some(g)) => g.len(),
        (None, None) => return Err(Error::malformed(name, "the file gives no shape (give one)")),
    };
    if rank > MAX_RANK {
        return Err(Error::count(name, "axes", MAX_RANK as u64, rank as u64));
    }
    let mut sizes = Vec::new();
    for axis in 0..rank {
        let d = declared.and_then(|d| d.dim.get(axis));
        sizes.push(match given.and_then(|g| g.get(axis)) {
            Some(AxisSize::Number(n)) => Size::Number(*n),
            Some(AxisSize::Symbol(s)) => symbol(im, s)?,
            _ => match d.and_then(|d| d.dim_value).map(u64::try_from) {
                Some(Ok(n)) => Size::Number(n),
                // Exporters write −1 for an open size.
                _ => match d.and_then(|d| d.dim_param.clone()).filter(|p| !p.is_empty()) {
                    Some(p) => symbol(im, &p)?,
                    None => symbol(im, &format!("{name}[{axis}]"))?,
                },
            },
        });
    }
    Ok(sizes)
}

/// The symbol of a name, made when it is first met.
fn symbol(im: &mut Importer<'_>, name: &str) -> Result<Size, Error> {
    if let Some(d) = im.symbols.get(name) {
        return Ok(Size::Expr(*d));
    }
    let (high, multiple) = match im.options.bounds.get(name) {
        Some(b) => *b,
        None => {
            im.b.note(format!("size {name} has no bound; it is taken as at most {DEFAULT_BOUND}"));
            (DEFAULT_BOUND, 1)
        }
    };
    im.sizes.insert(name.into());
    if multiple == 0 || high < multiple {
        return Err(Error::count(name, "bound of a size at least its multiple", multiple, high));
    }
    let d = im.b.symbol(name, multiple, high - high % multiple, multiple)?;
    im.symbols.insert(name.into(), d);
    Ok(Size::Expr(d))
}

/// Attaches the hints to the inputs and outputs that they name.
pub(super) fn hints(graph: &mut Graph, text: &str, names: &Names) -> Result<(), Error> {
    let wrong = |what: String| Error::malformed("hints", what);
    let json: serde_json::Value = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
    let object = json.as_object().ok_or_else(|| wrong("not an object".into()))?;
    for (kind, list) in object {
        let (what, known) = match kind.as_str() {
            "inputs" => ("input", &names.inputs),
            "outputs" => ("output", &names.outputs),
            _ => return Err(wrong(format!("unknown key {kind:?} (only inputs and outputs)"))),
        };
        let list = list.as_object().ok_or_else(|| wrong(format!("{kind} is not an object")))?;
        for (name, hint) in list {
            if !known.contains(name) {
                return Err(Error::unknown(what, name, known.iter().cloned().collect()));
            }
            graph.hints.insert(name.clone(), hint.to_string());
        }
    }
    Ok(())
}
