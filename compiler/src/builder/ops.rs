//! Ops by name.

use super::{GraphBuilder, Size};
use crate::error::Error;
use crate::graph::{Node, NodeKind, Value};
use serinette_core::op::argmax::{ARGMAX, ArgMax};
use serinette_core::op::binary::{ADD, Binary, MUL};
use serinette_core::op::cast::CAST;
use serinette_core::op::compare::{EQUAL, GREATER, LESS};
use serinette_core::op::conv::{CONV2D, Conv2d};
use serinette_core::op::gather::GATHER;
use serinette_core::op::matmul::{MATMUL, MatMul};
use serinette_core::op::movement::{CONCAT, COPY, SLICE, Slice, TRANSPOSE, Transpose};
use serinette_core::op::pool::{AVERAGE_POOL2D, MAX_POOL2D, Pool2d};
use serinette_core::op::quantize::{DEQUANTIZE, QUANTIZE, Quantization};
use serinette_core::op::size::{SIZE, Size as SizeAttrs};
use serinette_core::op::softmax::{Axis, SOFTMAX};
use serinette_core::op::{Activation, NoAttributes, unary};
use serinette_core::shape::{Dim, DimAlgebra};
use serinette_core::{DType, MAX_RANK};

/// Methods for functions of one tensor without attributes.
macro_rules! functions {
    ($($(#[$doc:meta])+ $name:ident = $op:ident;)+) => {
        impl GraphBuilder {$(
            $(#[$doc])+
            pub fn $name(&mut self, name: &str, x: Value) -> Result<Value, Error> {
                self.op(name, &unary::$op, NoAttributes {}, &[x])
            }
        )+}
    };
}

functions! {
    /// `max(x, 0)`, NaN stays.
    relu = RELU;
    /// `1 / (1 + e^−x)`, NaN stays.
    sigmoid = SIGMOID;
}

impl GraphBuilder {
    /// `a · b (+ bias)`: [`MATMUL`] with `b` stored as `[…, K, N]`.
    pub fn matmul(&mut self, name: &str, a: Value, b: Value, bias: Option<Value>) -> Result<Value, Error> {
        self.matmul_with(name, MatMul::default(), a, b, bias)
    }

    /// [`MATMUL`] with its attributes.
    pub fn matmul_with(
        &mut self,
        name: &str,
        attrs: MatMul,
        a: Value,
        b: Value,
        bias: Option<Value>,
    ) -> Result<Value, Error> {
        let mut inputs = vec![Some(a), Some(b)];
        inputs.extend(bias.map(Some));
        self.single(name, &MATMUL, attrs, &inputs, &[], None)
    }

    /// [`CONV2D`]: `x` `[N, C, H, W]`, `w` `[O, C/groups, KH, KW]`, `bias` `[O]`.
    pub fn conv2d(
        &mut self,
        name: &str,
        attrs: Conv2d,
        x: Value,
        w: Value,
        bias: Option<Value>,
    ) -> Result<Value, Error> {
        let mut inputs = vec![Some(x), Some(w)];
        inputs.extend(bias.map(Some));
        self.single(name, &CONV2D, attrs, &inputs, &[], None)
    }

    /// [`MAX_POOL2D`] over NCHW.
    pub fn max_pool2d(&mut self, name: &str, attrs: Pool2d, x: Value) -> Result<Value, Error> {
        self.op(name, &MAX_POOL2D, attrs, &[x])
    }

    /// [`AVERAGE_POOL2D`] over NCHW.
    pub fn average_pool2d(&mut self, name: &str, attrs: Pool2d, x: Value) -> Result<Value, Error> {
        self.op(name, &AVERAGE_POOL2D, attrs, &[x])
    }

    /// `a + b` with broadcasting.
    pub fn add(&mut self, name: &str, a: Value, b: Value) -> Result<Value, Error> {
        self.op(name, &ADD, Binary { activation: Activation::None as u32, reserved: 0 }, &[a, b])
    }

    /// `a × b` with broadcasting.
    pub fn mul(&mut self, name: &str, a: Value, b: Value) -> Result<Value, Error> {
        self.op(name, &MUL, Binary { activation: Activation::None as u32, reserved: 0 }, &[a, b])
    }

    /// [`SOFTMAX`] along `axis`.
    pub fn softmax(&mut self, name: &str, x: Value, axis: u32) -> Result<Value, Error> {
        self.op(name, &SOFTMAX, Axis { axis, reserved: 0 }, &[x])
    }

    /// The elements of `x` in the same order under other dimensions. Moves nothing where it can be a view.
    pub fn reshape(&mut self, name: &str, x: Value, dims: &[Size]) -> Result<Value, Error> {
        self.visible(name, x)?;
        let scope = self.scope(name)?;
        let dims = self.sizes(name, dims)?;
        let fail = |e| Error::shape(name, e);
        let product = |b: &mut Self, dims: &[Dim]| {
            let one = b.graph.dims.constant(1)?;
            dims.iter().try_fold(one, |n, d| b.graph.dims.mul(n, *d))
        };
        let t = self.graph.tensor(x).clone();
        let (have, want) = (product(self, &t.dims).map_err(fail)?, product(self, &dims).map_err(fail)?);
        self.graph.dims.require_equal("number of elements", have, want).map_err(fail)?;
        if t.dims == dims {
            return Ok(x);
        }
        self.check_bytes(name, t.dtype, &dims)?;
        let y = self.graph.computed(name, t.dtype, dims, scope);
        self.push_node(Node::new(name, NodeKind::Reshape, &[x], &[y]))?;
        Ok(y)
    }

    /// A copy of `x`.
    pub fn copy(&mut self, name: &str, x: Value) -> Result<Value, Error> {
        self.visible(name, x)?;
        let dims: Vec<Size> = self.graph.tensor(x).dims.iter().map(|d| Size::Expr(*d)).collect();
        self.single(name, &COPY, NoAttributes {}, &[Some(x)], &[], Some(&dims))
    }

    /// The axes of `x` in another order: output axis `i` is input axis `permutation[i]`.
    pub fn transpose(&mut self, name: &str, x: Value, permutation: &[usize]) -> Result<Value, Error> {
        self.visible(name, x)?;
        let rank = self.graph.tensor(x).dims.len();
        if permutation.len() != rank {
            return Err(Error::count(
                name,
                "entries of a permutation",
                rank as u64,
                permutation.len() as u64,
            ));
        }
        let mut attrs = Transpose::default();
        for (space, p) in attrs.permutation.iter_mut().zip(permutation) {
            *space = u8::try_from(*p).unwrap_or(u8::MAX);
        }
        self.op(name, &TRANSPOSE, attrs, &[x])
    }

    /// The inputs one after the other along `axis`.
    pub fn concat(&mut self, name: &str, inputs: &[Value], axis: u32) -> Result<Value, Error> {
        self.op(name, &CONCAT, Axis { axis, reserved: 0 }, inputs)
    }

    /// `counts` elements of `x` along each axis, from `starts`, `steps` apart.
    pub fn slice(
        &mut self,
        name: &str,
        x: Value,
        starts: &[u32],
        steps: &[u32],
        counts: &[Size],
    ) -> Result<Value, Error> {
        let mut attrs = Slice::default();
        if starts.len() != counts.len() || steps.len() != counts.len() || counts.len() > MAX_RANK {
            return Err(Error::count(name, "axes of a slice", counts.len() as u64, starts.len() as u64));
        }
        attrs.starts[..starts.len()].copy_from_slice(starts);
        attrs.steps[..steps.len()].copy_from_slice(steps);
        self.single(name, &SLICE, attrs, &[Some(x)], &[], Some(counts))
    }

    /// [`GATHER`]: entries of `data` along `axis` at i32 positions that depend on data.
    pub fn gather(&mut self, name: &str, data: Value, indices: Value, axis: u32) -> Result<Value, Error> {
        self.op(name, &GATHER, Axis { axis, reserved: 0 }, &[data, indices])
    }

    /// `x` in another element type.
    pub fn cast(&mut self, name: &str, x: Value, to: DType) -> Result<Value, Error> {
        self.single(name, &CAST, NoAttributes {}, &[Some(x)], &[to], None)
    }

    /// [`QUANTIZE`] to i8.
    pub fn quantize(
        &mut self,
        name: &str,
        attrs: Quantization,
        x: Value,
        scale: Value,
        zero: Option<Value>,
    ) -> Result<Value, Error> {
        let mut inputs = vec![Some(x), Some(scale)];
        inputs.extend(zero.map(Some));
        self.single(name, &QUANTIZE, attrs, &inputs, &[], None)
    }

    /// [`DEQUANTIZE`] to f32.
    pub fn dequantize(
        &mut self,
        name: &str,
        attrs: Quantization,
        x: Value,
        scale: Value,
        zero: Option<Value>,
    ) -> Result<Value, Error> {
        let mut inputs = vec![Some(x), Some(scale)];
        inputs.extend(zero.map(Some));
        self.single(name, &DEQUANTIZE, attrs, &inputs, &[], None)
    }

    /// [`ARGMAX`] along `axis`.
    pub fn argmax(&mut self, name: &str, x: Value, axis: u32, keep_axis: bool) -> Result<Value, Error> {
        self.op(name, &ARGMAX, ArgMax { axis, keep_axis: u32::from(keep_axis), ..ArgMax::default() }, &[x])
    }

    /// `a < b` with broadcasting.
    pub fn less(&mut self, name: &str, a: Value, b: Value) -> Result<Value, Error> {
        self.op(name, &LESS, NoAttributes {}, &[a, b])
    }

    /// `a > b` with broadcasting.
    pub fn greater(&mut self, name: &str, a: Value, b: Value) -> Result<Value, Error> {
        self.op(name, &GREATER, NoAttributes {}, &[a, b])
    }

    /// `a = b` with broadcasting.
    pub fn equal(&mut self, name: &str, a: Value, b: Value) -> Result<Value, Error> {
        self.op(name, &EQUAL, NoAttributes {}, &[a, b])
    }

    /// A size or loop counter as an i32 scalar.
    pub fn size_scalar(&mut self, name: &str, size: Dim) -> Result<Value, Error> {
        self.sizes(name, &[Size::Expr(size)])?;
        let mut attrs = SizeAttrs { count: 1, scalar: 1, ..SizeAttrs::default() };
        attrs.exprs[0] = u32::try_from(size.0).unwrap_or(u32::MAX);
        self.single(name, &SIZE, attrs, &[], &[], None)
    }
}
