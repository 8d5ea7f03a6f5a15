//! Exporters' spellings of activations become the ops that they mean.
//!
//! | spelling | op |
//! |---|---|
//! | `x · sigmoid(x)` | `Swish` with α = 1 |
//! | `swish(a) · b` with α = 1 | `SiluMul` |
//! | `x · (1 + erf(x / √2)) · ½`, the factors in any order | `Gelu` |
//! | `x · (1 + tanh(√(2/π) · (x + 0.044715·x³))) · ½` | `GeluTanh` |
//! | `x · clip(x + 3, 0, 6) / 6`, the sixth anywhere | `HardSwish` |
//! | `clip(x + 3, 0, 6) / 6` | `HardSigmoid` with α = 1/6, β = ½ |
//!
//! The nodes in between stay for whoever else reads them; [`super::clean`] drops them where nobody does.

use super::{Nodes, each_block, op_node};
use crate::error::Error;
use crate::graph::{Block, Graph, Node, Value};
use serinette_core::op::binary::{self, Binary};
use serinette_core::op::unary::{self, Parameters};
use serinette_core::op::{NoAttributes, OpDescriptor};

/// Rewrites every block.
pub fn run(graph: &mut Graph) -> Result<(), Error> {
    each_block(graph, &mut |graph, block, _| {
        spell(graph, block);
        Ok(())
    })
}

fn spell(graph: &Graph, block: &mut Block) {
    let mut nodes = Nodes::take(block);
    for i in 0..nodes.len() {
        let reader = Reader { graph, nodes: &nodes };
        let Some(node) = nodes.get(i) else { continue };
        let made = if plain(node, &binary::MUL) {
            let known = reader.gelu(node).or_else(|| reader.swish(node)).or_else(|| reader.gated(node));
            known.or_else(|| reader.hard_swish(node)).or_else(|| reader.hard_sigmoid(node))
        } else {
            reader.hard_swish(node).or_else(|| reader.hard_sigmoid(node))
        };
        if let Some(made) = made {
            nodes.set(i, made);
        }
    }
    nodes.put_back(block);
}

/// Whether a node is this op, without an activation.
fn plain(node: &Node, op: &'static OpDescriptor) -> bool {
    node.attrs::<Binary>(op).is_some_and(|a| a.activation == 0)
}

struct Reader<'a> {
    graph: &'a Graph,
    nodes: &'a Nodes,
}

impl Reader<'_> {
    /// The node that computes `v`, if it is this op.
    fn made_by(&self, v: Value, op: &'static OpDescriptor) -> Option<&Node> {
        self.nodes.producer(v).map(|(_, n)| n).filter(|n| n.is(op))
    }

    /// The operands of a node both ways round.
    fn pairs(node: &Node) -> impl Iterator<Item = (Value, Value)> + use<> {
        let (a, b) = (node.input(0), node.input(1));
        [a.zip(b), b.zip(a)].into_iter().flatten()
    }

    /// A constant of one element, as f64.
    fn scalar(&self, v: Value) -> Option<f64> {
        let t = self.graph.tensor(v);
        let data = t.source.immutable_data()?;
        if data.len() != t.dtype.size() {
            return None;
        }
        use serinette_core::DType;
        match t.dtype {
            DType::F32 => data.numbers::<f32>().next().map(f64::from),
            DType::F64 => data.numbers::<f64>().next(),
            DType::F16 => data.numbers::<u16>().next().map(|b| half::f16::from_bits(b).to_f64()),
            DType::BF16 => data.numbers::<u16>().next().map(|b| half::bf16::from_bits(b).to_f64()),
            _ => None,
        }
    }

    /// Whether `v` is the number `wanted`, to the digits that a 16-bit constant keeps.
    fn is(&self, v: Value, wanted: f64) -> bool {
        let digits = if self.graph.tensor(v).dtype.size() == 2 { 4e-3 } else { 1e-6 };
        self.scalar(v).is_some_and(|x| (x / wanted - 1.0).abs() < digits)
    }

    /// `v` is `x` times the number `wanted`, or divided by its inverse: `x`.
    fn scaled(&self, v: Value, wanted: f64) -> Option<Value> {
        if let Some(n) = self.made_by(v, &binary::MUL).filter(|n| plain(n, &binary::MUL)) {
            return Self::pairs(n).find(|(_, c)| self.is(*c, wanted)).map(|(x, _)| x);
        }
        let n = self.made_by(v, &binary::DIV).filter(|n| plain(n, &binary::DIV))?;
        n.input(0).filter(|_| n.input(1).is_some_and(|c| self.is(c, 1.0 / wanted)))
    }

    /// `v` is the number `wanted` plus something: that.
    fn plus(&self, v: Value, wanted: f64) -> Option<Value> {
        let n = self.made_by(v, &binary::ADD).filter(|n| plain(n, &binary::ADD))?;
        Self::pairs(n).find(|(_, c)| self.is(*c, wanted)).map(|(x, _)| x)
    }

    fn unary(&self, v: Value, op: &'static OpDescriptor) -> Option<Value> {
        self.made_by(v, op)?.input(0)
    }

    /// The result has the shape of `x`: nothing was broadcast.
    fn same_shape(&self, node: &Node, x: Value) -> bool {
        let y = node.outputs.first().map(|y| self.graph.tensor(*y));
        y.is_some_and(|y| (&y.dims, y.dtype) == (&self.graph.tensor(x).dims, self.graph.tensor(x).dtype))
    }

    /// `v` is `clip(x + 3, 0, 6)`: `x`.
    fn clipped(&self, v: Value) -> Option<Value> {
        let clip = self.made_by(v, &unary::CLIP)?;
        let range = clip.attrs::<Parameters>(&unary::CLIP)?;
        let x = self.plus(clip.input(0)?, 3.0)?;
        (range == Parameters { alpha: 0.0, beta: 6.0 }).then_some(x)
    }

    /// A node that is something divided by six, or multiplied by a sixth: that.
    fn sixth(&self, node: &Node) -> Option<Value> {
        if plain(node, &binary::DIV) {
            return node.input(0).filter(|_| node.input(1).is_some_and(|c| self.is(c, 6.0)));
        }
        let product = Some(node).filter(|n| plain(n, &binary::MUL))?;
        Self::pairs(product).find(|(_, c)| self.is(*c, 1.0 / 6.0)).map(|(v, _)| v)
    }

    fn hard_sigmoid(&self, node: &Node) -> Option<Node> {
        let x = self.clipped(self.sixth(node)?).filter(|x| self.same_shape(node, *x))?;
        let attrs = Parameters { alpha: 1.0 / 6.0, beta: 0.5 };
        Some(op_node(&node.name, &unary::HARD_SIGMOID, attrs, vec![Some(x)], *node.outputs.first()?))
    }

    fn hard_swish(&self, node: &Node) -> Option<Node> {
        let product = |n: &Node| {
            let mul = Some(n).filter(|n| plain(n, &binary::MUL))?;
            Self::pairs(mul).find(|(x, c)| self.clipped(*c) == Some(*x)).map(|(x, _)| x)
        };
        // (x · clip) / 6, or x · hard_sigmoid(x), which was found before.
        let whole = self.sixth(node).and_then(|v| product(self.nodes.producer(v)?.1));
        let gate = Parameters { alpha: 1.0 / 6.0, beta: 0.5 };
        let gated = || {
            let mul = Some(node).filter(|n| plain(n, &binary::MUL))?;
            Self::pairs(mul).find(|(x, s)| {
                self.made_by(*s, &unary::HARD_SIGMOID).is_some_and(|n| {
                    n.input(0) == Some(*x) && n.attrs::<Parameters>(&unary::HARD_SIGMOID) == Some(gate)
                })
            })
        };
        let x = whole.or_else(|| gated().map(|(x, _)| x)).filter(|x| self.same_shape(node, *x))?;
        Some(op_node(&node.name, &unary::HARD_SWISH, NoAttributes {}, vec![Some(x)], *node.outputs.first()?))
    }

    fn swish(&self, mul: &Node) -> Option<Node> {
        let (x, _) = Self::pairs(mul).find(|(x, s)| self.unary(*s, &unary::SIGMOID) == Some(*x))?;
        let attrs = Parameters { alpha: 1.0, beta: 0.0 };
        Some(op_node(&mul.name, &unary::SWISH, attrs, vec![Some(x)], *mul.outputs.first()?))
    }

    fn gated(&self, mul: &Node) -> Option<Node> {
        let one = Parameters { alpha: 1.0, beta: 0.0 };
        let (a, b) = Self::pairs(mul).find_map(|(s, b)| {
            let swish = self.nodes.producer(s)?.1;
            Some((swish.input(0)?, b)).filter(|_| swish.attrs::<Parameters>(&unary::SWISH) == Some(one))
        })?;
        Some(op_node(
            &mul.name,
            &binary::SILU_MUL,
            NoAttributes {},
            vec![Some(a), Some(b)],
            *mul.outputs.first()?,
        ))
    }

    /// The factors of a product of products, at most four.
    fn factors(&self, mul: &Node) -> Vec<Value> {
        let mut factors: Vec<Value> = mul.inputs.iter().flatten().copied().collect();
        for _ in 0..2 {
            let split = factors
                .iter()
                .position(|f| self.made_by(*f, &binary::MUL).is_some_and(|n| plain(n, &binary::MUL)));
            let Some(i) = split else { break };
            let Some(n) = self.made_by(factors[i], &binary::MUL) else { break };
            if factors.len() >= 4 {
                break;
            }
            factors.splice(i..=i, n.inputs.iter().flatten().copied());
        }
        factors
    }

    fn gelu(&self, mul: &Node) -> Option<Node> {
        let mut factors = self.factors(mul);
        let half = factors.iter().position(|f| self.is(*f, 0.5));
        let mut halved = half.map(|i| factors.remove(i)).is_some();
        if !halved {
            // (x / 2) · …
            for f in &mut factors {
                if let Some(x) = self.scaled(*f, 0.5) {
                    (*f, halved) = (x, true);
                    break;
                }
            }
        }
        let [a, b] = factors.as_slice() else { return None };
        let (x, op) = [(*a, *b), (*b, *a)].into_iter().find_map(|(x, sum)| {
            let inside = self.plus(sum, 1.0)?;
            if let Some(z) = self.unary(inside, &unary::ERF) {
                return (self.scaled(z, std::f64::consts::FRAC_1_SQRT_2)? == x).then_some((x, &unary::GELU));
            }
            let z = self.unary(inside, &unary::TANH)?;
            let z = self.scaled(z, (2.0 / std::f64::consts::PI).sqrt())?;
            self.cubic(z, x).then_some((x, &unary::GELU_TANH))
        })?;
        (halved && self.same_shape(mul, x)).then(|| {
            mul.outputs.first().map(|y| op_node(&mul.name, op, NoAttributes {}, vec![Some(x)], *y))
        })?
    }

    /// Whether `v` is `x + 0.044715·x³`.
    fn cubic(&self, v: Value, x: Value) -> bool {
        let Some(add) = self.made_by(v, &binary::ADD).filter(|n| plain(n, &binary::ADD)) else {
            return false;
        };
        Self::pairs(add).any(|(a, term)| {
            a == x
                && self.scaled(term, 0.044715).is_some_and(|cube| {
                    self.made_by(cube, &binary::POW)
                        .is_some_and(|n| n.input(0) == Some(x) && n.input(1).is_some_and(|e| self.is(e, 3.0)))
                        || self.made_by(cube, &binary::MUL).is_some_and(|n| {
                            let mut all = self.factors(n);
                            all.retain(|f| *f != x);
                            all.is_empty() && self.factors(n).len() == 3
                        })
                })
        })
    }
}
