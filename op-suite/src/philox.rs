//! Random numbers by counting. The generator is written out here again, round by round, and checked by the known answers of
//! its authors.

use crate::random::Random;
use crate::{Case, Tensor, Tolerance, name};
use serinette_core::DType;
use serinette_core::op::philox::{BERNOULLI, Distribution, MULTINOMIAL, RANDOM_NORMAL, RANDOM_UNIFORM, Seed};

const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

/// Seeds, states and dimensions.
const RUNS: &[(u64, [u32; 4], &[usize])] = &[
    (0, [0; 4], &[37]),
    (0x1234_5678_9abc_def0, [1, 0, 0, 0], &[3, 5]),
    (u64::MAX, [u32::MAX, u32::MAX, 7, 0x8000_0000], &[2, 3, 7]),
    (1 << 32, [0, 1, 1, 1], &[1]),
    (7, [2, 0, 0, 0], &[]),
    (7, [2, 0, 0, 0], &[0, 3]),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random::new(52);
    let mut all = Vec::new();
    for dtype in FLOATS {
        for (i, (seed, state, dims)) in RUNS.iter().enumerate() {
            for (offset, scale) in [(0.0, 1.0), (-1.5, 0.25), (3.0, 0.0), (0.5, -2.0)] {
                if i == 0 || scale == 0.25 {
                    let attrs = Distribution { seed: *seed, offset, scale };
                    all.push(uniform(dtype, &attrs, *state, dims));
                    all.push(normal(dtype, &attrs, *state, dims));
                }
            }
            let p = random.floats(dtype, dims);
            all.push(bernoulli(*seed, *state, &p));
            for samples in [0, 1, 9] {
                let x = random.floats(dtype, &[2, 11]);
                all.push(multinomial(&format!("{i}/"), *seed, *state, &x, samples));
            }
        }
        let special = [0.0, -0.0, 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2.0, -1.0, 0.5];
        all.push(bernoulli(5, [0; 4], &Tensor::float(dtype, &[9], &special)));
        let (inf, no) = (f64::INFINITY, f64::NEG_INFINITY);
        let rows = [
            [no, 1.0, no, 0.5],
            [no, no, no, no],
            [f64::NAN, 0.5, f64::NAN, no],
            [1.0, inf, 2.0, inf],
            [f64::NAN; 4],
            [9.0, no, inf, f64::NAN],
            [80.0, -80.0, 81.0, -81.0],
        ];
        let x = Tensor::float(dtype, &[7, 4], rows.as_flattened());
        all.push(multinomial("special/", 3, [9, 0, 0, 0], &x, 13));
        all.push(multinomial("no classes/", 3, [9, 0, 0, 0], &Tensor::float(dtype, &[2, 0], &[]), 3));
    }
    all
}

/// The first words of a stream.
fn words(seed: u64, state: [u32; 4], count: usize) -> Vec<u64> {
    let split = |p: u128| ((p >> 32) as u64, (p % (1 << 32)) as u64);
    let mut all = Vec::new();
    for block in 0..count.div_ceil(4) as u64 {
        let mut key = [(seed % (1 << 32)) ^ u64::from(state[2]), (seed >> 32) ^ u64::from(state[3])];
        let mut r = [block % (1 << 32), block >> 32, state[0].into(), state[1].into()];
        for _ in 0..10 {
            let (high, low) = split(u128::from(r[0]) * 0xd251_1f53);
            let (high2, low2) = split(u128::from(r[2]) * 0xcd9e_8d57);
            r = [high2 ^ r[1] ^ key[0], low2, high ^ r[3] ^ key[1], low];
            key = [(key[0] + 0x9e37_79b9) % (1 << 32), (key[1] + 0xbb67_ae85) % (1 << 32)];
        }
        all.extend(r);
    }
    all.truncate(count);
    all
}

fn state_tensor(state: [u32; 4]) -> Tensor {
    Tensor::new(DType::U32, &[4], state.iter().flat_map(|w| w.to_le_bytes()).collect())
}

/// Rounds once to the type of the arithmetic.
fn wide(dtype: DType, x: f64) -> f64 {
    if dtype == DType::F64 { x } else { f64::from(x as f32) }
}

/// Half the distance between neighbours, relative to the number; and the least distance.
fn unit(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F16 => (2f64.powi(-11), 2f64.powi(-24)),
        DType::BF16 => (2f64.powi(-8), 0.0),
        DType::F64 => (2f64.powi(-53), 0.0),
        _ => (2f64.powi(-24), 0.0),
    }
}

fn what(dtype: DType, attrs: &Distribution, state: [u32; 4], dims: &[usize]) -> String {
    let Distribution { seed, offset, scale } = attrs;
    format!("{}/{dims:?}, seed {seed}, state {state:?}, {offset} and {scale}", name(dtype))
}

/// The words of element `i` as a fraction of so many bits.
fn fraction(dtype: DType, list: &[u64], i: usize, bits: u32) -> f64 {
    if dtype == DType::F64 {
        return ((list[2 * i] + (list[2 * i + 1] << 32)) >> 11) as f64 * 2f64.powi(-53);
    }
    (list[i] >> (32 - bits)) as f64 * 2f64.powi(-(bits as i32))
}

fn uniform(dtype: DType, attrs: &Distribution, state: [u32; 4], dims: &[usize]) -> Case {
    let n: usize = dims.iter().product();
    let list = words(attrs.seed, state, 2 * n);
    let bits = match dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 24,
    };
    let (offset, scale) = (f64::from(attrs.offset), f64::from(attrs.scale));
    let (mut y, mut bounds) = (Vec::new(), Vec::new());
    for i in 0..n {
        let product = wide(dtype, fraction(dtype, &list, i, bits) * scale);
        y.push(offset + product);
        // The rounding of the product may be missing; then that of the sum and of the expected value.
        let arithmetic = if dtype == DType::F64 { 2f64.powi(-52) } else { 2f64.powi(-23) };
        let (relative, least) = unit(dtype);
        bounds.push(
            arithmetic * (product.abs() + (offset + product).abs())
                + 2.0 * relative * (offset + product).abs()
                + least,
        );
    }
    let y = Tensor::float(dtype, dims, &y);
    let case = Case::new(&RANDOM_UNIFORM, what(dtype, attrs, state, dims), attrs).input(&state_tensor(state));
    case.output(y).within(Tolerance::Bounds(bounds))
}

fn normal(dtype: DType, attrs: &Distribution, state: [u32; 4], dims: &[usize]) -> Case {
    let n: usize = dims.iter().product();
    let list = words(attrs.seed, state, 2 * n + 4);
    let (offset, scale) = (f64::from(attrs.offset), f64::from(attrs.scale));
    let (mut y, mut bounds) = (Vec::new(), Vec::new());
    for i in 0..n {
        let (first, second) = (i / 2 * 2, i / 2 * 2 + 1);
        let u = match dtype {
            DType::F64 => {
                (((list[2 * first] + (list[2 * first + 1] << 32)) >> 11) as f64 + 1.0) * 2f64.powi(-53)
            }
            _ => wide(dtype, wide(dtype, list[first] as f64) + 1.0) * 2f64.powi(-32),
        };
        let v = fraction(dtype, &list, second, 24);
        let r = (-2.0 * u.ln()).sqrt();
        let t = std::f64::consts::TAU * v;
        let z = r * if i % 2 == 0 { t.cos() } else { t.sin() };
        y.push(offset + z * scale);
        // The angle is off by the roundings of 2π and of the product, 2^-21; sine and cosine of a device by 2^-11 as Vulkan
        // allows; the logarithm by 2^-21 near 1 and three units elsewhere, so the radius by 2^-10 where it is least.
        let (relative, least) = unit(dtype);
        let device = if dtype == DType::F64 { 2f64.powi(-49) } else { 2f64.powi(-10) };
        let near = if dtype == DType::F64 { 2f64.powi(-26) } else { 2f64.powi(-10) };
        let radius = if r < 0.01 { near } else { device };
        bounds.push(
            scale.abs() * (r * device + radius)
                + 2.0 * relative * (offset + z * scale).abs()
                + least
                + unit(DType::F32).0.min(relative) * 2.0 * offset.abs(),
        );
    }
    let y = Tensor::float(dtype, dims, &y);
    let case = Case::new(&RANDOM_NORMAL, what(dtype, attrs, state, dims), attrs).input(&state_tensor(state));
    case.output(y).within(Tolerance::Bounds(bounds))
}

fn bernoulli(seed: u64, state: [u32; 4], p: &Tensor) -> Case {
    let list = words(seed, state, p.elements());
    let y: Vec<bool> =
        p.numbers().iter().enumerate().map(|(i, p)| fraction(DType::F32, &list, i, 24) < *p).collect();
    let what = format!("{}/{:?}, seed {seed}, state {state:?}", name(p.dtype), p.dims);
    let case = Case::new(&BERNOULLI, what, &Seed { seed }).input(p).input(&state_tensor(state));
    case.output(Tensor::bool(&p.dims, &y))
}

fn multinomial(kind: &str, seed: u64, state: [u32; 4], x: &Tensor, samples: usize) -> Case {
    let (batch, classes) = (x.dims[0], x.dims[1]);
    let list = words(seed, state, batch * samples);
    let (mut y, numbers) = (Vec::new(), x.numbers());
    for b in 0..batch {
        let row = &numbers[b * classes..(b + 1) * classes];
        let greatest = row.iter().copied().filter(|x| !x.is_nan()).fold(f64::NEG_INFINITY, f64::max);
        let weigh = |x: f64| match greatest {
            _ if x.is_nan() || x == f64::NEG_INFINITY => 0.0,
            f64::INFINITY => f64::from(u8::from(x == f64::INFINITY)),
            g => (x - g).exp(),
        };
        let weights: Vec<f64> = row.iter().map(|x| weigh(*x)).collect();
        let total: f64 = weights.iter().sum();
        for s in 0..samples {
            let wanted = fraction(DType::F32, &list, b * samples + s, 24) * total;
            let sums = (0..classes).map(|k| weights[..=k].iter().sum::<f64>());
            let near = sums.clone().any(|sum| (sum - wanted).abs() < 1e-5 * total && wanted > 0.0);
            assert!(!near || total == 0.0, "a draw that f32 may decide otherwise: choose another seed");
            y.push(sums.into_iter().position(|sum| sum > wanted).unwrap_or(0) as i32);
        }
    }
    let what =
        format!("{}/{kind}{:?}, {samples} samples, seed {seed}, state {state:?}", name(x.dtype), x.dims);
    let case = Case::new(&MULTINOMIAL, what, &Seed { seed }).input(x).input(&state_tensor(state));
    case.output(Tensor::i32(&[batch, samples], &y)).within(Tolerance::Bits)
}

#[cfg(test)]
mod tests {
    use super::words;

    /// A known answer of the Random123 distribution. (The op table has the others.)
    #[test]
    fn known_answers() {
        assert_eq!(words(0, [0; 4], 4), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    }
}
