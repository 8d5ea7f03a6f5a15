//! The backend as RLX sees it.

use crate::blob;
use crate::error::Error;
use crate::executable::Executable;
use crate::register::Target;
use crate::translate::Contents;
use rlx_driver::Device;
use rlx_ir::hir::{HirModule, LowerError};
use rlx_ir::lir::LirModule;
use rlx_ir::{Graph, GraphModule, OpKind};
use rlx_opt::pass::Pass;
use rlx_opt::rlx_compile::precision::AutoMixedPrecision;
use rlx_runtime::{Backend, CompileOptions, ExecutableGraph};
use serinette_compiler::Profile;
use std::collections::HashMap;

/// The kinds of op that can be taken. Of `Binary` only `Add` and `Mul`, of `Activation` only `Relu`, of `Slice` only
/// those that go forward; element types as the op table has them.
pub static SUPPORTED_OPS: &[OpKind] = &[
    OpKind::Input,
    OpKind::Param,
    OpKind::Constant,
    OpKind::Activation,
    OpKind::Binary,
    OpKind::Cast,
    OpKind::StopGradient,
    OpKind::MatMul,
    OpKind::FusedMatMulBiasAct,
    OpKind::Softmax,
    OpKind::Reshape,
    OpKind::Transpose,
    OpKind::Narrow,
    OpKind::Slice,
    OpKind::Concat,
];

/// Compiles RLX's graphs for one [`Target`].
///
/// Fusion, planning and everything else that RLX would do between a graph and a backend is left out: Serinette's
/// compiler does its own. Of RLX's options these count: `dim_binding`, `param_bindings` (as what params hold until
/// they are set), `policy`, `kernel_dispatch`; those that steer RLX's own passes and planner have nothing to steer.
/// A `precision` below f32 without a policy is computed in f32, which RLX allows.
#[derive(Clone, Copy, Debug)]
pub struct SerinetteBackend {
    target: Target,
}

impl SerinetteBackend {
    /// A backend for a target.
    pub fn new(target: Target) -> SerinetteBackend {
        SerinetteBackend { target }
    }

    fn executable(&self, mut graph: Graph, options: &CompileOptions) -> Result<Executable, Error> {
        if options.quant_param_bindings.as_ref().is_some_and(|b| !b.is_empty()) {
            let reason = "packed weights are for ops that are not in the op table";
            return Err(Error::Option { option: "quant_param_bindings", reason });
        }
        if let Some(binding) = &options.dim_binding {
            graph = rlx_ir::dynamic::specialize(&graph, binding);
        }
        if let Some(policy) = &options.policy {
            graph = AutoMixedPrecision::new(policy.clone()).run(graph);
        }
        let bindings = options.param_bindings.iter().flatten();
        let contents: HashMap<_, _> =
            bindings.map(|(name, data)| (name.clone(), Contents::Initial(data.clone()))).collect();
        let (bytes, signature) =
            blob::compile(&graph, &contents, options.kernel_dispatch, &[Profile::desktop()])?;
        Executable::open(bytes, signature, self.target)
    }

    /// For the entry points with a result. `LowerError` has one variant for texts, which it shows as "compilation
    /// panicked".
    fn boxed(&self, graph: Graph, options: &CompileOptions) -> Result<Box<dyn ExecutableGraph>, LowerError> {
        match self.executable(graph, options) {
            Ok(e) => Ok(Box::new(e)),
            Err(e) => Err(LowerError::Panicked { message: format!("serinette: {e}") }),
        }
    }
}

impl Backend for SerinetteBackend {
    /// # Panics
    /// The graph cannot be compiled. RLX's trait has no other way to say so.
    fn compile(&self, graph: Graph, options: &CompileOptions) -> Box<dyn ExecutableGraph> {
        match self.executable(graph, options) {
            Ok(e) => Box::new(e),
            Err(e) => panic!("serinette: {e}"),
        }
    }

    /// # Panics
    /// As [`compile`](Backend::compile).
    fn compile_lir(&self, lir: LirModule, options: &CompileOptions) -> Box<dyn ExecutableGraph> {
        self.compile(lir.into_graph(), options)
    }

    fn compile_hir(
        &self,
        hir: HirModule,
        _device: Device,
        options: &CompileOptions,
    ) -> Result<Box<dyn ExecutableGraph>, LowerError> {
        self.boxed(hir.lower_to_mir()?.into_graph(), options)
    }

    fn compile_module(
        &self,
        module: GraphModule,
        _device: Device,
        options: &CompileOptions,
    ) -> Result<Box<dyn ExecutableGraph>, LowerError> {
        self.boxed(module.into_graph()?, options)
    }

    fn supported_ops(&self) -> &'static [OpKind] {
        SUPPORTED_OPS
    }
}
