//! Positions and weights of a resampling along one axis, in f64, as ONNX defines them.

/// What weighs.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kernel {
    Nearest,
    Linear,
    Cubic,
}

/// An axis and how it is resized.
pub(crate) struct Axis {
    pub(crate) resized: bool,
    pub(crate) n: usize,
    pub(crate) m: usize,
    /// 0 where the sizes say it.
    pub(crate) scale: f64,
    pub(crate) coordinates: u32,
    pub(crate) bounds: (f64, f64),
    pub(crate) rounding: u32,
    pub(crate) exclude: bool,
    pub(crate) coefficient: f64,
}

impl Axis {
    fn position(&self, i: usize) -> f64 {
        let (n, m, x) = (self.n as f64, self.m as f64, i as f64);
        let scale = if self.scale == 0.0 { m / n } else { self.scale };
        let length = if self.scale == 0.0 { m } else { self.scale * n };
        // With sizes alone x · n / m, so that whole positions are whole.
        let back = |x: f64| if self.scale == 0.0 { x * n / m } else { x / scale };
        match self.coordinates {
            0 => back(x + 0.5) - 0.5,
            1 => {
                if length > 1.0 {
                    back(x + 0.5) - 0.5
                } else {
                    0.0
                }
            }
            2 => {
                if length == 1.0 {
                    0.0
                } else {
                    x * (n - 1.0) / (length - 1.0)
                }
            }
            3 => back(x),
            4 => n / 2.0 * (1.0 - m / length) + back(x + 0.5) - 0.5,
            5 => {
                let (start, end) = self.bounds;
                if length > 1.0 {
                    start * (n - 1.0) + x * (end - start) * (n - 1.0) / (length - 1.0)
                } else {
                    0.5 * (start + end) * (n - 1.0)
                }
            }
            _ => back(x + 0.5),
        }
    }

    fn nearest(&self, x: f64) -> usize {
        let (below, above) = (x.floor(), x.ceil());
        let middle = below + 0.5;
        let at = match self.rounding {
            0 if x <= middle => below,
            1 if x < middle => below,
            0 | 1 => above,
            2 => below,
            _ => above,
        };
        (at as i64).clamp(0, self.n as i64 - 1) as usize
    }

    fn weight(&self, kernel: Kernel, distance: f64) -> f64 {
        let (a, d) = (self.coefficient, distance.abs());
        match kernel {
            Kernel::Cubic if d <= 1.0 => (a + 2.0) * d.powi(3) - (a + 3.0) * d.powi(2) + 1.0,
            Kernel::Cubic if d < 2.0 => a * d.powi(3) - 5.0 * a * d.powi(2) + 8.0 * a * d - 4.0 * a,
            Kernel::Cubic => 0.0,
            _ => (1.0 - d).max(0.0),
        }
    }
}

/// The elements of the input that count, and their weights.
pub(crate) type Taps = Vec<(usize, f64)>;

/// For every element of the result, the elements of the input that count and their weights (for the nearest one alone, 1);
/// `None` outside.
pub(crate) fn axis(a: &Axis, kernel: Kernel, antialias: bool) -> Vec<Option<Taps>> {
    let each = |i: usize| {
        if !a.resized {
            return Some(vec![(i, 1.0)]);
        }
        let (x, last) = (a.position(i), a.n as f64 - 1.0);
        if a.coordinates == 5 && (x < 0.0 || x > last) {
            return None;
        }
        if kernel == Kernel::Nearest {
            return Some(vec![(a.nearest(x), 1.0)]);
        }
        let scale = if a.scale == 0.0 { a.m as f64 / a.n as f64 } else { a.scale };
        let stretch = if antialias { scale.min(1.0) } else { 1.0 };
        // Every whole position from far before to far behind.
        let reach = (2.0 / stretch).ceil() as i64 + 2;
        let around = x.floor() as i64;
        let mut taps: Vec<(i64, f64)> = (around - reach..=around + reach)
            .map(|t| (t, a.weight(kernel, (t as f64 - x) * stretch)))
            .filter(|(t, w)| *w != 0.0 && (!a.exclude || (0..a.n as i64).contains(t)))
            .collect();
        if antialias || a.exclude {
            let sum: f64 = taps.iter().map(|(_, w)| w).sum();
            if sum != 0.0 {
                taps.iter_mut().for_each(|(_, w)| *w /= sum);
            }
        }
        // What lies outside is the outermost element.
        let mut merged = Taps::new();
        for (t, w) in taps {
            let t = t.clamp(0, a.n as i64 - 1) as usize;
            match merged.last_mut() {
                Some((last, sum)) if *last == t => *sum += w,
                _ => merged.push((t, w)),
            }
        }
        Some(merged)
    };
    (0..a.m).map(each).collect()
}
