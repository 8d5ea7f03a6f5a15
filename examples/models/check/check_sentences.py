#!/usr/bin/env python3
"""Compares the vectors that the program `sentences` gives with those of onnxruntime on the same tokens: of the network
that the program builds, and of the one that it imports from the ONNX file that onnxruntime runs (minilm_onnx.py).

    check/check_sentences.py [--program PROGRAM]

Needs numpy, onnxruntime, onnx and safetensors."""

import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy
import onnxruntime

import minilm_onnx
from common import FOLDER

PAIR = ["A man is eating food.", "Someone is having a meal.", "The GPU runs matrix multiplications."]
KNOWN = [0.6888, -0.0573]
WORDS = "the quick brown fox jumps over a lazy dog while seven unbelievable wizards, quietly, box \u00e9t\u00e9 42 times".split()


def made(generator, words):
    return " ".join(generator.choice(WORDS, words))


def encode(program, texts, more):
    done = subprocess.run([program, "--json", *more, "--", *texts], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(texts), f"{len(lines)} vectors for {len(texts)} sentences"
    return [line["ids"] for line in lines], numpy.array([line["vector"] for line in lines])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=FOLDER / "target/release/sentences")
    arguments = parser.parse_args()
    generator = numpy.random.default_rng(0)
    # Batches of 1, of unequal lengths, full ones, and what is cut at 256 tokens.
    cases = [PAIR, [made(generator, 1)], [made(generator, 40)], [made(generator, 300), made(generator, 3)]]
    cases += [[made(generator, n) for n in generator.integers(1, 60, size)] for size in (2, 5, 16, 20)]
    worst = {"built": 0.0, "imported": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "minilm.onnx")
        minilm_onnx.write(file)
        session = onnxruntime.InferenceSession(str(file))
        for texts in cases:
            found = {"built": encode(arguments.program, texts, [])}
            found["imported"] = encode(arguments.program, texts, ["--onnx", file])
            ids = found["built"][0]
            assert ids == found["imported"][0]
            lengths = [len(row) for row in ids]
            mask = (numpy.arange(max(lengths)) < numpy.array(lengths)[:, None]).astype(numpy.int64)
            padded = numpy.zeros_like(mask)
            for row, tokens in zip(padded, ids):
                row[: len(tokens)] = tokens
            (expected,) = session.run(None, {"ids": padded, "mask": mask})
            difference = {how: float(numpy.abs(v - expected).max()) for how, (_, v) in found.items()}
            worst = {how: max(worst[how], d) for how, d in difference.items()}
            text = ", ".join(f"{how} {d:.2e}" for how, d in difference.items())
            print(f"{len(texts)} sentences of {min(lengths)} to {max(lengths)} tokens: {text}")
            if texts is PAIR:
                vectors = found["built"][1]
                similar = vectors[1:] @ vectors[0]
                print(f"similarities {similar.round(4)}, expected {KNOWN}")
                assert numpy.abs(similar - KNOWN).max() < 1e-4
    print(", ".join(f"{how}: greatest difference {d:.2e}" for how, d in worst.items()))
    if not max(worst.values()) <= 1e-5:
        raise SystemExit("expected 1e-5 at most")


if __name__ == "__main__":
    main()
