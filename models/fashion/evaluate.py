#!/usr/bin/env python3
"""Print the accuracy of a Fashion-MNIST ONNX over the 10,000 test images, by onnxruntime."""

import argparse
from pathlib import Path

import numpy as np
import onnxruntime as ort

import data


def open_model(path, fused=False):
    """Session that runs each node as the ONNX text defines it, or with the runtime's fused integer kernels."""
    options = ort.SessionOptions()
    if not fused:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def predict(session, images, batch=500):
    """Probabilities [n,10] of uint8 images [n,28,28]."""
    parts = [session.run(["probabilities"], {"image": data.normalise(images[i : i + batch])})[0]
             for i in range(0, len(images), batch)]
    return np.concatenate(parts)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    ap.add_argument("--data", default=data.DEFAULT_DIR, metavar="DIR", help="folder of the four IDX .gz files")
    ap.add_argument("--fused", action="store_true", help="let onnxruntime optimise the graph")
    args = ap.parse_args()
    for path in args.models:
        if not path.is_file():
            ap.error(f"{path} not found")
    images, labels = data.load(args.data, "t10k")
    for path in args.models:
        hits = int((predict(open_model(path, args.fused), images).argmax(1) == labels).sum())
        print(f"{path.name}: {hits} of {len(labels)} right, {100 * hits / len(labels):.2f} %")


if __name__ == "__main__":
    main()
