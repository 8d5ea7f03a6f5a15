#!/usr/bin/env python3
"""Train the Fashion-MNIST classifier and write fashion.onnx, hint.json and labels.txt.

The graph is written by hand with onnx.helper rather than by an exporter: it
holds nothing but the layers, and batch normalisation is folded away before.
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import data

# (name, kind, in channels, out channels); "dw" is depth-wise 3x3, "pw" point-wise 1x1.
# Maps shrink early (28x28 -> 14x14 -> 7x7) to keep peak RAM low; most weights
# sit in the 7x7 stages, where one activation plane is only 49 bytes in int8.
LAYERS = [
    ("conv1", "conv", 1, 16),
    ("pool1", "pool", 16, 16),
    ("dw2", "dw", 16, 16),
    ("pw2", "pw", 16, 32),
    ("pool2", "pool", 32, 32),
    ("dw3", "dw", 32, 32),
    ("pw3", "pw", 32, 64),
    ("dw4", "dw", 64, 64),
    ("pw4", "pw", 64, 128),
    ("dw5", "dw", 128, 128),
    ("pw5", "pw", 128, 128),
]
FEATURES = 128


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.ModuleDict()
        self.norm = nn.ModuleDict()
        for name, kind, cin, cout in LAYERS:
            if kind == "pool":
                continue
            size = 1 if kind == "pw" else 3
            groups = cin if kind == "dw" else 1
            self.conv[name] = nn.Conv2d(cin, cout, size, padding=size // 2, groups=groups, bias=False)
            self.norm[name] = nn.BatchNorm2d(cout)
        self.fc = nn.Linear(FEATURES, len(data.LABELS))

    def forward(self, x):
        for name, kind, _, _ in LAYERS:
            if kind == "pool":
                x = F.max_pool2d(x, 2)
            else:
                x = F.relu(self.norm[name](self.conv[name](x)))
        return self.fc(F.avg_pool2d(x, 7).flatten(1))


def augment(images, gen):
    """Flip half of the images left-right, and shift each by up to 2 pixels (black fills in)."""
    n = len(images)
    flip = torch.rand(n, generator=gen) < 0.5
    images = torch.where(flip[:, None, None], images.flip(2), images)
    padded = F.pad(images, (2, 2, 2, 2))
    dy, dx = torch.randint(0, 5, (2, n, 1), generator=gen)
    rows, cols = torch.arange(28) + dy, torch.arange(28) + dx
    return padded[torch.arange(n)[:, None, None], rows[:, :, None], cols[:, None, :]]


def train(images, labels, epochs, seed, batch=128, peak=4e-3):
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    gen = torch.Generator().manual_seed(seed)
    images, labels = torch.from_numpy(images.copy()), torch.from_numpy(labels)
    net = Net().to(memory_format=torch.channels_last)
    opt = torch.optim.AdamW(net.parameters(), lr=peak, weight_decay=0.02)
    steps, step = epochs * (len(images) // batch), 0
    warm = max(1, steps // 20)
    for epoch in range(epochs):
        start, total = time.time(), 0.0
        order = torch.randperm(len(images), generator=gen)
        for i in range(0, len(images) - batch + 1, batch):  # the last partial batch is dropped
            pick = order[i : i + batch]
            x = (augment(images[pick], gen)[:, None].float() - data.MEAN) * data.SCALE
            # Short linear warm-up, then half a cosine down to zero.
            rate = step / warm if step < warm else 0.5 + 0.5 * math.cos(math.pi * (step - warm) / (steps - warm))
            for group in opt.param_groups:
                group["lr"] = peak * rate
            loss = F.cross_entropy(net(x.contiguous(memory_format=torch.channels_last)), labels[pick])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total, step = total + loss.item(), step + 1
        print(f"epoch {epoch + 1}/{epochs}: loss {total / (len(images) // batch):.4f}, "
              f"{time.time() - start:.0f} s", flush=True)
    return net.eval()


def fold(conv, norm):
    """Weights and bias of the one convolution that equals conv followed by norm."""
    gain = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    weight = conv.weight * gain[:, None, None, None]
    bias = norm.bias - norm.running_mean * gain
    return weight.detach().contiguous().numpy(), bias.detach().numpy()


def export(net, path):
    nodes, inits = [], []

    def param(name, value):
        inits.append(numpy_helper.from_array(np.ascontiguousarray(value, np.float32), name))
        return name

    last = "image"
    for name, kind, cin, cout in LAYERS:
        if kind == "pool":
            nodes.append(helper.make_node("MaxPool", [last], [name], name, kernel_shape=[2, 2], strides=[2, 2]))
            last = name
            continue
        weight, bias = fold(net.conv[name], net.norm[name])
        size = weight.shape[2]
        nodes.append(helper.make_node(
            "Conv", [last, param(f"{name}.weight", weight), param(f"{name}.bias", bias)], [f"{name}.sum"], name,
            kernel_shape=[size, size], strides=[1, 1], pads=[size // 2] * 4, group=cin if kind == "dw" else 1))
        nodes.append(helper.make_node("Relu", [f"{name}.sum"], [name], f"{name}.relu"))
        last = name
    nodes += [
        helper.make_node("AveragePool", [last], ["pool5"], "pool5", kernel_shape=[7, 7], strides=[7, 7]),
        helper.make_node("Flatten", ["pool5"], ["features"], "flatten", axis=1),
        helper.make_node("Gemm", ["features", param("fc.weight", net.fc.weight.detach().numpy()),
                                  param("fc.bias", net.fc.bias.detach().numpy())], ["logits"], "fc", transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], "softmax", axis=-1),
    ]
    graph = helper.make_graph(
        nodes, "fashion",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 28, 28])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", len(data.LABELS)])], inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                              producer_name="serinette-models")
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return sum(int(np.prod(t.dims)) for t in inits)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--data", default=data.DEFAULT_DIR, metavar="DIR", help="folder of the four IDX .gz files")
    ap.add_argument("--out", default=Path(__file__).parent, type=Path, metavar="DIR")
    ap.add_argument("--epochs", default=30, type=int)
    ap.add_argument("--seed", default=1, type=int)
    ap.add_argument("--threads", default=2, type=int, help="part of the result: sums are split by thread")
    args = ap.parse_args()
    if args.epochs < 1 or args.threads < 1:
        ap.error("--epochs and --threads must be at least 1")
    if not args.out.is_dir():
        ap.error(f"--out {args.out} is not a folder")

    torch.set_num_threads(args.threads)
    net = train(*data.load(args.data, "train"), args.epochs, args.seed)
    count = export(net, args.out / "fashion.onnx")

    hint = {
        "inputs": {"image": {"kind": "image", "channels": "gray", "scale": [data.SCALE],
                             "mean": [data.MEAN], "layout": "NCHW"}},
        "outputs": {"probabilities": {"kind": "classes", "labels": data.LABELS, "top": 3}},
    }
    (args.out / "hint.json").write_text(json.dumps(hint, indent=2) + "\n")
    (args.out / "labels.txt").write_text("\n".join(data.LABELS) + "\n")

    # The test images are looked at once, here: no choice above depends on them.
    images, labels = data.load(args.data, "t10k")
    with torch.no_grad():
        hits = (net(torch.from_numpy(data.normalise(images))).argmax(1).numpy() == labels).mean()
    print(f"{count} parameters after folding, test accuracy {100 * hits:.2f} %")


if __name__ == "__main__":
    main()
