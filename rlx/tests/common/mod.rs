//! What the tests share: targets, graphs, random numbers, references in 64 bits.

#![allow(dead_code)]

use rlx_driver::Device;
use rlx_ir::op::{Activation, BinaryOp};
use rlx_ir::{DType, Graph, Shape};
use serinette_rlx::{Target, register_as};

/// A slot of RLX for each target. `DirectX` and `OpenGl` have no backend of RLX's own in this build.
pub const TARGETS: [(Device, Target); 3] =
    [(Device::DirectX, Target::Host), (Device::Vulkan, Target::Vulkan), (Device::OpenGl, Target::Wgpu)];

/// Registers every target. A machine without a driver fails here: a software driver is enough.
pub fn devices() -> [(Device, Target); 3] {
    for (device, target) in TARGETS {
        register_as(device, target).unwrap_or_else(|e| panic!("{target:?}: {e}"));
    }
    TARGETS
}

/// Random numbers in −1..1, the same for a seed.
pub fn random(seed: u64, n: usize) -> Vec<f32> {
    let mut s = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        (s >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

pub fn f32s(dims: &[usize]) -> Shape {
    Shape::new(dims, DType::F32)
}

/// Sizes of a two-layer perceptron.
#[derive(Clone, Copy, Debug)]
pub struct Mlp {
    pub batch: usize,
    pub input: usize,
    pub hidden: usize,
    pub output: usize,
}

/// Its params.
#[derive(Clone, Debug)]
pub struct Weights {
    pub w1: Vec<f32>,
    pub b1: Vec<f32>,
    pub w2: Vec<f32>,
    pub b2: Vec<f32>,
}

impl Mlp {
    pub const fn new(batch: usize, input: usize, hidden: usize, output: usize) -> Mlp {
        Mlp { batch, input, hidden, output }
    }

    /// `relu(x · w1 + b1) · w2 + b2`.
    pub fn graph(self) -> Graph {
        let Mlp { batch, input, hidden, output } = self;
        let mut g = Graph::new("mlp");
        let x = g.input("x", f32s(&[batch, input]));
        let (w1, b1) = (g.param("w1", f32s(&[input, hidden])), g.param("b1", f32s(&[hidden])));
        let (w2, b2) = (g.param("w2", f32s(&[hidden, output])), g.param("b2", f32s(&[output])));
        let h = g.matmul(x, w1, f32s(&[batch, hidden]));
        let h = g.binary(BinaryOp::Add, h, b1, f32s(&[batch, hidden]));
        let h = g.activation(Activation::Relu, h, f32s(&[batch, hidden]));
        let y = g.matmul(h, w2, f32s(&[batch, output]));
        let y = g.binary(BinaryOp::Add, y, b2, f32s(&[batch, output]));
        g.set_outputs(vec![y]);
        g
    }

    pub fn weights(self, seed: u64) -> Weights {
        Weights {
            w1: random(seed, self.input * self.hidden),
            b1: random(seed + 1, self.hidden),
            w2: random(seed + 2, self.hidden * self.output),
            b2: random(seed + 3, self.output),
        }
    }

    pub fn x(self, seed: u64) -> Vec<f32> {
        random(seed, self.batch * self.input)
    }

    /// The result in 64 bits with the largest error that f32 arithmetic can make in each number: every product and
    /// sum of a dot product of length k rounds once in any order, so the error is below (k + 2) · 2⁻²⁴ times the
    /// sum of magnitudes, and the first layer's error passes through the second; doubled for the second-order
    /// terms.
    pub fn reference(self, x: &[f32], w: &Weights) -> Vec<(f64, f64)> {
        let layer = |x: &[(f64, f64)], w: &[f32], b: &[f32], relu: bool| {
            let (n, k) = (b.len(), w.len() / b.len());
            let mut out = Vec::new();
            for row in x.chunks(k) {
                for (j, bias) in b.iter().enumerate() {
                    let bias = f64::from(*bias);
                    let (mut sum, mut size) = (bias, bias.abs());
                    for (i, (v, magnitude)) in row.iter().enumerate() {
                        let w = f64::from(w[i * n + j]);
                        sum += v * w;
                        size += magnitude * w.abs();
                    }
                    out.push((if relu { sum.max(0.0) } else { sum }, size));
                }
            }
            out
        };
        let x: Vec<_> = x.iter().map(|v| (f64::from(*v), f64::from(v.abs()))).collect();
        let h = layer(&x, &w.w1, &w.b1, true);
        let unit = 2.0 * (self.input + self.hidden + 4) as f64 * 2f64.powi(-24);
        layer(&h, &w.w2, &w.b2, false).into_iter().map(|(y, size)| (y, unit * size)).collect()
    }

    pub fn check(self, what: &str, found: &[f32], x: &[f32], w: &Weights) {
        let expected = self.reference(x, w);
        assert_eq!(found.len(), expected.len(), "{what} {self:?}");
        for (i, (f, (e, tolerance))) in found.iter().zip(expected).enumerate() {
            let error = (f64::from(*f) - e).abs();
            assert!(error <= tolerance, "{what} {self:?} [{i}]: {f}, expected {e} ± {tolerance}");
        }
    }
}

impl Weights {
    pub fn set(&self, compiled: &mut rlx_runtime::CompiledGraph) {
        for (name, data) in self.named() {
            compiled.set_param(name, data);
        }
    }

    pub fn named(&self) -> [(&'static str, &[f32]); 4] {
        // Not the order of the graph.
        [("b2", &self.b2), ("w1", &self.w1), ("w2", &self.w2), ("b1", &self.b1)]
    }
}

pub fn bits(v: &[f32]) -> Vec<u32> {
    v.iter().map(|x| x.to_bits()).collect()
}
