//! The arenas over time as pictures: a rectangle for each tensor, as wide as it lives and as high as it is large.

use super::{Content, escape, unwritten};
use crate::failure::Failure;
use crate::memory::{Kind, Place};
use crate::units;
use std::fmt::Write;

/// Room above the bytes, for the names of entries.
const HEAD: f64 = 22.0;
/// Room below, for the numbers of steps.
const FOOT: f64 = 22.0;
/// Width of the column with the numbers of bytes.
const SIDE: f64 = 84.0;
/// Height of work arenas.
const TALL: f64 = 420.0;
/// Height of arenas in which everything stays where it is.
const LOW: f64 = 90.0;
/// A letter of a label is about this wide.
const LETTER: f64 = 6.2;

/// Where steps and bytes are in a picture.
struct Scale {
    step: f64,
    height: f64,
    steps: usize,
    bytes: u64,
}

impl Scale {
    fn x(&self, step: u32) -> f64 {
        f64::from(step) * self.step
    }

    fn y(&self, byte: u64) -> f64 {
        HEAD + self.height * (1.0 - byte as f64 / self.bytes.max(1) as f64)
    }

    fn width(&self) -> f64 {
        self.steps as f64 * self.step
    }
}

/// Writes legend and pictures.
pub fn write(page: &mut String, c: &Content<'_>) -> Result<(), Failure> {
    let steps = c.at.steps.len();
    page.push_str("<h2>Memory over time</h2>\n");
    if steps == 0 {
        page.push_str("<p>No steps: nothing is computed.</p>\n");
        return Ok(());
    }
    let name = c.model.program().text(c.at.plan.name)?;
    legend(page, c, name).map_err(unwritten)?;
    // Wide enough to point at a step, and no wider than a window where there are few.
    let step = (1100.0 / steps as f64).clamp(3.0, 120.0);
    for (id, a) in (0u32..).zip(&c.memory.arenas) {
        let height = if a.work { TALL } else { LOW };
        let scale = Scale { step, height, steps, bytes: a.bytes };
        picture(page, c, id, &scale)?;
    }
    Ok(())
}

fn legend(page: &mut String, c: &Content<'_>, plan: &str) -> std::fmt::Result {
    let peak = c.memory.live.iter().max().copied().unwrap_or(0);
    let at = c.memory.live.iter().position(|l| *l == peak).unwrap_or(0);
    let bound = c.at.plan.lower_bound;
    writeln!(
        page,
        "<p>Plan {}, sizes at their bounds. The most bytes live at step {at}: {}. Point at a rectangle to see what it is.</p>",
        escape(plan),
        units::bytes(peak)
    )?;
    page.push_str("<div class=\"legend\">");
    for kind in Kind::ALL.into_iter().filter(|k| c.memory.places.iter().any(|p| p.kind == *k)) {
        let name = kind.name();
        write!(page, "<span><i class=\"k-{name}\"></i>{name}</span>")?;
    }
    writeln!(
        page,
        "<span><i class=\"solid\"></i>live bytes</span><span><i class=\"dash\"></i>lower bound {}</span></div>",
        units::count(bound)
    )
}

fn picture(page: &mut String, c: &Content<'_>, arena: u32, s: &Scale) -> Result<(), Failure> {
    let Some(a) = c.memory.arenas.get(arena as usize) else { return Ok(()) };
    let places: Vec<&Place> = c.memory.places.iter().filter(|p| p.arena == arena).collect();
    let all = HEAD + s.height + FOOT;
    let title = format!("{} arena: {}", a.name, units::bytes(a.bytes));
    let mut head = || -> std::fmt::Result {
        write!(page, "<p>{title}</p>\n<div class=\"figure\">")?;
        write!(page, "<svg width=\"{SIDE}\" height=\"{all}\" role=\"presentation\">")?;
        for byte in ticks(s.bytes) {
            let (y, text) = (s.y(byte), short(byte));
            write!(
                page,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                SIDE - 6.0,
                y + 4.0
            )?;
        }
        let width = s.width();
        write!(page, "</svg><div class=\"scroll\"><svg width=\"{width:.0}\" height=\"{all}\" role=\"img\">")?;
        writeln!(page, "<title>{title}</title>")?;
        for byte in ticks(s.bytes) {
            let y = s.y(byte);
            writeln!(page, "<path class=\"grid\" d=\"M0 {y:.1}H{width:.0}\"/>")?;
        }
        Ok(())
    };
    head().map_err(unwritten)?;
    for p in places {
        rectangle(page, c, p, s)?;
    }
    entries(page, c, s)?;
    lines(page, c, a.work, s).map_err(unwritten)?;
    page.push_str("</svg></div></div>\n");
    Ok(())
}

fn rectangle(page: &mut String, c: &Content<'_>, p: &Place, s: &Scale) -> Result<(), Failure> {
    let (x, top) = (s.x(p.first), s.y(p.offset.saturating_add(p.bytes)));
    let width = f64::from(p.last - p.first + 1) * s.step;
    // What is small against the arena can still be seen.
    let height = (s.y(p.offset) - top).max(1.0);
    let name = match p.value {
        Some(v) => c.tensor_name(v, p.step),
        None => "scratch".into(),
    };
    let mut about = format!("{name}\n{}", p.kind.name());
    if let Some(v) = p.value {
        about.push_str(&format!(" {}", c.at.describe(v)?));
    }
    about.push_str(&format!("\n{} from byte {}", units::bytes(p.bytes), units::count(p.offset)));
    if let Some(step) = p.step.and_then(|s| c.at.steps.get(s as usize)) {
        let by = if p.value.is_some() { "written by" } else { "for" };
        let name = if step.name.is_empty() { String::new() } else { format!(" {}", step.name) };
        about.push_str(&format!("\n{by} step {}: {}{name}", step.id, step.op));
    }
    about.push_str(&match p.first == p.last {
        true => format!("\nstep {}", p.first),
        false => format!("\nsteps {} to {}", p.first, p.last),
    });
    let mut draw = || -> std::fmt::Result {
        let kind = p.kind.name();
        write!(
            page,
            "<rect class=\"k-{kind}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">"
        )?;
        // Line ends are kept in a title; they are the only control characters here that are ours.
        let lines: Vec<_> = about.split('\n').map(escape).collect();
        writeln!(page, "<title>{}</title></rect>", lines.join("\n"))?;
        let letters = ((width - 8.0) / LETTER) as usize;
        if height >= 14.0 && letters >= 4 {
            let shown: String = match name.chars().count() > letters {
                true => name.chars().take(letters - 1).chain(['…']).collect(),
                false => name.clone(),
            };
            let y = top + height / 2.0 + 4.0;
            writeln!(
                page,
                "<text class=\"label\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                x + 4.0,
                escape(&shown)
            )?;
        }
        Ok(())
    };
    draw().map_err(unwritten)
}

/// Names of entries above, numbers of steps below, and a line where an entry starts.
fn entries(page: &mut String, c: &Content<'_>, s: &Scale) -> Result<(), Failure> {
    let program = c.model.program();
    for (_, e) in program.entries.iter() {
        let (x, name) = (s.x(e.first_step), escape(program.text(e.name)?));
        write!(page, "<path class=\"edge\" d=\"M{x:.1} 0V{:.1}\"/>", HEAD + s.height).map_err(unwritten)?;
        // A short entry has no room for its name: hovering shows it.
        let room = f64::from(e.steps) * s.step / LETTER;
        let shown = if room >= name.chars().count() as f64 { name.as_ref() } else { "…" };
        writeln!(page, "<text x=\"{:.1}\" y=\"14\">{shown}<title>entry {name}</title></text>", x + 3.0)
            .map_err(unwritten)?;
    }
    let foot = HEAD + s.height + 15.0;
    // Numbers about 60 apart.
    let every = nice((60.0 / s.step).ceil() as u64);
    for step in (0..s.steps as u64).step_by(every as usize) {
        let x = s.x(step as u32);
        writeln!(page, "<text x=\"{:.1}\" y=\"{foot:.1}\">{step}</text>", x + 1.0).map_err(unwritten)?;
    }
    Ok(())
}

/// The size of the arena; of a work arena also the lower bound and the live bytes.
fn lines(page: &mut String, c: &Content<'_>, work: bool, s: &Scale) -> std::fmt::Result {
    let width = s.width();
    writeln!(page, "<path class=\"top\" d=\"M0 {:.1}H{width:.0}\"/>", s.y(s.bytes))?;
    if !work {
        return Ok(());
    }
    let mut path = String::new();
    let mut last = None;
    for (step, live) in (0u32..).zip(&c.memory.live) {
        if last != Some(live) {
            let start = if path.is_empty() { "M0 " } else { "V" };
            write!(path, "{start}{:.1}", s.y(*live))?;
            last = Some(live);
        }
        // Only where the height changes a point is needed.
        if c.memory.live.get(step as usize + 1) != Some(live) {
            write!(path, "H{:.1}", s.x(step + 1))?;
        }
    }
    writeln!(page, "<path class=\"live\" d=\"{path}\"/>")?;
    writeln!(page, "<path class=\"bound\" d=\"M0 {:.1}H{width:.0}\"/>", s.y(c.at.plan.lower_bound))
}

/// Bytes to mark beside a picture.
fn ticks(bytes: u64) -> impl Iterator<Item = u64> {
    // Powers of two between a quarter and an eighth of the whole.
    let step = (bytes / 4).max(1).next_power_of_two().max(1);
    let step = if step > bytes / 4 { (step / 2).max(1) } else { step };
    (0..=bytes / step).map(move |i| i * step)
}

/// The least of 1, 2, 5, 10, 20 … that is not below `n`.
fn nice(n: u64) -> u64 {
    let mut power = 1u64;
    loop {
        for m in [1, 2, 5] {
            if power.saturating_mul(m) >= n {
                return power.saturating_mul(m);
            }
        }
        power = power.saturating_mul(10);
    }
}

/// Bytes in a few letters.
fn short(n: u64) -> String {
    for (unit, size) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if n >= size {
            let whole = n as f64 / size as f64;
            return if n.is_multiple_of(size) {
                format!("{whole:.0} {unit}")
            } else {
                format!("{whole:.1} {unit}")
            };
        }
    }
    n.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks() {
        assert_eq!([1, 2, 3, 6, 11, 51].map(nice), [1, 2, 5, 10, 20, 100]);
        let of = |n| ticks(n).collect::<Vec<_>>();
        assert_eq!(of(64), [0, 16, 32, 48, 64]);
        assert_eq!(of(100), [0, 16, 32, 48, 64, 80, 96]);
        assert_eq!(of(0), [0]);
        assert_eq!([0, 512, 1024, 1536, 3 << 20].map(short), ["0", "512", "1 KiB", "1.5 KiB", "3 MiB"]);
    }
}
