//! The page of `inspect --html`.

#![cfg(feature = "compiler")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{Folder, model, say, serinette};

/// The page of a model, and its facts.
fn page(folder: &Folder, flags: &str) -> (String, serde_json::Value) {
    let out = folder.path("page.html");
    let said = say(&format!("inspect {flags} --html {out}"));
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("page.html"), "{}", said.out);
    (std::fs::read_to_string(out).unwrap(), say(&format!("inspect {flags} --json")).json())
}

const JOINT: &str = "--state state_in=state_out --param class_scale --bound batch=8 --bound n=16";

/// The pictures of a page: the rectangles of each as (left, top, right, bottom).
fn pictures(page: &str) -> Vec<Vec<[f64; 4]>> {
    let number = |rect: &str, name: &str| -> f64 {
        let (_, rest) = rect.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.parse().unwrap()
    };
    let of = |svg: &str| {
        let rects = svg.split("<rect").skip(1);
        rects
            .map(|r| {
                let [x, y, w, h] = ["x", "y", "width", "height"].map(|n| number(r, n));
                [x, y, x + w, y + h]
            })
            .collect()
    };
    page.split("role=\"img\"").skip(1).map(|p| of(p.split("</svg>").next().unwrap())).collect()
}

#[test]
fn tensors_do_not_overlap_and_the_peak_is_the_lower_bound() {
    let folder = Folder::new();
    let joint = format!("{} {JOINT}", model("joint/joint.onnx"));
    let fashion = format!("{} --bound batch=4", model("fashion/fashion.onnx"));
    for (flags, arenas) in [(joint, 4), (fashion, 1)] {
        let (page, facts) = page(&folder, &flags);
        let pictures = pictures(&page);
        assert_eq!(pictures.len(), arenas);
        let steps = facts["steps"].as_u64().unwrap() as f64;
        for rects in &pictures {
            assert!(!rects.is_empty());
            let right = rects.iter().map(|r| r[2]).fold(0.0, f64::max);
            for (i, a) in rects.iter().enumerate() {
                // Coordinates have one digit behind the point; what is thin is drawn one pixel high.
                assert!(a[0] >= 0.0 && a[2] <= right && a[1] >= 21.9, "{a:?}");
                for b in &rects[..i] {
                    let apart = a[2] <= b[0] + 0.2 || b[2] <= a[0] + 0.2;
                    let above = a[3] <= b[1] + 1.2 || b[3] <= a[1] + 1.2;
                    assert!(apart || above, "{a:?} {b:?}");
                }
            }
        }
        // The work arena is drawn from the first step on, and more than half of the time holds something.
        let covered: f64 = pictures[0].iter().map(|r| r[2] - r[0]).sum();
        assert!(covered > steps / 2.0);
        let lower = facts["arena_lower_bound_bytes"].as_u64().unwrap();
        let peak = page.split_once("The most bytes live at step ").unwrap().1;
        let peak = peak.split_once(": ").unwrap().1.split_once(" bytes").unwrap().0.replace(' ', "");
        assert_eq!(peak.parse::<u64>().unwrap(), lower);
    }
}

#[test]
fn tables_add_up() {
    let folder = Folder::new();
    let (page, facts) = page(&folder, &format!("{} --bound batch=3", model("fashion/fashion_int8.onnx")));
    let cells = |after: &str| -> Vec<Vec<String>> {
        let table = page.split_once(after).unwrap().1.split_once("</table>").unwrap().0;
        let text = |cell: &str| {
            let text = cell.split_once('>').unwrap().1;
            text.split_once("</td>").map_or(String::new(), |t| t.0.into())
        };
        table.split("<tr").skip(2).map(|r| r.split("<td").skip(1).map(text).collect()).collect()
    };
    let sum = |rows: &[Vec<String>], column: usize| -> u64 {
        rows.iter().map(|r| r[column].replace(' ', "").parse::<u64>().unwrap()).sum()
    };
    let (ops, steps) = (cells("<h2>Ops</h2>"), cells("<h2>Steps</h2>"));
    assert_eq!(sum(&ops, 1), facts["steps"].as_u64().unwrap());
    // One entry, no control flow: the worst case of the verifier is the sum.
    assert_eq!(sum(&ops, 2), facts["macs"].as_u64().unwrap());
    assert_eq!(sum(&ops, 4), facts["bytes_moved"].as_u64().unwrap());
    assert_eq!(steps.len() as u64, facts["steps"].as_u64().unwrap());
    assert_eq!(sum(&steps, 6), facts["macs"].as_u64().unwrap());
    assert!(page.contains("image: f32 [batch, 1, 28, 28]"), "{page}");
}

#[test]
fn names_cannot_become_markup() {
    let folder = Folder::new();
    let mut file = std::fs::read(model("fashion/fashion.onnx")).unwrap();
    // As long as the name before, so the lengths in the file stay right.
    let (old, new) = (b"probabilities", b"<script>x&y'\"");
    let places: Vec<usize> = (0..file.len()).filter(|i| file[*i..].starts_with(old)).collect();
    assert!(places.len() >= 2);
    for at in places {
        file[at..at + old.len()].copy_from_slice(new);
    }
    let onnx = folder.path("a <b> &amp;.onnx");
    std::fs::write(&onnx, file).unwrap();
    let out = folder.path("page.html");
    let said = serinette(&["inspect", &onnx, "--html", &out]);
    assert_eq!(said.code, 0, "{}", said.err);
    let page = std::fs::read_to_string(out).unwrap();
    assert!(page.contains("&lt;script&gt;x&amp;y&#39;&quot;") && page.contains("a &lt;b&gt; &amp;amp;.onnx"));
    // Nor is anything else there that runs or loads.
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    assert!(page.contains(&format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">")));
    for text in ["<script", "<b>", "http:", "https:", "src=", "href=", "url(", " onload"] {
        assert!(!page.contains(text), "{text}");
    }
    let tags =
        |name: &str| (page.matches(&format!("<{name}")).count(), page.matches(&format!("</{name}>")).count());
    for name in ["svg", "rect", "title", "table", "tr", "details", "text"] {
        assert_eq!(tags(name).0, tags(name).1, "{name}");
    }
}

#[test]
fn a_page_is_written_as_a_whole_or_not_at_all() {
    let folder = Folder::new();
    let (onnx, out) = (model("joint/match.onnx"), folder.path("page.html"));
    std::fs::write(&out, "before").unwrap();
    say(&format!("inspect {onnx} --html {}", folder.path("nowhere/page.html")))
        .fails(1, &["cannot be written"]);
    say(&format!("inspect {onnx} --shape nothing=1 --html {out}")).fails(1, &["'nothing'"]);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "before");
    say(&format!("inspect {onnx} --html {out} --json")).fails(2, &["--html", "--json"]);
    assert_eq!(say(&format!("inspect {onnx} --html {out}")).code, 0);
    assert!(std::fs::read_to_string(&out).unwrap().starts_with("<!doctype html>"));
    assert_eq!(folder.names(), ["page.html"]);
}
