//! Outputs: for people, as JSON, as files.

mod npy;

use crate::args::{OutputTo, extension};
use crate::failure::Failure;
use crate::files;
use crate::hint::{Classes, Hint};
use crate::tensor::{Tensor, elements, shape_text};
use serde_json::{Value, json};
use serinette::{DType, Outputs};
use std::io::{self, Write};

/// Rows of classes that are shown to people.
const ROWS: usize = 8;
/// Numbers of an output without a hint that are shown to people.
const NUMBERS: usize = 8;

/// An output of a run.
#[derive(Clone, Debug)]
pub struct Output {
    /// Name.
    pub name: String,
    /// Contents.
    pub tensor: Tensor,
}

/// Copies outputs out of a session.
pub fn collect(outputs: &Outputs<'_>) -> Vec<Output> {
    let each = |o: serinette::Output<'_>| {
        let tensor = Tensor { dtype: o.dtype, shape: o.shape().to_vec(), bytes: o.bytes.to_vec() };
        Output { name: o.name.into(), tensor }
    };
    outputs.iter().map(each).collect()
}

/// One class of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its number.
    pub index: i64,
    /// Its name, if the hint has one.
    pub label: Option<String>,
    /// Its score; `None` where the output holds class numbers.
    pub score: Option<f32>,
}

/// What a hint says about an output: for each row the best classes, the best first. Empty without such a hint.
pub fn classes(output: &Output, hint: Option<&Hint>) -> Vec<Vec<Class>> {
    let Some(Hint::Classes(hint)) = hint else { return Vec::new() };
    let t = &output.tensor;
    let label = |i: i64| usize::try_from(i).ok().and_then(|i| hint.labels.get(i)).cloned();
    if matches!(t.dtype, DType::I8 | DType::U8 | DType::I32 | DType::I64)
        && t.shape.last() != Some(&hint.labels.len())
    {
        let numbers = (0..count(t)).filter_map(|i| element(t, i)?.as_i64());
        return numbers.map(|index| vec![Class { index, label: label(index), score: None }]).collect();
    }
    let (Some(scores), Some(width)) = (t.view().to_f32(), t.shape.last().copied().filter(|w| *w > 0)) else {
        return Vec::new();
    };
    scores.chunks_exact(width).map(|row| best(row, hint, &label)).collect()
}

fn best(row: &[f32], hint: &Classes, label: &dyn Fn(i64) -> Option<String>) -> Vec<Class> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    // NaN last; equal scores in the order of the classes.
    let key = |i: &usize| row.get(*i).copied().filter(|x| !x.is_nan()).unwrap_or(f32::NEG_INFINITY);
    order.sort_by(|a, b| key(b).total_cmp(&key(a)));
    let class = |i: usize| Class { index: i as i64, label: label(i as i64), score: row.get(i).copied() };
    order.into_iter().take(hint.top.max(1)).map(class).collect()
}

/// Prints an output for people.
pub fn print(out: &mut dyn Write, output: &Output, hint: Option<&Hint>) -> io::Result<()> {
    let t = &output.tensor;
    writeln!(out, "  {} {} {}", output.name, t.dtype, shape_text(&t.shape))?;
    let rows = classes(output, hint);
    if rows.is_empty() {
        let shown: Vec<String> =
            (0..count(t).min(NUMBERS)).filter_map(|i| element(t, i)).map(|v| text(&v)).collect();
        let more = if count(t) > NUMBERS { " …" } else { "" };
        return writeln!(out, "    {}{more}", shown.join(" "));
    }
    for (i, row) in rows.iter().take(ROWS).enumerate() {
        if rows.len() > 1 {
            writeln!(out, "    [{i}]")?;
        }
        for c in row {
            let label = c.label.clone().unwrap_or_else(|| format!("class {}", c.index));
            match c.score {
                Some(s) => writeln!(out, "    {label:<24} {s:.6}")?,
                None => writeln!(out, "    {label}")?,
            }
        }
    }
    if rows.len() > ROWS {
        writeln!(out, "    … and {} more rows", rows.len() - ROWS)?;
    }
    Ok(())
}

fn text(v: &Value) -> String {
    match v {
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

/// An output as JSON, with its first `limit` elements.
pub fn to_json(output: &Output, hint: Option<&Hint>, limit: usize) -> Value {
    let t = &output.tensor;
    let values: Vec<Value> = (0..count(t).min(limit)).filter_map(|i| element(t, i)).collect();
    let mut o = json!({
        "name": output.name,
        "dtype": t.dtype.name(),
        "shape": t.shape,
        "elements": count(t),
        "values": values,
    });
    let rows = classes(output, hint);
    if !rows.is_empty()
        && let Some(o) = o.as_object_mut()
    {
        let class = |c: &Class| match c.score {
            Some(s) => json!({ "index": c.index, "label": c.label, "score": float(f64::from(s)) }),
            None => json!({ "index": c.index, "label": c.label }),
        };
        let rows: Vec<Vec<Value>> = rows.iter().map(|r| r.iter().map(class).collect()).collect();
        o.insert("top".into(), json!(rows));
    }
    o
}

fn count(t: &Tensor) -> usize {
    elements(&t.shape).unwrap_or(0)
}

/// One element as JSON: numbers, bools, and pairs for complex numbers. NaN and infinities are strings.
fn element(t: &Tensor, i: usize) -> Option<Value> {
    let size = t.dtype.size();
    let b = t.bytes.get(i.checked_mul(size)?..)?.get(..size)?;
    fn fixed<const N: usize>(b: &[u8]) -> Option<[u8; N]> {
        b.get(..N)?.try_into().ok()
    }
    Some(match t.dtype {
        DType::F32 => float32(f32::from_le_bytes(fixed(b)?)),
        DType::F16 => float32(half::f16::from_le_bytes(fixed(b)?).to_f32()),
        DType::BF16 => float32(half::bf16::from_le_bytes(fixed(b)?).to_f32()),
        DType::F64 => float(f64::from_le_bytes(fixed(b)?)),
        DType::I8 => json!(i8::from_le_bytes(fixed(b)?)),
        DType::I16 => json!(i16::from_le_bytes(fixed(b)?)),
        DType::I32 => json!(i32::from_le_bytes(fixed(b)?)),
        DType::I64 => json!(i64::from_le_bytes(fixed(b)?)),
        DType::U8 => json!(u8::from_le_bytes(fixed(b)?)),
        DType::U16 => json!(u16::from_le_bytes(fixed(b)?)),
        DType::U32 => json!(u32::from_le_bytes(fixed(b)?)),
        DType::U64 => json!(u64::from_le_bytes(fixed(b)?)),
        DType::Bool => json!(*b.first()? != 0),
        DType::C64 => {
            json!([float32(f32::from_le_bytes(fixed(b)?)), float32(f32::from_le_bytes(fixed(b.get(4..)?)?))])
        }
        DType::C128 => {
            json!([float(f64::from_le_bytes(fixed(b)?)), float(f64::from_le_bytes(fixed(b.get(8..)?)?))])
        }
        _ => return None,
    })
}

/// The shortest decimal number that is this f32, rather than the digits of its f64.
fn float32(x: f32) -> Value {
    if !x.is_finite() {
        return float(f64::from(x));
    }
    float(x.to_string().parse().unwrap_or(f64::from(x)))
}

/// JSON has no NaN and no infinities.
fn float(x: f64) -> Value {
    if x.is_nan() {
        return json!("NaN");
    }
    if x.is_infinite() {
        return json!(if x > 0.0 { "Infinity" } else { "-Infinity" });
    }
    json!(x)
}

/// Checks, before anything runs, that the outputs to write exist.
pub fn check_names(to: &[OutputTo], known: &[String]) -> Result<(), Failure> {
    for o in to {
        if let Some(name) = o.name.as_ref().filter(|n| !known.contains(n)) {
            let known = known.to_vec();
            return Err(serinette::Error::Name { what: "output", name: name.clone(), known }.into());
        }
    }
    Ok(())
}

/// Writes outputs to files.
pub fn write(outputs: &[&Output], to: &[OutputTo]) -> Result<(), Failure> {
    for o in to {
        let chosen: Vec<&Output> =
            outputs.iter().copied().filter(|x| o.name.as_ref().is_none_or(|n| *n == x.name)).collect();
        let problem = |e: String| Failure::file(&o.file, e);
        let bytes = match (extension(&o.file).as_str(), chosen.as_slice()) {
            ("npy", [one]) => npy::array(&one.tensor).map_err(problem)?,
            _ => npy::archive(&chosen).map_err(problem)?,
        };
        files::write_bytes(&o.file, &bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn output(dtype: DType, shape: &[usize], data: &[f32]) -> Output {
        let tensor = Tensor::of_f32(dtype, shape.to_vec(), data).unwrap();
        Output { name: "y".into(), tensor }
    }

    fn hint(top: usize) -> Hint {
        Hint::Classes(Classes { labels: vec!["a".into(), "b".into(), "c".into()], top })
    }

    #[test]
    fn best_classes_first() {
        let scores = output(DType::F32, &[2, 3], &[0.1, 0.7, 0.2, f32::NAN, -1.0, -1.0]);
        let rows = classes(&scores, Some(&hint(2)));
        let labels: Vec<Vec<&str>> =
            rows.iter().map(|r| r.iter().filter_map(|c| c.label.as_deref()).collect()).collect();
        assert_eq!(labels, [["b", "c"], ["b", "c"]]);
        assert_eq!(rows[0][0].score, Some(0.7));
    }

    #[test]
    fn class_numbers_are_named() {
        let numbers = output(DType::I32, &[2], &[2.0, 7.0]);
        let rows = classes(&numbers, Some(&hint(1)));
        assert_eq!(rows[0][0], Class { index: 2, label: Some("c".into()), score: None });
        assert_eq!(rows[1][0].label, None);
    }

    #[test]
    fn json_keeps_what_it_cannot_hold() {
        let o = output(DType::F32, &[4], &[0.1, f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
        let j = to_json(&o, None, 10);
        assert_eq!(j["values"], json!([0.1, "NaN", "Infinity", "-Infinity"]));
        assert_eq!(to_json(&o, None, 1)["values"], json!([0.1]));
        assert_eq!(j["elements"], 4);
    }
}
