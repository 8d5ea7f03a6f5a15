//! Norms by mean and variance.

use crate::random::Random;
use crate::reference::estimate::{Estimate, fit, rounded, sum};
use crate::tensor::position;
use crate::{Case, Tensor, name};
use serinette_core::DType;
use serinette_core::op::norm::*;
use serinette_core::op::unary::FLOATS;
use serinette_core::op::{Attributes, OpDescriptor};

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(149);
    let mut all = Vec::new();
    for t in FLOATS.iter() {
        layers(&mut random, t, &mut all);
        channels(&mut random, t, &mut all);
        batches(&mut random, t, &mut all);
    }
    all
}

/// Mean, `1 / √(variance + epsilon)` and their errors, the second relative.
///
/// A sum of `n` terms has `n` roundings of at most the sum of magnitudes, a quotient 2.5 units; the error of the mean goes
/// into each difference. An inverse root is off by 3 units or a root and a quotient.
struct Statistics {
    mean: f64,
    mean_error: f64,
    factor: f64,
    factor_error: f64,
}

fn statistics(t: DType, x: &[f64], epsilon: f32) -> Statistics {
    let n = x.len() as f64;
    let mean = fit(t, sum(x.iter().copied())) / n;
    let mean_error = (n + 6.0) * sum(x.iter().map(|x| x.abs())) / n;
    let differences = || x.iter().map(|x| (x - mean).abs());
    let variance = sum(differences().map(|d| fit(t, d * d))) / n;
    let variance_error = sum(differences().map(|d| 2.0 * d * (mean_error + d))) / n + (n + 8.0) * variance;
    let (factor, error) = inverse_root(fit(t, variance), variance_error, epsilon);
    Statistics { mean, mean_error, factor, factor_error: error }
}

fn inverse_root(x: f64, error: f64, epsilon: f32) -> (f64, f64) {
    let v = x + f64::from(epsilon);
    (1.0 / v.sqrt(), 0.5 * error / v + 12.0)
}

impl Statistics {
    fn normalised(&self, x: f64) -> Estimate {
        let d = x - self.mean;
        let value = d * self.factor;
        let error = self.factor * (self.mean_error + d.abs()) + value.abs() * (self.factor_error + 2.0);
        Estimate { value, error }
    }
}

fn affine(e: Estimate, scale: Option<f64>, bias: Option<f64>) -> Estimate {
    let (s, b) = (scale.unwrap_or(1.0), bias.unwrap_or(0.0));
    let value = e.value * s + b;
    Estimate { value, error: e.error * s.abs() + 2.0 * (e.value * s).abs() + value.abs() }
}

/// A case of an op that normalises groups of elements: `group` names the group of an element, and `parameter` its place in
/// scale and bias, by its position.
struct Task<'a> {
    op: &'static OpDescriptor,
    epsilon: f32,
    group: &'a dyn Fn(&[usize]) -> usize,
    parameter: &'a dyn Fn(&[usize]) -> usize,
}

impl Task<'_> {
    fn case(
        &self,
        what: String,
        attrs: &impl Attributes,
        x: &Tensor,
        [scale, bias]: [Option<&Tensor>; 2],
    ) -> Case {
        let (t, numbers) = (x.dtype, x.numbers());
        let [s, b] = [scale, bias].map(|p| p.map(Tensor::numbers));
        let groups: Vec<usize> = (0..numbers.len()).map(|i| (self.group)(&position(&x.dims, i))).collect();
        let mut known = std::collections::BTreeMap::new();
        let mut y = Vec::new();
        for (i, g) in groups.iter().enumerate() {
            let members = || {
                let all = numbers.iter().zip(&groups).filter(|(_, h)| *h == g);
                all.map(|(x, _)| *x).collect::<Vec<f64>>()
            };
            let statistics = known.entry(*g).or_insert_with(|| {
                if self.op.code != RMS_NORM.code {
                    return statistics(t, &members(), self.epsilon);
                }
                // A root mean square: no mean is taken off.
                let (x, n) = (members(), members().len() as f64);
                let mean = fit(t, sum(x.iter().map(|x| fit(t, x * x)))) / n;
                let (factor, error) = inverse_root(mean, (n + 8.0) * mean, self.epsilon);
                Statistics { mean: 0.0, mean_error: 0.0, factor, factor_error: error }
            });
            let p = (self.parameter)(&position(&x.dims, i));
            let of = |v: &Option<Vec<f64>>| v.as_ref().map(|v| v[p]);
            y.push(affine(statistics.normalised(numbers[i]), of(&s), of(&b)));
        }
        let (y, tolerance) = rounded(t, &x.dims, &y);
        let mut case = Case::new(self.op, what, attrs).input(x);
        let given = if bias.is_some() { 2 } else { usize::from(scale.is_some()) };
        for p in [scale, bias].into_iter().take(given) {
            case = case.optional(p);
        }
        case.output(y).within(tolerance).with_in_place(self.op)
    }
}

/// Which of scale and bias are there.
const GIVEN: [(&str, [bool; 2]); 4] = [
    ("plain", [false, false]),
    ("scale", [true, false]),
    ("bias", [false, true]),
    ("scale and bias", [true, true]),
];

/// Operands far from ordinary, as rows of 5.
fn special_rows(t: DType) -> Tensor {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let (large, huge) = if t == DType::F16 { (1000.0, 60000.0) } else { (10_000.0, 1e30) };
    let rows = [
        [3.25; 5],
        [0.0; 5],
        [large, large + 1.0, large + 2.0, large - 1.0, large],
        [1.0, 2.0, nan, 3.0, 4.0],
        [1.0, 2.0, inf, 3.0, 4.0],
        [inf, -inf, 0.0, 0.0, 1.0],
        // Squares that overflow in f32, but not in f64.
        [huge, -huge, 0.5 * huge, 0.0, 1.0],
        [1e-3, -2e-3, 3e-3, 1e-3, 0.0],
    ];
    Tensor::float(t, &[rows.len(), 5], &rows.concat())
}

fn layers(random: &mut Random, t: DType, all: &mut Vec<Case>) {
    let many: &[(&[usize], usize)] = &[
        (&[10], 0),
        (&[5, 33], 0),
        (&[5, 33], 1),
        (&[3, 5, 7], 2),
        (&[2, 3, 4, 5], 2),
        (&[3, 1], 1),
        (&[2, 1100], 1),
        (&[0, 4], 1),
        (&[4, 0], 1),
    ];
    let few: &[(&[usize], usize)] = &[(&[3, 5, 7], 2), (&[3, 5, 7], 1)];
    let mut inputs: Vec<(String, Tensor, usize, f32)> = Vec::new();
    for (dims, axis) in if t == DType::F32 { many } else { few } {
        inputs.push((format!("{dims:?} axis {axis}"), random.floats(t, dims), *axis, 1e-5));
    }
    for epsilon in [1e-5, 0.0, 0.5] {
        inputs.push((format!("special, epsilon {epsilon}"), special_rows(t), 1, epsilon));
    }
    for (what, x, axis, epsilon) in &inputs {
        let attrs = LayerNorm { axis: *axis as u32, epsilon: *epsilon };
        let inner = &x.dims[*axis..];
        let row = |at: &[usize]| at[..*axis].iter().zip(&x.dims).fold(0, |o, (i, d)| o * d + i);
        let place = |at: &[usize]| at[*axis..].iter().zip(inner).fold(0, |o, (i, d)| o * d + i);
        let parameters = [random.floats(t, inner), random.floats(t, inner)];
        for op in [&LAYER_NORM, &RMS_NORM] {
            let task = Task { op, epsilon: *epsilon, group: &row, parameter: &place };
            for (given, there) in GIVEN.iter().filter(|(_, there)| op.inputs.len() > 2 || !there[1]) {
                let [s, b] = [0, 1].map(|i| there[i].then_some(&parameters[i]));
                all.push(task.case(format!("{}/{what}/{given}", name(t)), &attrs, x, [s, b]));
            }
        }
    }
}

fn channels(random: &mut Random, t: DType, all: &mut Vec<Case>) {
    let many: &[(&[usize], usize)] = &[
        (&[2, 6, 7], 1),
        (&[2, 6, 5], 2),
        (&[2, 6, 3], 6),
        (&[2, 3, 4, 5], 3),
        (&[3, 4], 2),
        (&[1, 4, 1], 4),
        (&[1, 2, 300, 3], 1),
        (&[2, 0, 3], 2),
        (&[0, 4, 5], 2),
        (&[2, 4, 0], 2),
    ];
    let few: &[(&[usize], usize)] = &[(&[2, 6, 7], 3), (&[2, 3, 2, 5], 3)];
    let mut inputs: Vec<(String, Tensor, usize, f32)> = Vec::new();
    for (dims, groups) in if t == DType::F32 { many } else { few } {
        inputs.push((format!("{dims:?}"), random.floats(t, dims), *groups, 1e-5));
    }
    let special = special_rows(t);
    for epsilon in [1e-5, 0.0] {
        let x = Tensor::new(t, &[2, 4, 5], special.bytes.clone());
        inputs.push((format!("special, epsilon {epsilon}"), x, 2, epsilon));
    }
    for (what, x, groups, epsilon) in &inputs {
        let channels = x.dims[1];
        let parameters = [random.floats(t, &[channels]), random.floats(t, &[channels])];
        for (given, there) in GIVEN {
            let [s, b] = [0, 1].map(|i| there[i].then_some(&parameters[i]));
            let what = format!("{}/{what}/{given}", name(t));
            let channel = |at: &[usize]| at[1];
            let own = |at: &[usize]| at[0] * channels + at[1];
            let task = Task { op: &INSTANCE_NORM, epsilon: *epsilon, group: &own, parameter: &channel };
            all.push(task.case(what.clone(), &ChannelNorm { epsilon: *epsilon, reserved: 0 }, x, [s, b]));
            let shared = |at: &[usize]| at[0] * groups + at[1] / (channels / groups);
            let task = Task { op: &GROUP_NORM, group: &shared, ..task };
            let attrs = GroupNorm { groups: *groups as u32, epsilon: *epsilon };
            all.push(task.case(format!("{what}, groups {groups}"), &attrs, x, [s, b]));
        }
    }
}

fn batches(random: &mut Random, t: DType, all: &mut Vec<Case>) {
    let many: &[&[usize]] = &[&[2, 3, 4, 5], &[4, 3], &[1, 5, 70], &[0, 3, 2], &[2, 0, 2], &[2, 3, 0]];
    let few: &[&[usize]] = &[&[2, 3, 2, 5], &[4, 3]];
    let mut inputs: Vec<(String, Tensor, Tensor, f32)> = Vec::new();
    for dims in if t == DType::F32 { many } else { few } {
        let variance: Vec<f64> =
            random.floats(t, &[dims[1]]).numbers().iter().map(|v| v * v + 0.01).collect();
        let variance = Tensor::float(t, &[dims[1]], &variance);
        inputs.push((format!("{dims:?}"), random.floats(t, dims), variance, 1e-5));
    }
    // Among them a variance that is 0, and one below 0.
    let special = special_rows(t);
    let x = Tensor::new(t, &[2, 4, 5], special.bytes.clone());
    for epsilon in [1e-3, 0.0] {
        let variance = Tensor::float(t, &[4], &[1.5, 0.0, -1.0, f64::INFINITY]);
        inputs.push((format!("special, epsilon {epsilon}"), x.clone(), variance, epsilon));
    }
    for (what, x, variance, epsilon) in &inputs {
        let parameters = [0; 3].map(|_| random.floats(t, &[x.dims[1]]));
        let [s, b, m] = &parameters;
        let [scale, bias, mean, v] = [s, b, m, variance].map(Tensor::numbers);
        let of = |(i, x0): (usize, f64)| {
            let c = position(&x.dims, i)[1];
            let factor = scale[c] / (v[c] + f64::from(*epsilon)).sqrt();
            let d = x0 - mean[c];
            let value = fit(t, d * factor) + bias[c];
            Estimate { value, error: 16.0 * (d * factor).abs() + value.abs() }
        };
        let y: Vec<Estimate> = x.numbers().into_iter().enumerate().map(of).collect();
        let (y, tolerance) = rounded(t, &x.dims, &y);
        let attrs = ChannelNorm { epsilon: *epsilon, reserved: 0 };
        let case = Case::new(&BATCH_NORM, format!("{}/{what}", name(t)), &attrs).input(x);
        let case = case.input(s).input(b).input(m).input(variance).output(y);
        all.push(case.within(tolerance).with_in_place(&BATCH_NORM));
    }
}
