//! `MaxPool2d` and `AveragePool2d`.

use crate::random::Random;
use crate::reference::pool::windows;
use crate::reference::round::quotient_half_even;
use crate::reference::sum::{storing, unit};
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::conv::Geometry;
use serinette_core::op::pool::{AVERAGE_POOL2D, MAX_POOL2D, Pool2d};

/// What, `x`, kernel, strides, pads (top, left, bottom, right), dilations.
type Shape = (&'static str, [usize; 4], [u32; 2], [u32; 2], [u32; 4], [u32; 2]);

const SHAPES: &[Shape] = &[
    ("1x1", [2, 3, 5, 7], [1, 1], [1, 1], [0; 4], [1, 1]),
    ("2x2 strided", [2, 3, 8, 10], [2, 2], [2, 2], [0; 4], [1, 1]),
    ("2x2 strided, rest left over", [1, 5, 7, 9], [2, 2], [2, 2], [0; 4], [1, 1]),
    ("3x3 overlapping", [1, 4, 9, 11], [3, 3], [2, 2], [1; 4], [1, 1]),
    ("3x2 uneven pads", [2, 1, 6, 7], [3, 2], [1, 3], [2, 1, 0, 1], [1, 1]),
    ("window of the whole padded input", [1, 2, 3, 4], [5, 5], [1, 1], [1, 0, 1, 1], [1, 1]),
    ("dilated", [1, 3, 11, 13], [3, 2], [2, 1], [0; 4], [2, 5]),
    ("row", [1, 2, 1, 70], [1, 9], [1, 4], [0, 8, 0, 3], [1, 1]),
    ("stride beyond the window", [1, 2, 10, 10], [2, 1], [4, 7], [0; 4], [1, 1]),
    ("global", [2, 5, 7, 9], [0, 0], [1, 1], [0; 4], [1, 1]),
    ("global of one", [3, 2, 1, 1], [0, 0], [1, 1], [0; 4], [1, 1]),
    ("global of many", [1, 1, 67, 129], [0, 0], [1, 1], [0; 4], [1, 1]),
    ("many columns", [1, 3, 9, 75], [3, 3], [2, 2], [0, 1, 1, 0], [1, 1]),
    ("many columns, mean of neighbours", [2, 2, 5, 33], [3, 3], [1, 1], [1; 4], [1, 1]),
    ("no planes", [2, 0, 4, 4], [2, 2], [1, 1], [0; 4], [1, 1]),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let mut random = Random::new(3);
    for (what, dims, kernel, strides, pads, dilations) in SHAPES {
        let geometry = Geometry { strides: *strides, pads: *pads, dilations: *dilations };
        for count_padding in [0, 1] {
            let attrs = Pool2d { geometry, kernel: *kernel, count_padding, reserved: 0 };
            let bytes = [DType::I8, DType::U8].map(|t| random.any(t, dims));
            let floats = [DType::F32, DType::F16, DType::BF16, DType::F64].map(|t| random.floats(t, dims));
            for x in floats.iter().chain(&bytes).chain([&random.i32s(dims, -2, 2)]) {
                // The last: small numbers, so that many means are ties.
                let tied = x.dtype == DType::I32;
                let x = &if tied { narrow(x) } else { x.clone() };
                let what = format!(
                    "{}/{what}{}, padding counted {count_padding}",
                    name(x.dtype),
                    ["", ", ties"][usize::from(tied)]
                );
                if count_padding == 0 {
                    all.push(maximum(what.clone(), &attrs, x));
                }
                all.push(average(what, &attrs, x));
            }
        }
    }
    // Rows longer than what a kernel may keep of them.
    let geometry = Geometry { strides: [1, 2], pads: [0, 1, 0, 1], dilations: [1, 1] };
    let attrs = Pool2d { geometry, kernel: [2, 3], count_padding: 0, reserved: 0 };
    let x = random.floats(DType::F32, &[1, 1, 3, 66_001]);
    all.push(maximum("f32/long rows".into(), &attrs, &x));
    all.push(average("f32/long rows".into(), &attrs, &x));
    let attrs = |pads| Pool2d {
        geometry: Geometry { pads, ..Geometry::default() },
        kernel: [3, 3],
        count_padding: 0,
        reserved: 0,
    };
    // Padding never wins: everything is the least number, or below every padding that a device may think of.
    for x in [
        Tensor::f32(&[1, 1, 2, 2], &[f32::NEG_INFINITY; 4]),
        Tensor::f32(&[1, 1, 2, 2], &[f32::MIN; 4]),
        Tensor::i8(&[1, 1, 2, 2], &[-128; 4]),
    ] {
        let what = format!("{}/special/least numbers {}", name(x.dtype), x.show(0));
        all.push(maximum(what, &attrs([1; 4]), &x));
    }
    let mut x: Vec<f32> =
        random.floats(DType::F32, &[1, 2, 7, 8]).numbers().iter().map(|x| *x as f32).collect();
    (x[0], x[27], x[50], x[54], x[111]) =
        (f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::NEG_INFINITY);
    let x = Tensor::f32(&[1, 2, 7, 8], &x);
    all.push(maximum("f32/special/NaN and infinities".into(), &attrs([1, 2, 0, 1]), &x));
    all.push(average("f32/special/NaN and infinities".into(), &attrs([1, 2, 0, 1]), &x));
    // A sum beyond 16 bits.
    let attrs = Pool2d { geometry: Geometry::default(), kernel: [0, 0], count_padding: 0, reserved: 0 };
    all.push(average("i8/largest sums".into(), &attrs, &Tensor::i8(&[1, 2, 60, 70], &[-128; 8400])));
    all
}

fn narrow(x: &Tensor) -> Tensor {
    Tensor::i8(&x.dims, &x.integers().iter().map(|v| *v as i8).collect::<Vec<_>>())
}

fn maximum(what: String, attrs: &Pool2d, x: &Tensor) -> Case {
    let (dims, windows) = windows(attrs, &x.dims);
    let numbers = x.numbers();
    let largest = |elements: &[usize]| {
        let nan = elements.iter().any(|i| numbers[*i].is_nan());
        let most = elements.iter().map(|i| numbers[*i]).fold(f64::NEG_INFINITY, f64::max);
        if nan { f64::NAN } else { most }
    };
    let y: Vec<f64> = windows.iter().map(|(elements, _)| largest(elements)).collect();
    let y = match x.dtype {
        DType::I8 | DType::U8 => {
            Tensor::integer(x.dtype, &dims, &y.iter().map(|y| *y as i128).collect::<Vec<_>>())
        }
        t => Tensor::float(t, &dims, &y),
    };
    Case::new(&MAX_POOL2D, what, attrs).input(x).output(y)
}

/// Floats: `n` additions with a relative error of at most one unit each on sums below `Σ|x|`, then a division, for
/// which devices allow 2.5 units in the last place, each at most two units of the mean.
fn average(what: String, attrs: &Pool2d, x: &Tensor) -> Case {
    let (dims, windows) = windows(attrs, &x.dims);
    let count =
        |elements: &[usize], taps: usize| if attrs.count_padding == 1 { taps } else { elements.len() };
    let case = Case::new(&AVERAGE_POOL2D, what, attrs).input(x);
    if matches!(x.dtype, DType::I8 | DType::U8) {
        let integers = x.wide_integers();
        let mean = |(elements, taps): &(Vec<usize>, usize)| {
            let sum: i128 = elements.iter().map(|i| integers[*i]).sum();
            quotient_half_even(sum, count(elements, *taps) as i128)
        };
        return case.output(Tensor::integer(x.dtype, &dims, &windows.iter().map(mean).collect::<Vec<_>>()));
    }
    let numbers = x.numbers();
    let (mut y, mut bounds) = (Vec::new(), Vec::new());
    for (elements, taps) in &windows {
        let n = count(elements, *taps) as f64;
        let sum: f64 = elements.iter().map(|i| numbers[*i]).sum();
        let magnitude: f64 = elements.iter().map(|i| numbers[*i].abs()).sum();
        y.push(sum / n);
        let stored = if x.dtype == DType::F32 { 0.0 } else { storing(x.dtype, magnitude / n) };
        let summed = (elements.len() as f64 + 6.0) * unit(x.dtype) * magnitude / n;
        bounds.push(summed + stored + f64::from(f32::MIN_POSITIVE));
    }
    case.output(Tensor::float(x.dtype, &dims, &y)).within(Tolerance::Bounds(bounds))
}
