#!/usr/bin/env python3
"""Compiles the real models that fetch.py fetches and compares what they give with onnxruntime, over several sizes from one
blob each. Needs numpy, onnx and onnxruntime.

    check_models.py [--serinette PROGRAM] [--device host] [--models DIR] [NAME...]

Differences are |found − expected| / (|expected| + scale), where scale is the root of the mean square of the expected output,
or the least scale of the model where that is greater; both sides compute in f32, in different orders, so that each model has a tolerance of its own below."""

import argparse
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy
import onnx
import onnxruntime


@dataclasses.dataclass
class Model:
    path: str
    cases: list  # of functions: numpy generator -> {input: array}
    compile: list = dataclasses.field(default_factory=list)
    fixed: dict = dataclasses.field(default_factory=dict)
    # Largest difference, relative as said above.
    tolerance: float = 1e-4
    least_scale: float = 0.0
    # Makes the file to compile out of the one that was fetched.
    prepare: object = None


def uniform(**shapes):
    """Numbers from −1 to 1."""
    return lambda g: {k: g.uniform(-1, 1, s).astype(numpy.float32) for k, s in shapes.items()}


def silero(name, extra=(), rate=False, **fields):
    def case(g):
        x = g.uniform(-0.5, 0.5, (1, 576)).astype(numpy.float32)
        return {"input": x, "state": g.uniform(-1, 1, (2, 1, 128)).astype(numpy.float32)}

    shapes = ["--shape", "input=1,576", "--shape", "state=2,1,128"]
    fixed = {"sr": numpy.array(16000, numpy.int64)} if rate else {}
    return Model(f"silero/silero_vad/data/{name}.onnx", [case, case], shapes + list(extra), fixed, **fields)


def sequence(steps):
    return uniform(input=(steps, 576), h=(1, 1, 128), c=(1, 1, 128))


def files(count):
    """Features as of text files: bytes, and padding behind some of them."""

    def case(g):
        x = g.integers(0, 256, (count, 2048)).astype(numpy.int32)
        x[count // 2 :, 1000:1024] = 256
        return {"bytes": x}

    return case


def random_weights(path, into):
    """The light networks fill every weight with 0.02, which hides any mistake in the order of weights and positions: random
    ones instead, scaled to keep the activations' size (He et al. 2015, "Delving Deep into Rectifiers", equation 10). What
    goes into the last softmax becomes an output too, because probabilities may be all but 0 and 1."""
    model = onnx.load(path)
    graph, g = model.graph, numpy.random.default_rng(5)
    shapes = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    for node in [n for n in graph.node if n.op_type == "ConstantOfShape"]:
        shape = tuple(shapes[node.input[0]])
        if len(shape) > 1:
            w = g.normal(0, (2 / numpy.prod(shape[1:])) ** 0.5, shape)
        else:
            # Biases, and scales, means and variances of batch normalisation, which must be positive.
            w = g.uniform(0.5, 1.5, shape)
        graph.initializer.append(onnx.numpy_helper.from_array(w.astype(numpy.float32), node.output[0]))
        graph.node.remove(node)
    if graph.node[-1].op_type == "Softmax":
        graph.output.append(onnx.helper.make_tensor_value_info(graph.node[-1].input[0], onnx.TensorProto.FLOAT, None))
    onnx.save(model, into)


def light(name, shape, **fields):
    path = f"onnx/onnx/backend/test/data/light/light_{name}.onnx"
    return Model(path, [uniform(**shape)], prepare=random_weights, **fields)


MAGIKA = "magika/magika/models/standard_v3_3/model.onnx"
PPOCR = "ppocr/rapidocr_onnxruntime/models"
DTLN = "dtln/livekit/plugins/dtln/models"
MODELS = {
    "silero_vad": silero("silero_vad", ["--fix", "sr=16000"], rate=True),
    "silero_vad_8k": Model(
        "silero/silero_vad/data/silero_vad.onnx",
        [uniform(input=(1, 288), state=(2, 1, 128))],
        ["--shape", "input=1,288", "--shape", "state=2,1,128", "--fix", "sr=8000"],
        {"sr": numpy.array(8000, numpy.int64)},
    ),
    "silero_vad_op18_ifless": silero("silero_vad_op18_ifless", ["--fix", "sr=16000"], rate=True),
    "silero_vad_openvino_16k": silero("silero_vad_openvino_16k"),
    "silero_vad_half": silero("silero_vad_half"),
    "silero_vad_16k_op15": silero("silero_vad_16k_op15", ["--fix", "sr=16000"], rate=True),
    "silero_vad_16k_sequence": Model(
        "silero/silero_vad/data/silero_vad_16k_sequence.onnx", [sequence(1), sequence(7), sequence(32)]
    ),
    "magika": Model(MAGIKA, [files(1), files(3)], ["--bound", "unk__214=4"]),
    "ppocr_det": Model(
        f"{PPOCR}/ch_PP-OCRv4_det_infer.onnx",
        [uniform(x=(1, 3, 64, 96)), uniform(x=(1, 3, 320, 640)), uniform(x=(2, 3, 160, 64))],
        ["--shape", "x=n,3,h,w", "--bound", "n=2", "--bound", "h=640:32", "--bound", "w=640:32"],
        # Probabilities, all but 0 for noise, where onnxruntime's sigmoid is 0.
        least_scale=1.0,
    ),
    "ppocr_rec": Model(
        f"{PPOCR}/ch_PP-OCRv4_rec_infer.onnx",
        [uniform(x=(1, 3, 48, 320)), uniform(x=(2, 3, 48, 104)), uniform(x=(1, 3, 48, 640))],
        ["--shape", "x=n,3,48,w", "--bound", "n=2", "--bound", "w=640:8"],
    ),
    "ppocr_cls": Model(
        f"{PPOCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        [uniform(x=(1, 3, 48, 192)), uniform(x=(6, 3, 48, 192))],
        ["--shape", "x=n,3,48,192", "--bound", "n=6"],
    ),
    "dtln_1": Model(f"{DTLN}/model_1.onnx", [uniform(input_2=(1, 1, 257), input_3=(1, 2, 128, 2))]),
    "dtln_2": Model(f"{DTLN}/model_2.onnx", [uniform(input_4=(1, 1, 512), input_5=(1, 2, 128, 2))]),
    "alexnet": light("bvlc_alexnet", {"data_0": (1, 3, 224, 224)}),
    "densenet121": light("densenet121", {"data_0": (1, 3, 224, 224)}),
    "inception_v1": light("inception_v1", {"data_0": (1, 3, 224, 224)}),
    "inception_v2": light("inception_v2", {"data_0": (1, 3, 224, 224)}),
    "resnet50": light("resnet50", {"gpu_0/data_0": (1, 3, 224, 224)}),
    "shufflenet": light("shufflenet", {"gpu_0/data_0": (1, 3, 224, 224)}),
    "squeezenet": light("squeezenet", {"data_0": (1, 3, 224, 224)}),
    "vgg19": light("vgg19", {"data_0": (1, 3, 224, 224)}),
    "zfnet512": light("zfnet512", {"gpu_0/data_0": (1, 3, 224, 224)}),
}


def default_models():
    given = os.environ.get("SERINETTE_MODELS")
    return pathlib.Path(given) if given else pathlib.Path.home() / ".cache" / "serinette" / "models"


def difference(found, expected, least_scale):
    if found.shape != expected.shape:
        raise ValueError(f"shape {found.shape}, expected {expected.shape}")
    found, expected = found.astype(numpy.float64), expected.astype(numpy.float64)
    if not expected.size:
        return 0.0
    if not (numpy.isfinite(expected).all() and expected.any()):
        raise ValueError("the reference is not finite, or all zeros")
    scale = max(numpy.sqrt(numpy.mean(expected**2)), least_scale)
    return float(numpy.max(numpy.abs(found - expected) / (numpy.abs(expected) + scale)))


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command[:2]))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def check(name, model, arguments, folder):
    """Prints one line; gives whether all is well."""
    path = arguments.models / model.path
    if model.prepare:
        original, path = path, folder / f"{name}.onnx"
        model.prepare(original, path)
    blob = folder / f"{name}.srn"
    started = time.monotonic()
    run([arguments.serinette, "compile", path, "-o", blob, *model.compile])
    compiled = time.monotonic() - started
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    worst = 0.0
    for seed, case in enumerate(model.cases):
        inputs = case(numpy.random.default_rng(seed))
        expected = session.run(names, {**inputs, **model.fixed})
        numpy.savez(folder / "in.npz", **inputs)
        run([arguments.serinette, "run", blob, "-d", arguments.device, "-i", folder / "in.npz", "-o", folder / "out.npz"])
        with numpy.load(folder / "out.npz") as found:
            for output, value in zip(names, expected):
                worst = max(worst, difference(found[output], value, model.least_scale))
    well = worst <= model.tolerance
    verdict = "ok" if well else f"WRONG (tolerance {model.tolerance:g})"
    print(f"{name}: {len(model.cases)} inputs, largest difference {worst:.2e}, compiled in {compiled:.2f} s: {verdict}")
    return well


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serinette", type=pathlib.Path, default=pathlib.Path("target/release/serinette"))
    parser.add_argument("--device", default="host")
    parser.add_argument("--models", type=pathlib.Path, default=default_models())
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    arguments = parser.parse_args()
    unknown = [n for n in arguments.names if n not in MODELS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(MODELS)}")
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.names or MODELS:
            try:
                well = check(name, MODELS[name], arguments, pathlib.Path(folder))
            except (RuntimeError, ValueError, KeyError, OSError) as e:
                print(f"{name}: {e}")
                well = False
            failed += [] if well else [name]
            sys.stdout.flush()
    if failed:
        raise SystemExit(f"{len(failed)} failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
