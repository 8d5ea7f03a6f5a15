//! Text in pictures with PP-OCRv4: one network finds lines of text, one tells those that stand on their heads, one reads.

use crate::models;
use crate::place::{Place, numbers};
use anyhow::{Context, Result, bail};
use image::imageops::{FilterType, resize, rotate180, rotate270};
use image::{GrayImage, Luma, RgbImage};
use imageproc::geometric_transformations::{Border, Interpolation, warp_into_with};
use imageproc::geometry::convex_hull;
use imageproc::point::Point;
use imageproc::region_labelling::{Connectivity, connected_components};
use serinette::compile::{AxisSize, CompileOptions};
use serinette::{Session, TensorView};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

const FOLDER: &str = "ppocr/rapidocr_onnxruntime/models";
const FIND: (&str, &str) = ("ch_PP-OCRv4_det_infer.onnx", "sigmoid_0.tmp_0");
const TURN: (&str, &str) = ("ch_ppocr_mobile_v2.0_cls_infer.onnx", "save_infer_model/scale_0.tmp_1");
const READ: (&str, &str) = ("ch_PP-OCRv4_rec_infer.onnx", "softmax_11.tmp_0");

/// Longest side of a picture in which text is searched, and what both sides are multiples of.
const SIDE: u64 = 960;
const STEP: u64 = 32;
/// Rows of a line of text as the networks take it, and most columns: what is longer is squeezed.
const ROWS: u32 = 48;
const TURN_COLUMNS: u32 = 192;
const READ_COLUMNS: u32 = 2400;
/// Columns are a multiple of what one column of the result covers.
const READ_STEP: u32 = 8;
/// Least probability of a pixel and of a whole box to be text, and to stand on its head.
const PIXEL: f32 = 0.3;
const BOX: f32 = 0.6;
const TURNED: f32 = 0.9;
/// The network marks a core of each line; so much, times area by circumference, lies around it.
const MARGIN: f32 = 1.6;
/// Pixels of the map that a box has at least across.
const THIN: f32 = 3.0;

/// A rectangle, turned by 45° at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextBox {
    /// Middle, in pixels.
    pub centre: (f32, f32),
    /// Direction of the upper side, from left to right, of length 1.
    pub along: (f32, f32),
    /// Size in this direction.
    pub width: f32,
    /// Size across.
    pub height: f32,
}

impl TextBox {
    /// The smallest one around points that has this direction or one at right angles to it.
    fn around(points: &[(f32, f32)], (x, y): (f32, f32)) -> TextBox {
        let (x, y) = if x.abs() < y.abs() { (y, -x) } else { (x, y) };
        let along = if x < 0.0 { (-x, -y) } else { (x, y) };
        let down = (-along.1, along.0);
        let range = |to: (f32, f32)| {
            let at = points.iter().map(|p| p.0 * to.0 + p.1 * to.1);
            at.fold((f32::MAX, f32::MIN), |(low, high), v| (low.min(v), high.max(v)))
        };
        let ((left, right), (top, bottom)) = (range(along), range(down));
        let (a, d) = ((left + right) / 2.0, (top + bottom) / 2.0);
        let centre = (a * along.0 + d * down.0, a * along.1 + d * down.1);
        TextBox { centre, along, width: right - left, height: bottom - top }
    }

    /// The point that lies so far from the middle along the upper side and down.
    fn point(&self, along: f32, down: f32) -> (f32, f32) {
        let (x, y) = self.along;
        (self.centre.0 + along * x - down * y, self.centre.1 + along * y + down * x)
    }

    fn contains(&self, (x, y): (f32, f32)) -> bool {
        let (x, y) = (x - self.centre.0, y - self.centre.1);
        let (along, down) = (x * self.along.0 + y * self.along.1, y * self.along.0 - x * self.along.1);
        along.abs() <= self.width / 2.0 && down.abs() <= self.height / 2.0
    }

    fn thickness(&self) -> f32 {
        self.width.min(self.height)
    }

    /// Upper left, upper right, lower right and lower left corner.
    pub fn corners(&self) -> [(f32, f32); 4] {
        let (w, h) = (self.width / 2.0, self.height / 2.0);
        [self.point(-w, -h), self.point(w, -h), self.point(w, h), self.point(-w, h)]
    }

    /// What is in it, upright: letters of text that runs downwards are taken to lie on their right side.
    fn cut(&self, image: &RgbImage) -> RgbImage {
        let size = |s: f32| s.round().max(1.0);
        let (columns, rows) = (size(self.width), size(self.height));
        let (across, down) = (self.width / columns, self.height / rows);
        let mut cut = RgbImage::new(columns as u32, rows as u32);
        // The middle of a pixel is at one half.
        let from = |x: f32, y: f32| {
            let at = self.point((x + 0.5 - columns / 2.0) * across, (y + 0.5 - rows / 2.0) * down);
            (at.0 - 0.5, at.1 - 0.5)
        };
        warp_into_with(image, from, Interpolation::Bilinear, Border::Replicate, &mut cut);
        if self.height >= 1.5 * self.width { rotate270(&cut) } else { cut }
    }
}

/// A line that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it says.
    pub text: String,
    /// Mean of the characters' probabilities.
    pub confidence: f32,
    /// Where it stands.
    pub place: TextBox,
}

/// A reader of pictures.
pub struct Ocr {
    find: Session,
    turn: Session,
    read: Session,
    /// Characters by class; class 0 is none.
    characters: Vec<String>,
}

impl Ocr {
    /// Compiles the networks and opens them, each for every size that it will see.
    ///
    /// # Errors
    /// Models that were not fetched, and whatever the device refuses.
    pub fn open(place: &Place) -> Result<Ocr> {
        let find = open(place, FIND.0, "1,3,rows,columns", &[("rows", SIDE, STEP), ("columns", SIDE, STEP)])?;
        let turn = open(place, TURN.0, &format!("1,3,{ROWS},{TURN_COLUMNS}"), &[])?;
        let columns = ("columns", READ_COLUMNS.into(), READ_STEP.into());
        let read = open(place, READ.0, &format!("1,3,{ROWS},columns"), &[columns])?;
        let list = read.model().metadata("character").context("the network that reads has no characters")?;
        let characters = std::iter::once("").chain(list.split('\n')).chain([" "]).map(String::from).collect();
        Ok(Ocr { find, turn, read, characters })
    }

    /// The lines of text in a picture, from top to bottom and from left to right.
    ///
    /// # Errors
    /// A run that fails.
    pub fn read(&mut self, image: &RgbImage) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        for place in self.find(image)? {
            let cut = self.upright(place.cut(image))?;
            let columns = fitting(&cut, READ_COLUMNS);
            let pixels = pixels(&cut, columns, columns.next_multiple_of(READ_STEP), ROWS);
            let shape = [1, 3, ROWS as usize, columns.next_multiple_of(READ_STEP) as usize];
            let outputs = self.read.run("main", &[("x", TensorView::f32(&shape, &pixels))])?;
            let (text, confidence) = decode(&numbers(&outputs, READ.1)?, &self.characters);
            if !text.trim().is_empty() {
                lines.push(Line { text, confidence, place });
            }
        }
        Ok(lines)
    }

    /// Where lines of text are, in reading order.
    ///
    /// # Errors
    /// A run that fails.
    pub fn find(&mut self, image: &RgbImage) -> Result<Vec<TextBox>> {
        let (columns, rows) = image.dimensions();
        if columns == 0 || rows == 0 {
            bail!("the picture has no pixels");
        }
        let scale = (SIDE as f32 / columns.max(rows) as f32).min(1.0);
        let side = |n: u32| ((n as f32 * scale / STEP as f32).round().max(1.0) as u32) * STEP as u32;
        let (w, h) = (side(columns), side(rows));
        let pixels = pixels(image, w, w, h);
        let shape = [1, 3, h as usize, w as usize];
        let outputs = self.find.run("main", &[("x", TensorView::f32(&shape, &pixels))])?;
        let map = numbers(&outputs, FIND.1)?;
        let pixel = (columns as f32 / w as f32, rows as f32 / h as f32);
        let mut boxes = boxes(&map, w, pixel);
        in_reading_order(&mut boxes);
        Ok(boxes)
    }

    /// A line, turned where it stood on its head.
    fn upright(&mut self, line: RgbImage) -> Result<RgbImage> {
        let pixels = pixels(&line, fitting(&line, TURN_COLUMNS), TURN_COLUMNS, ROWS);
        let shape = [1, 3, ROWS as usize, TURN_COLUMNS as usize];
        let outputs = self.turn.run("main", &[("x", TensorView::f32(&shape, &pixels))])?;
        let turned = numbers(&outputs, TURN.1)?.get(1).is_some_and(|p| *p > TURNED);
        Ok(if turned { rotate180(&line) } else { line })
    }
}

fn open(place: &Place, file: &str, shape: &str, bounds: &[(&str, u64, u64)]) -> Result<Session> {
    let mut options = CompileOptions::default();
    let shape = shape.split(',').map(str::parse::<AxisSize>).collect::<Result<_, _>>()?;
    options.import.shapes.insert("x".into(), shape);
    for (size, most, step) in bounds {
        options.import.bounds.insert((*size).into(), (*most, *step));
    }
    place.compile(&models::find(&format!("{FOLDER}/{file}"))?, &options)
}

/// Columns of a line brought to [`ROWS`] rows.
fn fitting(line: &RgbImage, most: u32) -> u32 {
    let columns = f64::from(ROWS) * f64::from(line.width()) / f64::from(line.height().max(1));
    (columns.ceil() as u32).clamp(1, most)
}

/// A picture of `columns` and `rows` as the networks take it: planes of blue, green and red from −1 to 1; zeros up to
/// `width` columns.
fn pixels(image: &RgbImage, columns: u32, width: u32, rows: u32) -> Vec<f32> {
    let image = resize(image, columns, rows, FilterType::Triangle);
    let (width, plane) = (width as usize, width as usize * rows as usize);
    let mut pixels = vec![0.0; 3 * plane];
    for (x, y, p) in image.enumerate_pixels() {
        for (channel, value) in p.0.iter().rev().enumerate() {
            pixels[channel * plane + y as usize * width + x as usize] = f32::from(*value) / 127.5 - 1.0;
        }
    }
    pixels
}

/// Boxes around what is text in a map of probabilities, `width` columns wide; a pixel of the map is `pixel` of the
/// picture's.
fn boxes(map: &[f32], width: u32, pixel: (f32, f32)) -> Vec<TextBox> {
    let rows = (map.len() / width.max(1) as usize) as u32;
    let at = |x: u32, y: u32| map.get((y * width + x) as usize).copied().unwrap_or(0.0);
    let text = GrayImage::from_fn(width, rows, |x, y| Luma([u8::from(at(x, y) > PIXEL)]));
    let labels = connected_components(&text, Connectivity::Eight, Luma([0]));
    let label = |x: Option<u32>, y| x.and_then(|x| labels.get_pixel_checked(x, y)).map_or(0, |l| l.0[0]);
    // Corners of the pixels at the ends of each component's runs: what is between them does not change the hull. A set, as
    // equal points have no order around the hull's first one.
    let mut ends: BTreeMap<u32, BTreeSet<(u32, u32)>> = BTreeMap::new();
    for (x, y, l) in labels.enumerate_pixels().filter(|(_, _, l)| l.0[0] != 0) {
        let corners = ends.entry(l.0[0]).or_default();
        if label(x.checked_sub(1), y) != l.0[0] {
            corners.extend([(x, y), (x, y + 1)]);
        }
        if label(Some(x + 1), y) != l.0[0] {
            corners.extend([(x + 1, y), (x + 1, y + 1)]);
        }
    }
    let middle = |x: f32, y: f32| ((x + 0.5) * pixel.0, (y + 0.5) * pixel.1);
    let mut found = Vec::new();
    for corners in ends.into_values() {
        let points: Vec<_> = corners.iter().map(|(x, y)| Point::new(*x as i32, *y as i32)).collect();
        let hull: Vec<(f32, f32)> =
            convex_hull(points).iter().map(|p| (p.x as f32 * pixel.0, p.y as f32 * pixel.1)).collect();
        let Some(core) = smallest(&hull) else { continue };
        if core.thickness() < THIN * pixel.0.min(pixel.1) {
            continue;
        }
        let range = |values: &mut dyn Iterator<Item = f32>, pixel: f32, most: u32| {
            let (low, high) = values.fold((f32::MAX, 0f32), |(low, high), v| (low.min(v), high.max(v)));
            ((low / pixel).floor().max(0.0) as u32, ((high / pixel).ceil() as u32).min(most))
        };
        let corners = core.corners();
        let (left, right) = range(&mut corners.iter().map(|c| c.0), pixel.0, width);
        let (top, bottom) = range(&mut corners.iter().map(|c| c.1), pixel.1, rows);
        let inside = (top..bottom).flat_map(|y| (left..right).map(move |x| (x, y)));
        let inside = inside.filter(|(x, y)| core.contains(middle(*x as f32, *y as f32)));
        let (sum, count) = inside.fold((0.0, 0), |(sum, count), (x, y)| (sum + at(x, y), count + 1));
        if sum < BOX * count as f32 {
            continue;
        }
        let margin = MARGIN * core.width * core.height / (2.0 * (core.width + core.height));
        let (width, height) = (core.width + 2.0 * margin, core.height + 2.0 * margin);
        found.push(TextBox { width, height, ..core });
    }
    found
}

/// The smallest rectangle around a convex polygon: one of its sides lies on a side of the polygon.
fn smallest(hull: &[(f32, f32)]) -> Option<TextBox> {
    let sides = hull.iter().zip(hull.iter().cycle().skip(1));
    let around = sides.filter_map(|(a, b)| {
        let (x, y) = (b.0 - a.0, b.1 - a.1);
        let length = x.hypot(y);
        (length > 0.0).then(|| TextBox::around(hull, (x / length, y / length)))
    });
    around.min_by(|a, b| (a.width * a.height).total_cmp(&(b.width * b.height)))
}

/// Rows from top to bottom, and each from left to right. Boxes are of one row if the middle of the lower one is less than
/// half of the thinner one's height below that of the row's first one.
fn in_reading_order(boxes: &mut [TextBox]) {
    boxes.sort_by(|a, b| a.centre.1.total_cmp(&b.centre.1));
    let mut rest = boxes;
    while let Some(first) = rest.first().copied() {
        let same = |b: &TextBox| b.centre.1 - first.centre.1 < b.height.min(first.height) / 2.0;
        let count = rest.iter().take_while(|b| same(b)).count().max(1);
        let (row, below) = rest.split_at_mut(count);
        row.sort_by(|a, b| a.centre.0.total_cmp(&b.centre.0));
        rest = below;
    }
}

/// The text of the likeliest class of each column, and the mean probability of its characters. What follows itself is
/// written once; class 0 stands between characters.
fn decode(columns: &[f32], characters: &[String]) -> (String, f32) {
    let (mut text, mut sum, mut count, mut before) = (String::new(), 0.0, 0, 0);
    for column in columns.chunks_exact(characters.len().max(1)) {
        let greater = |a: &(usize, &f32), b: &(usize, &f32)| match a.1.total_cmp(b.1) {
            Ordering::Equal => b.0.cmp(&a.0),
            order => order,
        };
        let Some((class, p)) = column.iter().enumerate().max_by(greater) else { continue };
        if class != before && class != 0 {
            text.push_str(&characters[class]);
            (sum, count) = (sum + p, count + 1);
        }
        before = class;
    }
    (text, sum / count.max(1) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turned_bar_becomes_its_box_and_faint_or_thin_ones_none() {
        let (width, rows) = (200u32, 100u32);
        let along = (0.96, 0.28);
        let bar = TextBox { centre: (100.0, 50.0), along, width: 120.0, height: 20.0 };
        let faint = TextBox { centre: (20.0, 80.0), along: (1.0, 0.0), width: 30.0, height: 10.0 };
        let thin = TextBox { centre: (160.0, 10.0), along: (1.0, 0.0), width: 30.0, height: 2.0 };
        let p = |x: f32, y: f32| {
            let inside = |b: &TextBox| b.contains((x + 0.5, y + 0.5));
            if inside(&bar) || inside(&thin) { 0.9 } else { if inside(&faint) { 0.5 } else { 0.0 } }
        };
        let map: Vec<f32> = (0..rows * width).map(|i| p((i % width) as f32, (i / width) as f32)).collect();
        // A pixel of the map is two of the picture.
        let found = boxes(&map, width, (2.0, 2.0));
        let [found] = found.as_slice() else { panic!("{found:?}") };
        let margin = MARGIN * 240.0 * 40.0 / (2.0 * 280.0);
        let near = |a: f32, b: f32, by: f32| assert!((a - b).abs() <= by, "{a} is not about {b}");
        near(found.centre.0, 200.0, 1.0);
        near(found.centre.1, 100.0, 1.0);
        near(found.along.1, 0.28, 0.02);
        near(found.width, 240.0 + 2.0 * margin, 8.0);
        near(found.height, 40.0 + 2.0 * margin, 8.0);
        assert!(smallest(&[(1.0, 1.0)]).is_none());
    }

    #[test]
    fn text_that_runs_downwards_is_cut_upright() {
        // Red above blue in a column: red is left of blue in the line.
        let image =
            RgbImage::from_fn(30, 60, |_, y| image::Rgb(if y < 30 { [255, 0, 0] } else { [0, 0, 255] }));
        let place = TextBox { centre: (15.0, 30.0), along: (1.0, 0.0), width: 10.0, height: 40.0 };
        let cut = place.cut(&image);
        assert_eq!(cut.dimensions(), (40, 10));
        assert_eq!((cut.get_pixel(2, 5).0, cut.get_pixel(37, 5).0), ([255, 0, 0], [0, 0, 255]));
    }

    #[test]
    fn boxes_of_a_row_are_read_from_left_to_right() {
        let place = |x: f32, y: f32| TextBox { centre: (x, y), along: (1.0, 0.0), width: 50.0, height: 20.0 };
        let mut boxes = [place(200.0, 10.0), place(100.0, 45.0), place(90.0, 15.0), place(20.0, 50.0)];
        in_reading_order(&mut boxes);
        assert_eq!(boxes.map(|b| b.centre.0), [90.0, 200.0, 20.0, 100.0]);
    }

    #[test]
    fn repeated_classes_are_one_character_unless_none_stands_between() {
        let characters: Vec<String> = ["", "a", "b"].map(String::from).to_vec();
        let column = |class: usize, p: f32| (0..3).map(move |i| if i == class { p } else { (1.0 - p) / 2.0 });
        let columns = [(1, 0.9), (1, 0.7), (0, 0.8), (1, 0.8), (2, 0.4), (0, 0.9)];
        let columns: Vec<f32> = columns.iter().flat_map(|(c, p)| column(*c, *p)).collect();
        let (text, confidence) = decode(&columns, &characters);
        assert_eq!(text, "aab");
        assert!((confidence - 0.7).abs() < 1e-6, "{confidence}");
        assert_eq!(decode(&[], &characters), (String::new(), 0.0));
    }
}
