//! Arithmetic that must be exact, on many values: requantisation, quantisation, and products of small integers in
//! floating point, whose sums have no rounding, in sizes that reach every tile.

use crate::harness::Placement;
use crate::suite::one;
use serinette_core::DType;
use serinette_core::op::conv::{CONV2D, Conv2d};
use serinette_core::op::matmul::{MATMUL, MatMul, QMATMUL, QMatMul, Requantize};
use serinette_core::op::quantize::{QUANTIZE, Quantization};
use serinette_core::op::softmax::{Axis, SOFTMAX};
use serinette_core::op::{Attributes, OpDescriptor};
use serinette_dispatch::Shell;
use serinette_op_suite::{Case, Tensor, Tolerance};

/// A linear congruential generator; its high bits are good enough here.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }
    /// A whole number of small size.
    fn small(&mut self) -> f32 {
        (self.bits() % 7) as f32 - 3.0
    }
    /// A number with any number of significant bits.
    fn any(&mut self) -> i32 {
        let by = self.bits() % 32;
        self.bits() as i32 >> by
    }
}

fn case(op: &OpDescriptor, what: &str, attrs: &impl Attributes, inputs: Vec<Tensor>, output: Tensor) -> Case {
    Case {
        name: format!("{}/stress/{what}", op.name),
        op: (op.code, op.version),
        attrs: bytemuck::bytes_of(attrs).to_vec(),
        inputs: inputs.into_iter().map(Some).collect(),
        outputs: vec![output],
        tolerance: Tolerance::Exact,
        expect_fault: false,
        exprs: Vec::new(),
        in_place: Vec::new(),
    }
}

/// A product over an axis of no elements leaves the bias as the accumulator of each column.
fn requantisation() -> Case {
    let mut r = Random(1);
    let n = 200_003;
    let edges =
        [0, 1, -1, 2, 3, i32::MAX, i32::MIN, i32::MIN + 1, 1 << 30, -(1 << 30), 0x8000, -0x8000, 0xffff];
    let pick = |i: usize, stride: usize, r: &mut Random| match i {
        i if i < 13 * 13 * 70 => edges[i / stride % 13],
        _ => r.any(),
    };
    let acc: Vec<i32> = (0..n).map(|i| pick(i, 1, &mut r)).collect();
    let multiplier: Vec<i32> = (0..n).map(|i| pick(i, 13, &mut r)).collect();
    // All shifts around the clamp with all edges, then random ones with the extremes among them.
    let shift: Vec<i32> = (0..n)
        .map(|i| match i {
            i if i < 13 * 13 * 70 => (i / 169) as i32 - 35,
            i if i % 64 == 0 => [i32::MIN, i32::MAX][i / 64 % 2],
            _ => (r.bits() % 70) as i32 - 35,
        })
        .collect();
    let q = Requantize { x_zero: 5, y_zero: -7, low: -120, high: 119, ..Default::default() };
    let want: Vec<i8> = (0..n).map(|i| q.apply(acc[i], multiplier[i], shift[i])).collect();
    let inputs = vec![
        Tensor::i8(&[1, 0], &[]),
        Tensor::i8(&[0, n], &[]),
        Tensor::i32(&[n], &acc),
        Tensor::i32(&[n], &multiplier),
        Tensor::i32(&[n], &shift),
    ];
    let attrs = QMatMul { requantize: q, ..Default::default() };
    case(&QMATMUL, "requantisation", &attrs, inputs, Tensor::i8(&[1, n], &want))
}

/// Quotients of any bit patterns, and of neighbours of half-integers.
fn quantisation() -> Case {
    let mut r = Random(2);
    let n = 200_001;
    let (mut x, mut scale, mut zero) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..n {
        let s = match i % 4 {
            0 => f32::from_bits(r.bits()),
            _ => f32::from_bits((r.bits() & 0x807f_ffff) | (100 + r.bits() % 50) << 23),
        };
        let near = (s * ((r.bits() % 600) as f32 / 2.0 - 150.0)).to_bits();
        x.push(match i % 3 {
            0 => f32::from_bits(r.bits()),
            _ => f32::from_bits(near.wrapping_add(r.bits() % 5).wrapping_sub(2)),
        });
        scale.push(s);
        zero.push(r.bits() as i8);
    }
    let want: Vec<i8> = (0..n)
        .map(|i| {
            let q = x[i] / scale[i];
            if q.is_nan() {
                zero[i]
            } else {
                (q.round_ties_even() + f32::from(zero[i])).clamp(-128.0, 127.0) as i8
            }
        })
        .collect();
    let inputs = vec![Tensor::f32(&[n], &x), Tensor::f32(&[n], &scale), Tensor::i8(&[n], &zero)];
    let attrs = Quantization { axis: 0, reserved: 0 };
    case(&QUANTIZE, "any bits", &attrs, inputs, Tensor::i8(&[n], &want))
}

/// A product of whole numbers so small that every sum is exact in the element type.
fn product(dtype: DType, [batch, m, n, k]: [usize; 4], transposed: bool, shared: bool) -> Case {
    let mut r = Random((m * n + k) as u64);
    let a: Vec<f32> = (0..batch * m * k).map(|_| r.small()).collect();
    let b: Vec<f32> = (0..if shared { k * n } else { batch * k * n }).map(|_| r.small()).collect();
    let bias: Vec<f32> = (0..n).map(|_| r.small()).collect();
    let mut y = Vec::with_capacity(batch * m * n);
    for g in 0..batch {
        let b = if shared { &b[..] } else { &b[g * k * n..] };
        for i in 0..m {
            for (j, add) in bias.iter().enumerate() {
                let at = |t: usize| if transposed { b[j * k + t] } else { b[t * n + j] };
                let sum = (0..k).map(|t| f64::from(a[(g * m + i) * k + t] * at(t))).sum::<f64>();
                y.push((sum + f64::from(*add)).max(0.0));
            }
        }
    }
    let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
    let mut b_dims = if transposed { vec![n, k] } else { vec![k, n] };
    if !shared {
        b_dims.insert(0, batch);
    }
    let inputs = vec![
        Tensor::float(dtype, &[batch, m, k], &wide(&a)),
        Tensor::float(dtype, &b_dims, &wide(&b)),
        Tensor::float(dtype, &[n], &wide(&bias)),
    ];
    let attrs = MatMul { activation: 1, transpose_b: u32::from(transposed) };
    let what = format!("{dtype} {batch}x{m}x{n}x{k} {transposed} {shared}");
    case(&MATMUL, &what, &attrs, inputs, Tensor::float(dtype, &[batch, m, n], &y))
}

/// A convolution of whole numbers with more positions than one row of workgroups holds.
fn convolution() -> Case {
    let mut r = Random(9);
    let (c, h, w, o) = (3usize, 67usize, 61usize, 8usize);
    let x: Vec<f32> = (0..c * h * w).map(|_| r.small()).collect();
    let k: Vec<f32> = (0..o * c * 9).map(|_| r.small()).collect();
    let mut y = Vec::new();
    for oc in 0..o {
        for i in 0..h as isize {
            for j in 0..w as isize {
                let mut sum = 0.0;
                for ch in 0..c {
                    for (a, b) in (0..9isize).map(|t| (t / 3 - 1, t % 3 - 1)) {
                        let (p, q) = (i + a, j + b);
                        if (0..h as isize).contains(&p) && (0..w as isize).contains(&q) {
                            let tap = ((a + 1) * 3 + b + 1) as usize;
                            sum += x[(ch * h + p as usize) * w + q as usize] * k[(oc * c + ch) * 9 + tap];
                        }
                    }
                }
                y.push(sum);
            }
        }
    }
    let mut attrs: Conv2d = bytemuck::Zeroable::zeroed();
    attrs.geometry.strides = [1; 2];
    attrs.geometry.dilations = [1; 2];
    attrs.geometry.pads = [1; 4];
    attrs.groups = 1;
    let inputs = vec![Tensor::f32(&[1, c, h, w], &x), Tensor::f32(&[o, c, 3, 3], &k)];
    case(&CONV2D, "whole numbers", &attrs, inputs, Tensor::f32(&[1, o, h, w], &y))
}

/// A row longer than a workgroup, whose sum of 5,000 equal terms must be seen by every invocation.
fn long_softmax() -> Case {
    let n = 5_003;
    let mut x = vec![-1000.0f32; n];
    let top = [0, 63, 64, 2_500, n - 1];
    top.iter().for_each(|i| x[*i] = 3.5);
    // Five equal largest terms and others that vanish: a fifth, within the error of one division (2.5 ULP).
    let want: Vec<f64> = (0..n).map(|i| if top.contains(&i) { 0.2 } else { 0.0 }).collect();
    let attrs = Axis { axis: 1, reserved: 0 };
    let y = Tensor::float(DType::F32, &[1, n], &want);
    let bounds = want.iter().map(|w| w * 4.0 * f64::from(f32::EPSILON)).collect();
    Case {
        tolerance: Tolerance::Bounds(bounds),
        ..case(&SOFTMAX, "long row", &attrs, vec![Tensor::f32(&[1, n], &x)], y)
    }
}

/// Runs everything here.
pub fn stress<S: Shell>(shell: &S) {
    let mut cases = vec![requantisation(), quantisation(), convolution(), long_softmax()];
    for dtype in [DType::F32, DType::F16] {
        for transposed in [false, true] {
            // The large tile with ragged edges, the small one, few rows, and rows of an odd number of elements.
            for size in
                [[1, 516, 522, 37], [3, 45, 70, 19], [2, 3, 74, 301], [1, 1, 1002, 33], [2, 9, 35, 20]]
            {
                cases.push(product(dtype, size, transposed, true));
                cases.push(product(dtype, size, transposed, false));
            }
        }
    }
    let mut failures = Vec::new();
    for case in &cases {
        for placement in [Placement::Arena, Placement::Weights] {
            match one(shell, shell.caps(), case, placement) {
                Ok(true) => {}
                Ok(false) => failures.push(format!("{} {placement:?}: no kernel", case.name)),
                Err(e) => failures.push(format!("{placement:?}: {e}")),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
