//! A model as one HTML page: its memory over time, ops, steps, weights and entries. The page needs nothing from outside and
//! runs no script; it says so to the browser itself.

mod figure;
mod tables;

use crate::facts::Facts;
use crate::failure::Failure;
use crate::memory::{self, Memory};
use crate::steps::AtBounds;
use crate::units;
use serinette::{Model, Requirements};
use std::borrow::Cow;
use std::fmt::Write;

/// Tables of more rows than this are folded up.
const ROWS: usize = 40;

/// What the page shows.
struct Content<'a> {
    model: &'a Model,
    facts: &'a Facts,
    at: AtBounds<'a>,
    memory: Memory,
}

/// Writes the page of a model. `title` is what the model was read from.
pub fn write(title: &str, model: &Model, facts: &Facts, needs: &Requirements) -> Result<String, Failure> {
    let plan = model.program().plans.get(needs.plan)?;
    let sizes = model.sizes_at_bounds(plan)?;
    let at = AtBounds::new(model, needs.plan, &sizes)?;
    let memory = memory::of(model, &at)?;
    let content = Content { model, facts, at, memory };
    let mut page = String::new();
    // Nothing can be loaded and no script can run, whatever a name in the model holds.
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    let title = escape(title);
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>\n{}</style></head>\n\
         <body>\n<h1>{title}</h1>\n",
        include_str!("style.css")
    )
    .map_err(unwritten)?;
    summary(&mut page, facts).map_err(unwritten)?;
    figure::write(&mut page, &content)?;
    tables::write(&mut page, &content)?;
    page.push_str("</body></html>\n");
    Ok(page)
}

/// Formatting into a text fails only where a `Display` does.
fn unwritten(e: std::fmt::Error) -> Failure {
    Failure::new(format!("writing the page: {e}"))
}

fn summary(page: &mut String, f: &Facts) -> std::fmt::Result {
    let ratio = f.arena_bytes as f64 / f.arena_lower_bound_bytes.max(1) as f64;
    let lower = units::count(f.arena_lower_bound_bytes);
    let mut rows = vec![
        ("blob", format!("format {}, {}", f.format, units::bytes(f.file_bytes))),
        ("digest", f.digest.clone()),
        ("weights", units::bytes(f.weight_bytes)),
        ("arena", format!("{}, {ratio:.3} of the lower bound {lower}", units::bytes(f.arena_bytes))),
    ];
    let kept = [("state", f.state_bytes), ("params", f.param_bytes), ("derived", f.derived_bytes)];
    rows.extend(kept.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name, units::bytes(n))));
    rows.push(("steps", format!("{} in {} waves", units::count(f.steps), units::count(f.waves))));
    let (macs, bytes) = (units::count(f.macs), units::bytes(f.bytes_moved));
    rows.push(("work", format!("at most {macs} multiply-adds, {bytes} moved by the costliest entry")));
    for s in &f.symbols {
        let multiple =
            if s.multiple_of > 1 { format!(", a multiple of {}", s.multiple_of) } else { String::new() };
        rows.push(("size", format!("{} from {} to {}{multiple}", s.name, s.low, s.high)));
    }
    page.push_str("<table>\n");
    for (name, value) in rows {
        writeln!(page, "<tr><th>{name}</th><td>{}</td></tr>", escape(&value))?;
    }
    page.push_str("</table>\n");
    Ok(())
}

/// A text as it can stand between tags and in quoted attributes.
fn escape(text: &str) -> Cow<'_, str> {
    let special = |c: char| matches!(c, '&' | '<' | '>' | '"' | '\'') || c.is_control();
    if !text.contains(special) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // HTML has no control characters.
            c if c.is_control() => safe.push(char::REPLACEMENT_CHARACTER),
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// A share as text: `12.3 %`.
fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

impl Content<'_> {
    /// The name of a tensor, not escaped: its own, that of the step that writes it, or its number.
    fn tensor_name(&self, value: u32, step: Option<u32>) -> String {
        let program = self.model.program();
        let own = program.values.get(value).and_then(|v| program.text(v.name)).unwrap_or_default();
        if !own.is_empty() {
            return own.into();
        }
        let step = step.and_then(|s| self.at.steps.get(s as usize)).filter(|s| !s.name.is_empty());
        step.map_or_else(|| format!("value {value}"), |s| s.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text() {
        assert_eq!(escape("conv1/weights:0"), "conv1/weights:0");
        assert_eq!(escape("<script>x('&\")\n"), "&lt;script&gt;x(&#39;&amp;&quot;)\u{fffd}");
    }
}
