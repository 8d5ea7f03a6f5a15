//! Pictures.

use crate::entry::Port;
use crate::failure::Failure;
use crate::hint::{Channels, Hint, Image, Layout};
use crate::sizes::Axis;
use crate::tensor::Tensor;
use image::DynamicImage;
use image::imageops::FilterType;
use std::path::Path;

/// Reads a picture as the contents of an input with an image hint. Where the model fixes rows and columns, a picture
/// of another size is resized (triangle filter) without keeping its proportions. Alpha is dropped.
pub fn read(
    path: &Path,
    port: &Port,
    hint: Option<Hint>,
    dims: &[Axis],
    notes: &mut Vec<String>,
) -> Result<Tensor, Failure> {
    let name = &port.name;
    let fail = |problem: String| Failure::file(path, format!("input '{name}': {problem}"));
    let Some(Hint::Image(hint)) = hint else {
        return Err(fail(match hint {
            None => {
                "a picture needs an image hint, and the model has none for this input; compile it with --hint"
                    .into()
            }
            Some(other) => format!("the model's hint for this input is {}, not an image", kind(&other)),
        }));
    };
    let place = Place::of(&hint, dims).map_err(fail)?;
    let picture = image::open(path).map_err(|e| fail(e.to_string()))?;
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    let (rows, columns) = (place.rows.unwrap_or(height), place.columns.unwrap_or(width));
    let picture = if (rows, columns) == (height, width) {
        picture
    } else {
        let size = |n: usize| u32::try_from(n).map_err(|_| fail(format!("{n} is too large for a picture")));
        let (w, h) = (size(columns)?, size(rows)?);
        if w == 0 || h == 0 {
            return Err(fail(format!("the input has {rows} × {columns} pixels")));
        }
        notes.push(format!(
            "{}: resized from {width} × {height} to {columns} × {rows} pixels (width × height)",
            path.display()
        ));
        picture.resize_exact(w, h, FilterType::Triangle)
    };
    let data = place.arrange(&hint, &pixels(&picture, hint.channels), rows, columns);
    let shape = place.shape(&hint, rows, columns);
    Tensor::of_f32(port.dtype, shape, &data)
        .ok_or_else(|| fail(format!("elements of type {} hold no pixels", port.dtype)))
}

fn kind(hint: &Hint) -> &'static str {
    match hint {
        Hint::Image(_) => "image",
        Hint::Audio(_) => "audio",
        Hint::Classes(_) => "classes",
    }
}

/// Pixel by pixel, channel by channel, 0 to 255.
fn pixels(picture: &DynamicImage, channels: Channels) -> Vec<u8> {
    match channels {
        Channels::Gray => picture.to_luma8().into_raw(),
        Channels::Rgb => picture.to_rgb8().into_raw(),
        Channels::Bgr => {
            let mut raw = picture.to_rgb8().into_raw();
            for pixel in raw.chunks_exact_mut(3) {
                pixel.swap(0, 2);
            }
            raw
        }
    }
}

/// How the axes of an input are those of a picture.
struct Place {
    layout: Layout,
    rank: usize,
    rows: Option<usize>,
    columns: Option<usize>,
}

impl Place {
    fn of(hint: &Image, dims: &[Axis]) -> Result<Place, String> {
        let (c, h, w) = match (dims, hint.layout) {
            ([n, c, h, w], Layout::Nchw) | ([n, h, w, c], Layout::Nhwc) => {
                if let Axis::Fixed(n) = n
                    && *n != 1
                {
                    return Err(format!("the input takes {n} pictures at once; give them as a .npy file"));
                }
                (Some(c), h, w)
            }
            ([c, h, w], Layout::Nchw) | ([h, w, c], Layout::Nhwc) => (Some(c), h, w),
            ([h, w], _) if hint.channels == Channels::Gray => (None, h, w),
            _ => return Err(format!("it has {} axes, which is not a picture's shape", dims.len())),
        };
        let count = hint.channels.count();
        if let Some(Axis::Fixed(c)) = c
            && *c != count
        {
            return Err(format!("the model's hint has {count} channels, the input {c}"));
        }
        let fixed = |a: &Axis| match a {
            Axis::Fixed(n) => Some(*n),
            Axis::Open(_) => None,
        };
        Ok(Place { layout: hint.layout, rank: dims.len(), rows: fixed(h), columns: fixed(w) })
    }

    fn shape(&self, hint: &Image, rows: usize, columns: usize) -> Vec<usize> {
        let channels = hint.channels.count();
        let picture = match self.layout {
            Layout::Nchw => [channels, rows, columns],
            Layout::Nhwc => [rows, columns, channels],
        };
        match self.rank {
            2 => vec![rows, columns],
            3 => picture.to_vec(),
            _ => [&[1], &picture[..]].concat(),
        }
    }

    /// The values of pixels in the order of the input.
    fn arrange(&self, hint: &Image, pixels: &[u8], rows: usize, columns: usize) -> Vec<f32> {
        let channels = hint.channels.count();
        let of =
            |list: &[f32], c: usize, absent: f32| list.get(c).or(list.first()).copied().unwrap_or(absent);
        let value = |at: usize, c: usize| {
            let pixel = pixels.get(at * channels + c).copied().unwrap_or(0);
            (f32::from(pixel) - of(&hint.mean, c, 0.0)) * of(&hint.scale, c, 1.0)
        };
        let count = rows * columns;
        match self.layout {
            Layout::Nchw => (0..channels)
                .flat_map(|c| (0..count).map(move |at| (at, c)))
                .map(|(at, c)| value(at, c))
                .collect(),
            Layout::Nhwc => (0..count)
                .flat_map(|at| (0..channels).map(move |c| (at, c)))
                .map(|(at, c)| value(at, c))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn hint(channels: Channels, layout: Layout) -> Image {
        Image { channels, mean: vec![10.0, 20.0, 30.0], scale: vec![0.5, 1.0, 2.0], layout }
    }

    #[test]
    fn pixels_are_normalised_and_ordered() {
        // Two pixels: (10, 20, 30), (12, 24, 36).
        let picture = image::RgbImage::from_raw(2, 1, vec![10, 20, 30, 12, 24, 36]).unwrap();
        let raw = pixels(&DynamicImage::ImageRgb8(picture), Channels::Bgr);
        assert_eq!(raw, [30, 20, 10, 36, 24, 12]);
        let dims = [Axis::Open(1), Axis::Fixed(3), Axis::Open(1), Axis::Open(1)];
        let nchw = hint(Channels::Bgr, Layout::Nchw);
        let place = Place::of(&nchw, &dims).unwrap();
        assert_eq!(place.arrange(&nchw, &raw, 1, 2), [10.0, 13.0, 0.0, 4.0, -40.0, -36.0]);
        assert_eq!(place.shape(&nchw, 1, 2), [1, 3, 1, 2]);
        let nhwc = hint(Channels::Rgb, Layout::Nhwc);
        let place = Place::of(&nhwc, &[Axis::Open(1), Axis::Open(1), Axis::Fixed(3)]).unwrap();
        assert_eq!(place.arrange(&nhwc, &[10, 20, 30, 12, 24, 36], 1, 2), [0.0, 0.0, 0.0, 1.0, 4.0, 12.0]);
        assert_eq!(place.shape(&nhwc, 1, 2), [1, 2, 3]);
    }

    #[test]
    fn shapes_that_are_no_picture_are_refused() {
        let rgb = hint(Channels::Rgb, Layout::Nchw);
        assert!(Place::of(&rgb, &[Axis::Fixed(4), Axis::Fixed(4)]).is_err());
        assert!(Place::of(&rgb, &[Axis::Fixed(4), Axis::Fixed(3), Axis::Fixed(4), Axis::Fixed(4)]).is_err());
        let one = Place::of(&rgb, &[Axis::Fixed(1), Axis::Fixed(4), Axis::Fixed(4)]).err().unwrap();
        assert_eq!(one, "the model's hint has 3 channels, the input 1");
    }
}
