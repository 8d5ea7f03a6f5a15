#!/usr/bin/env python3
"""Write joint.onnx and match.onnx, two small graphs that share weights and a state and
together exercise the whole blob format, and their test vectors.

The weights mean nothing: they come from a fixed seed.  The vectors are computed here in
64 bits (reference.py) and rounded once; onnxruntime must agree with them.
"""

import argparse
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import reference

FLOAT, BOOL, INT32, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64
MAIN_OUTPUTS = ["probabilities", "top", "rows", "state_out"]
MATCH_OUTPUTS = ["scores", "nearest"]
info = helper.make_tensor_value_info


def make_weights(seed):
    """Everything that the graphs hold, by name."""
    rng = np.random.default_rng(seed)
    weights = {}

    def rand(name, *shape):  # scaled so that layers neither explode nor fade
        weights[name] = (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    for name, *shape in (("w1", 16, 32), ("b1", 32), ("w2", 32, 16), ("b2", 16), ("w_loop", 16, 16),
                         ("offset", 16), ("b3", 10), ("table", 10, 16)):
        rand(name, *shape)
    weights["factor"] = rng.uniform(0.5, 1.5, 16).astype(np.float32)
    weights["gain_f16"] = rng.uniform(0.5, 1.5, 16).astype(np.float16)
    # As a file of half-precision layers would hold it: one row for each output.
    weights["w3_f16"] = (rng.standard_normal((10, 26)) / np.sqrt(26)).astype(np.float16)
    weights["class_scale"] = rng.uniform(0.8, 1.2, 10).astype(np.float32)
    weights["class_base"] = rng.uniform(0.8, 1.2, 10).astype(np.float32)
    # Integers of a product; an output channel is a column, so the scales lie along axis 1.
    w8 = rng.standard_normal((16, 16)) / 4
    weights["w8_scale"] = (np.abs(w8).max(0) / 127).astype(np.float32)
    weights["w8_q"] = np.rint(w8 / weights["w8_scale"]).astype(np.int8)
    weights["q_scale"], weights["q_zero"] = np.float32(reference.Q_SCALE), np.int8(reference.Q_ZERO)
    weights["m8_scale"], weights["m8_zero"] = np.float32(reference.M8_SCALE), np.int8(reference.M8_ZERO)
    return weights


class Nodes:
    """Nodes with one output each, and the initialisers that they name."""

    def __init__(self, weights):
        self.weights, self.nodes, self.inits = weights, [], {}

    def weight(self, name):
        self.inits[name] = np.asarray(self.weights[name])
        return name

    def const(self, name, value):
        self.inits[name] = np.asarray(value)
        return name

    def ints(self, name, *values):
        return self.const(name, np.array(values, np.int64))

    def __call__(self, op, inputs, output, **attrs):
        self.nodes.append(helper.make_node(op, inputs, [output], output, **attrs))
        return output

    def classifier(self, features, output):
        """`(features · w3 + b3) · class_scale`, with a weight that is half as wide and lies the other way."""
        self("Transpose", [self.weight("w3_f16")], "w3_t", perm=[1, 0])
        self("Cast", ["w3_t"], "w3", to=FLOAT)
        self("MatMul", [features, "w3"], "logits_mul")
        self("Add", ["logits_mul", self.weight("b3")], "logits")
        self("Mul", [self.weight("class_scale"), self.weight("class_base")], "class_factor")
        self("Mul", ["logits", "class_factor"], output)

    def model(self, name, inputs, outputs):
        inits = [numpy_helper.from_array(value, key) for key, value in self.inits.items()]
        graph = helper.make_graph(self.nodes, name, inputs, outputs, inits)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                                  producer_name="serinette-models")
        helper.set_model_props(model, {"name": "joint", "licence": "MIT OR Apache-2.0"})
        onnx.checker.check_model(model, full_check=True)
        return model


def build_main(weights):
    n = Nodes(weights)
    # Two dense layers over a symbolic batch.
    n("MatMul", ["x", n.weight("w1")], "d1_mul")
    n("Add", ["d1_mul", n.weight("b1")], "d1_sum")
    n("Relu", ["d1_sum"], "d1")
    n("MatMul", ["d1", n.weight("w2")], "d2_mul")
    n("Add", ["d2_mul", n.weight("b2")], "d2_sum")
    n("Relu", ["d2_sum"], "d2")

    # Loop: four times h = relu(h @ w_loop + x).  The body sees w_loop and x from outside.
    n.weight("w_loop")
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
    n("Loop", [n.const("loop_count", np.int64(4)), n.const("loop_go", np.bool_(True)), "d2"], "looped", body=body)

    # If: the branch depends on the sign of x[0,0].  One branch holds its constant
    # itself, the other sees one from outside.
    n.ints("zero_index", 0)
    n("Gather", ["x", "zero_index"], "first_row", axis=0)          # [1,16]
    n("Gather", ["first_row", "zero_index"], "first_value", axis=1)  # [1,1]
    n("Greater", ["first_value", n.const("threshold", np.float32(0.0))], "is_positive")
    n("Reshape", ["is_positive", n.ints("one_shape", 1)], "choice")
    factor = numpy_helper.from_array(weights["factor"], "factor_value")
    then_branch = helper.make_graph(
        [helper.make_node("Constant", [], ["factor"], "factor", value=factor),
         helper.make_node("Mul", ["looped", "factor"], ["then_out"], "then_out")],
        "then", [], [info("then_out", FLOAT, ["batch", 16])])
    n.weight("offset")
    else_branch = helper.make_graph(
        [helper.make_node("Add", ["looped", "offset"], ["else_out"], "else_out")],
        "else", [], [info("else_out", FLOAT, ["batch", 16])])
    n("If", ["choice"], "chosen", then_branch=then_branch, else_branch=else_branch)

    # f16: a half-precision constant, widened.
    n("Cast", [n.weight("gain_f16")], "gain", to=FLOAT)
    n("Mul", ["chosen", "gain"], "gained")

    # i8: a MatMul in QDQ form.
    for name in ("q_scale", "q_zero", "m8_scale", "m8_zero"):
        n.weight(name)
    n("QuantizeLinear", ["gained", "q_scale", "q_zero"], "gained_q")
    n("DequantizeLinear", ["gained_q", "q_scale", "q_zero"], "gained_dq")
    n("DequantizeLinear", [n.weight("w8_q"), n.weight("w8_scale"),
                           n.const("w8_zero", np.zeros(16, np.int8))], "w8", axis=1)
    n("MatMul", ["gained_dq", "w8"], "m8")
    n("QuantizeLinear", ["m8", "m8_scale", "m8_zero"], "m8_q")
    n("DequantizeLinear", ["m8_q", "m8_scale", "m8_zero"], "m8_dq")

    # State: decays and takes in the first row of x.
    n("Mul", ["state_in", n.const("decay", np.float32(0.5))], "state_decayed")
    n("Add", ["state_decayed", "first_row"], "state_out")

    # Concat along the last axis, Slice, and a Transpose that really moves data.
    n("Concat", ["gained", "m8_dq"], "wide", axis=1)  # [batch,32]
    n("Slice", ["wide", n.ints("slice_from", 4), n.ints("slice_to", 28), n.ints("slice_axis", 1),
                n.ints("slice_step", 1)], "middle")
    n("Reshape", ["middle", n.ints("grid_shape", -1, 4, 6)], "grid")
    n("Transpose", ["grid"], "grid_t", perm=[0, 2, 1])
    n("Reshape", ["grid_t", n.ints("flat_shape", -1, 24)], "shuffled")

    # Concat along axis 0, and a MatMul with no constant operand.
    n("Concat", ["state_in", "first_row"], "pair", axis=0)  # [2,16]
    n("Transpose", ["pair"], "pair_t", perm=[1, 0])
    n("MatMul", ["d2", "pair_t"], "cross")  # [batch,2]
    n("Concat", ["shuffled", "cross"], "features", axis=1)  # [batch,26]

    n.classifier("features", "scaled")
    n("Softmax", ["scaled"], "probabilities", axis=1)
    n("ArgMax", ["probabilities"], "top_i64", axis=1, keepdims=0)
    n("Cast", ["top_i64"], "top", to=INT32)

    # A look-up by run-time indices; tests feed bad ones.
    n("Gather", [n.weight("table"), "indices"], "rows", axis=0)
    return n.model(
        "joint",
        [info("x", FLOAT, ["batch", 16]), info("indices", INT32, ["n"]), info("state_in", FLOAT, [1, 16])],
        [info("probabilities", FLOAT, ["batch", 10]), info("top", INT32, ["batch"]),
         info("rows", FLOAT, ["n", 16]), info("state_out", FLOAT, [1, 16])])


def build_match(weights):
    n = Nodes(weights)
    # The first layer and the classifier of the other graph; the second layer forwards and backwards.
    n("MatMul", ["query", n.weight("w1")], "q1_mul")
    n("Add", ["q1_mul", n.weight("b1")], "q1_sum")
    n("Relu", ["q1_sum"], "q1")
    n("MatMul", ["q1", n.weight("w2")], "q2")
    n("Transpose", ["w2"], "w2_t", perm=[1, 0])
    n("MatMul", ["q2", "w2_t"], "back")  # [rows,32]

    # The state is read and not written.  One weight for each row: nothing but a check when
    # sizes are known can tell that there are as many weights as rows.
    n("Add", ["q2", "state_in"], "seen")
    n("Unsqueeze", ["row_weights", n.ints("last_axis", 1)], "row_weights_2d")
    n("Mul", ["seen", "row_weights_2d"], "weighted")  # [rows,16]
    n("Slice", ["back", n.ints("back_from", 0), n.ints("back_to", 10), n.ints("back_axis", 1)], "back_part")
    n("Concat", ["weighted", "back_part"], "match_features", axis=1)  # [rows,26]
    n.classifier("match_features", "scores")
    n("ArgMax", ["scores"], "nearest_i64", axis=1, keepdims=0)
    n("Cast", ["nearest_i64"], "nearest", to=INT32)
    return n.model(
        "match",
        [info("query", FLOAT, ["rows", 16]), info("row_weights", FLOAT, ["weight_rows"]),
         info("state_in", FLOAT, [1, 16])],
        [info("scores", FLOAT, ["rows", 10]), info("nearest", INT32, ["rows"])])


class Checked:
    """A graph in onnxruntime beside its 64-bit reference: they must agree."""

    def __init__(self, model, outputs, weights, exact):
        # No graph optimisation: each node runs as the ONNX text defines it.
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self.outputs, self.weights, self.exact = outputs, weights, exact

    def __call__(self, feeds):
        found = dict(zip(self.outputs, self.session.run(self.outputs, feeds)))
        wanted = self.exact(self.weights, feeds)
        for name in self.outputs:
            want = wanted[name] = wanted[name].astype(found[name].dtype)
            if want.shape != found[name].shape or not np.allclose(found[name], want, rtol=1e-5, atol=1e-5):
                raise SystemExit(f"error: {name}: onnxruntime and the 64-bit reference differ")
        return {name: wanted[name] for name in self.outputs}


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--out", default=Path(__file__).parent, type=Path, metavar="DIR")
    ap.add_argument("--seed", default=3, type=int)
    args = ap.parse_args()
    if not args.out.is_dir():
        ap.error(f"--out {args.out} is not a folder")
    if args.seed < 0:
        ap.error("--seed must not be negative")

    weights = make_weights(args.seed)
    joint, match = build_main(weights), build_match(weights)
    onnx.save(joint, args.out / "joint.onnx")
    onnx.save(match, args.out / "match.onnx")
    run_main = Checked(joint, MAIN_OUTPUTS, weights, reference.joint)
    run_match = Checked(match, MATCH_OUTPUTS, weights, reference.match)
    rng = np.random.default_rng(args.seed + 1)

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    def main_feeds(batch, n, sign, state):
        x = normal(batch, 16)
        x[0, 0] = sign * (abs(x[0, 0]) + 0.1)  # both branches of the If must run
        return {"x": x, "indices": rng.integers(0, 10, n).astype(np.int32), "state_in": state}

    def match_feeds(rows, state):
        return {"query": normal(rows, 16), "row_weights": normal(rows), "state_in": state}

    for batch, n, sign in ((1, 4, 1), (3, 7, -1), (5, 2, 1)):
        feeds = main_feeds(batch, n, sign, normal(1, 16))
        np.savez(args.out / f"reference_{batch}.npz", **feeds, **run_main(feeds))
    for rows in (1, 4):
        feeds = match_feeds(rows, normal(1, 16))
        np.savez(args.out / f"match_{rows}.npz", **feeds, **run_match(feeds))

    # What compile puts into the blob: both graphs from zero state.
    zero = np.zeros((1, 16), np.float32)
    one, other = main_feeds(2, 3, -1, zero), match_feeds(3, zero)
    vectors = {**one, **run_main(one), **other, **run_match(other)}
    np.savez(args.out / "self_test.npz", **{k: v for k, v in vectors.items() if not k.startswith("state_")})

    # Three times the one graph and then the other, stacked along a new first axis; the first
    # state is zero, and the other graph sees what the one has left.
    state, runs = np.zeros((1, 16), np.float32), []
    for sign in (1, -1, 1):
        feeds = main_feeds(1, 3, sign, state)
        outputs = run_main(feeds)
        state = outputs["state_out"]
        other = match_feeds(2, state)
        runs.append({**feeds, **outputs, **{k: other[k] for k in ("query", "row_weights")}, **run_match(other)})
    np.savez(args.out / "state_runs.npz", **{k: np.stack([r[k] for r in runs]) for k in runs[0]})


if __name__ == "__main__":
    main()
