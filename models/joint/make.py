#!/usr/bin/env python3
"""Write joint.onnx, one small graph that exercises most of the runtime, and its test vectors.

The weights mean nothing: they come from a fixed seed.  reference_<batch>.npz hold
inputs and outputs for three batch sizes; state_runs.npz holds three runs in a row,
each one's state_out fed to the next one's state_in.
"""

import argparse
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

FLOAT, BOOL, INT32, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64
OUTPUTS = ["probabilities", "top", "rows", "state_out"]
Q_SCALE, M8_SCALE = 0.04, 0.05  # steps of the int8 part's input and output
info = helper.make_tensor_value_info


def build(seed):
    rng = np.random.default_rng(seed)
    nodes, inits = [], []

    def const(name, value):
        inits.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def rand(name, *shape):  # scaled so that layers neither explode nor fade
        return const(name, (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))

    def node(op, inputs, output, **attrs):
        nodes.append(helper.make_node(op, inputs, [output], output, **attrs))
        return output

    # Two dense layers over a symbolic batch.
    node("MatMul", ["x", rand("w1", 16, 32)], "d1_mul")
    node("Add", ["d1_mul", rand("b1", 32)], "d1_sum")
    node("Relu", ["d1_sum"], "d1")
    node("MatMul", ["d1", rand("w2", 32, 16)], "d2_mul")
    node("Add", ["d2_mul", rand("b2", 16)], "d2_sum")
    node("Relu", ["d2_sum"], "d2")

    # Loop: four times h = relu(h @ w_loop + x).  The body sees w_loop and x from outside.
    rand("w_loop", 16, 16)
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["h", "w_loop"], ["h_mul"], "h_mul"),
            helper.make_node("Add", ["h_mul", "x"], ["h_sum"], "h_sum"),
            helper.make_node("Relu", ["h_sum"], ["h_next"], "h_next"),
            helper.make_node("Identity", ["go"], ["go_next"], "go_next"),
        ],
        "loop_body",
        [info("i", INT64, []), info("go", BOOL, []), info("h", FLOAT, ["batch", 16])],
        [info("go_next", BOOL, []), info("h_next", FLOAT, ["batch", 16])])
    node("Loop", [const("loop_count", np.int64(4)), const("loop_go", np.bool_(True)), "d2"], "looped", body=body)

    # If: the branch depends on the sign of x[0,0].  One branch holds its constant
    # itself, the other takes it from the outer graph.
    const("zero_index", np.array([0], np.int64))
    node("Gather", ["x", "zero_index"], "first_row", axis=0)          # [1,16]
    node("Gather", ["first_row", "zero_index"], "first_value", axis=1)  # [1,1]
    node("Greater", ["first_value", const("threshold", np.float32(0.0))], "is_positive")
    node("Reshape", ["is_positive", const("one_shape", np.array([1], np.int64))], "choice")
    factor = numpy_helper.from_array(rng.uniform(0.5, 1.5, 16).astype(np.float32), "factor_value")
    then_branch = helper.make_graph(
        [helper.make_node("Constant", [], ["factor"], "factor", value=factor),
         helper.make_node("Mul", ["looped", "factor"], ["then_out"], "then_out")],
        "then", [], [info("then_out", FLOAT, ["batch", 16])])
    rand("offset", 16)
    else_branch = helper.make_graph(
        [helper.make_node("Add", ["looped", "offset"], ["else_out"], "else_out")],
        "else", [], [info("else_out", FLOAT, ["batch", 16])])
    node("If", ["choice"], "chosen", then_branch=then_branch, else_branch=else_branch)

    # f16: a half-precision constant, widened at run time.
    const("gain_f16", rng.uniform(0.5, 1.5, 16).astype(np.float16))
    node("Cast", ["gain_f16"], "gain", to=FLOAT)
    node("Mul", ["chosen", "gain"], "gained")

    # i8: a MatMul in QDQ form; an output channel is a column, so the scales lie along axis 1.
    w8 = rng.standard_normal((16, 16)) / 4
    w8_scale = (np.abs(w8).max(0) / 127).astype(np.float32)
    const("q_scale", np.float32(Q_SCALE))
    const("q_zero", np.int8(-100))
    const("m8_scale", np.float32(M8_SCALE))
    const("m8_zero", np.int8(5))
    node("QuantizeLinear", ["gained", "q_scale", "q_zero"], "gained_q")
    node("DequantizeLinear", ["gained_q", "q_scale", "q_zero"], "gained_dq")
    node("DequantizeLinear", [const("w8_q", np.rint(w8 / w8_scale).astype(np.int8)), const("w8_scale", w8_scale),
                              const("w8_zero", np.zeros(16, np.int8))], "w8", axis=1)
    node("MatMul", ["gained_dq", "w8"], "m8")
    node("QuantizeLinear", ["m8", "m8_scale", "m8_zero"], "m8_q")
    node("DequantizeLinear", ["m8_q", "m8_scale", "m8_zero"], "m8_dq")

    # State: decays and takes in the first row of x.
    node("Mul", ["state_in", const("decay", np.float32(0.5))], "state_decayed")
    node("Add", ["state_decayed", "first_row"], "state_out")

    # Concat along the last axis, Slice, and a Transpose that really moves data.
    node("Concat", ["gained", "m8_dq"], "wide", axis=1)  # [batch,32]
    node("Slice", ["wide", const("slice_from", np.array([4], np.int64)), const("slice_to", np.array([28], np.int64)),
                   const("slice_axis", np.array([1], np.int64)), const("slice_step", np.array([1], np.int64))], "middle")
    node("Reshape", ["middle", const("grid_shape", np.array([-1, 4, 6], np.int64))], "grid")
    node("Transpose", ["grid"], "grid_t", perm=[0, 2, 1])
    node("Reshape", ["grid_t", const("flat_shape", np.array([-1, 24], np.int64))], "shuffled")

    # Concat along axis 0, and a MatMul with no constant operand.
    node("Concat", ["state_in", "first_row"], "pair", axis=0)  # [2,16]
    node("Transpose", ["pair"], "pair_t", perm=[1, 0])
    node("MatMul", ["d2", "pair_t"], "cross")  # [batch,2]
    node("Concat", ["shuffled", "cross"], "features", axis=1)  # [batch,26]

    node("MatMul", ["features", rand("w3", 26, 10)], "logits_mul")
    node("Add", ["logits_mul", rand("b3", 10)], "logits")
    node("Softmax", ["logits"], "probabilities", axis=1)
    node("ArgMax", ["probabilities"], "top_i64", axis=1, keepdims=0)
    node("Cast", ["top_i64"], "top", to=INT32)

    # A look-up by run-time indices; tests feed bad ones.
    node("Gather", [rand("table", 10, 16), "indices"], "rows", axis=0)

    graph = helper.make_graph(
        nodes, "joint",
        [info("x", FLOAT, ["batch", 16]), info("indices", INT32, ["n"]), info("state_in", FLOAT, [1, 16])],
        [info("probabilities", FLOAT, ["batch", 10]), info("top", INT32, ["batch"]),
         info("rows", FLOAT, ["n", 16]), info("state_out", FLOAT, [1, 16])],
        inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                              producer_name="serinette-models")
    onnx.checker.check_model(model, full_check=True)
    return model


def check_margins(model, feeds):
    """Refuse vectors on which a harmless float error would flip a rounding or an arg-max."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    probe.graph.output.extend(info(n, FLOAT, None) for n in ("gained", "m8"))
    gained, m8, probs = session_of(probe).run(["gained", "m8", "probabilities"], feeds)
    for value, scale in ((gained, Q_SCALE), (m8, M8_SCALE)):
        part = np.abs(value.astype(np.float64) / scale % 1 - 0.5)
        if part.min() < 1e-4:
            raise SystemExit("error: a value lies on a rounding edge; take another --seed")
    best = np.sort(probs, axis=1)
    if (best[:, -1] - best[:, -2]).min() < 1e-3:
        raise SystemExit("error: two classes tie; take another --seed")


def session_of(model):
    """No graph optimisation: each node runs as the ONNX text defines it."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--out", default=Path(__file__).parent, type=Path, metavar="DIR")
    ap.add_argument("--seed", default=7, type=int)
    args = ap.parse_args()
    if not args.out.is_dir():
        ap.error(f"--out {args.out} is not a folder")
    if args.seed < 0:
        ap.error("--seed must not be negative")

    model = build(args.seed)
    onnx.save(model, args.out / "joint.onnx")
    session = session_of(model)
    rng = np.random.default_rng(args.seed + 1)

    def feeds(batch, n, sign, state):
        x = rng.standard_normal((batch, 16)).astype(np.float32)
        x[0, 0] = sign * (abs(x[0, 0]) + 0.1)  # both branches of the If must run
        made = {"x": x, "indices": rng.integers(0, 10, n).astype(np.int32), "state_in": state}
        check_margins(model, made)
        return made

    for batch, n, sign in ((1, 4, 1), (3, 7, -1), (5, 2, 1)):
        inputs = feeds(batch, n, sign, rng.standard_normal((1, 16)).astype(np.float32))
        outputs = dict(zip(OUTPUTS, session.run(OUTPUTS, inputs)))
        np.savez(args.out / f"reference_{batch}.npz", **inputs, **outputs)

    # Three runs in a row, stacked along a new first axis; the first state is zero.
    state, runs = np.zeros((1, 16), np.float32), []
    for sign in (1, -1, 1):
        inputs = feeds(1, 3, sign, state)
        runs.append({**inputs, **dict(zip(OUTPUTS, session.run(OUTPUTS, inputs)))})
        state = runs[-1]["state_out"]
    np.savez(args.out / "state_runs.npz", **{k: np.stack([r[k] for r in runs]) for k in runs[0]})


if __name__ == "__main__":
    main()
