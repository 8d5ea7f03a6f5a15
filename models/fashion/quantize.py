#!/usr/bin/env python3
"""Post-training int8 quantisation of fashion.onnx into a QDQ model, fashion_int8.onnx.

Activations: int8, one scale and zero point per tensor.  Weights: int8, one scale
per output channel, zero point 0.  Biases: int32 with scale = x_scale * w_scale.
Pools and Flatten keep the scale and zero point of their input, so that an
integer kernel can compute them exactly.
"""

import argparse
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import data


def ranges(model, images, percentile):
    """Smallest and largest value of each float tensor of the graph, over the images."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    names = [node.output[0] for node in probe.graph.node]
    del probe.graph.output[:]
    probe.graph.output.extend(helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names)
    session = ort.InferenceSession(probe.SerializeToString(), providers=["CPUExecutionProvider"])
    found = {"image": (images.min(), images.max())}  # the input is never clipped
    for name in names:  # one tensor at a time keeps memory small
        (value,) = session.run([name], {"image": images})
        found[name] = tuple(np.percentile(value, [100 - percentile, percentile]))
    return found


def affine(low, high):
    """Scale and zero point that map [low, high], widened to hold 0, onto -128..127."""
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    scale = np.float32(max((high - low) / 255, 1e-8))  # a constant 0 must not divide by 0
    return scale, np.int8(np.clip(np.rint(-128 - low / scale), -128, 127))


class Builder:
    def __init__(self):
        self.nodes, self.inits, self.params = [], [], {}

    def const(self, name, value):
        if all(t.name != name for t in self.inits):
            self.inits.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op, inputs, output, **attrs):
        self.nodes.append(helper.make_node(op, inputs, [output], output, **attrs))
        return output

    def quantize(self, name, params):
        """Quantise float tensor `name` into `name`_q; params names its scale and zero point."""
        self.params[name] = params
        return self.node("QuantizeLinear", [name, *params], f"{name}_q")

    def dequantize(self, name):
        return self.node("DequantizeLinear", [f"{name}_q", *self.params[name]], f"{name}_dq")

    def new_params(self, name, low, high):
        scale, zero = affine(low, high)
        return self.const(f"{name}_scale", scale), self.const(f"{name}_zero", zero)


def quantize(model, found):
    graph = model.graph
    values = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    b = Builder()
    b.quantize("image", b.new_params("image", *found["image"]))

    for i, node in enumerate(graph.node):
        attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        source, out = node.input[0], node.output[0]
        if node.op_type in ("Conv", "Gemm"):
            weight, bias = values[node.input[1]], values[node.input[2]]
            x_scale = next(numpy_helper.to_array(t) for t in b.inits if t.name == b.params[source][0])
            w_scale = (np.abs(weight.reshape(len(weight), -1)).max(1) / 127).astype(np.float32)
            w_scale = np.maximum(w_scale, np.float32(1e-8))  # an all-zero channel must not divide by 0
            steps = w_scale.reshape(-1, *[1] * (weight.ndim - 1))
            w_q = np.clip(np.rint(weight / steps), -127, 127).astype(np.int8)
            b_scale = x_scale * w_scale
            b_q = np.clip(np.rint(bias.astype(np.float64) / b_scale), -2**31, 2**31 - 1).astype(np.int32)
            w, bb = node.input[1], node.input[2]
            inputs = [
                b.dequantize(source),
                b.node("DequantizeLinear", [b.const(f"{w}_q", w_q), b.const(f"{w}_scale", w_scale),
                                            b.const(f"{w}_zero", np.zeros(len(weight), np.int8))], w, axis=0),
                # No zero point: for int32 it is 0 by definition.
                b.node("DequantizeLinear", [b.const(f"{bb}_q", b_q), b.const(f"{bb}_scale", b_scale)], bb, axis=0),
            ]
            b.node(node.op_type, inputs, out, **attrs)
            follower = graph.node[i + 1]
            if follower.op_type != "Relu":  # otherwise only the Relu's output is quantised
                b.quantize(out, b.new_params(out, *found[out]))
        elif node.op_type == "Relu":
            b.node("Relu", [source], out)
            b.quantize(out, b.new_params(out, *found[out]))
        elif node.op_type in ("MaxPool", "AveragePool"):
            b.node(node.op_type, [b.dequantize(source)], out, **attrs)
            b.quantize(out, b.params[source])
        elif node.op_type == "Flatten":  # moves no data: works on the int8 tensor itself
            b.params[out] = b.params[source]
            b.node("Flatten", [f"{source}_q"], f"{out}_q", **attrs)
        elif node.op_type == "Softmax":
            b.node("Softmax", [b.dequantize(source)], out, **attrs)
        else:
            raise SystemExit(f"error: no rule for {node.op_type}")

    result = helper.make_model(
        helper.make_graph(b.nodes, "fashion_int8", list(graph.input), list(graph.output), b.inits),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="serinette-models")
    onnx.checker.check_model(result, full_check=True)
    return result


def main():
    here = Path(__file__).parent
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--model", default=here / "fashion.onnx", type=Path)
    ap.add_argument("--out", default=here / "fashion_int8.onnx", type=Path)
    ap.add_argument("--data", default=data.DEFAULT_DIR, metavar="DIR", help="folder of the four IDX .gz files")
    ap.add_argument("--images", default=2000, type=int, help="training images to calibrate on")
    ap.add_argument("--percentile", default=100.0, type=float, help="100 is min/max; below, outliers are clipped")
    args = ap.parse_args()
    if not args.model.is_file():
        ap.error(f"--model {args.model} not found (run train.py first)")
    if args.images < 1:
        ap.error("--images must be at least 1")
    if not 50 < args.percentile <= 100:
        ap.error("--percentile must be above 50 and at most 100")

    images, _ = data.load(args.data, "train")
    images = data.normalise(images[: args.images])
    model = onnx.load(args.model)
    result = quantize(model, ranges(model, images, args.percentile))
    onnx.save(result, args.out)
    print(f"{args.out}: {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
