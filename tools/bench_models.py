#!/usr/bin/env python3
"""Times the real models of check_models.py on the host beside onnxruntime, one thread each, in turns. Needs numpy, onnx and
onnxruntime.

    bench_models.py [--serinette PROGRAM] [--models DIR] [--rounds N] [NAME...]

Columns: the median of the rounds' medians in ms, and ours as a multiple of theirs; the first result in ms (ours from the start
of the process with the blob, theirs loading the model and running once in a process that is up); memory in MB (ours the
peak of the process, theirs the peak less what the process had before it loaded the model). Each model runs with the inputs of its
first case."""

import argparse
import json
import multiprocessing
import pathlib
import resource
import statistics
import sys
import tempfile
import time

import numpy
import onnxruntime

from check_models import MODELS, default_models, run

# Timed runs of a round: for about a second, within these.
FEWEST, MOST = 5, 500


def theirs(path, inputs):
    """Median, first result (ms) and memory (MB) of onnxruntime. To be called in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    session.run(None, inputs)
    first = time.perf_counter() - started
    times = []
    while len(times) < FEWEST or (sum(times) < 1 and len(times) < MOST):
        started = time.perf_counter()
        session.run(None, inputs)
        times.append(time.perf_counter() - started)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return statistics.median(times) * 1e3, first * 1e3, grown / 1024


def ours(program, blob, inputs):
    """The same of `serinette bench`."""
    done = json.loads(run([program, "bench", blob, "-d", "host", "--threads", "1", "--json", "-i", inputs]))
    return done["median_ms"], done["first_result_ms"], done["peak_rss_bytes"] / 2**20


def measure(name, arguments, folder):
    model = MODELS[name]
    path, blob, npz = arguments.models / model.path, folder / "model.srn", folder / "in.npz"
    if model.prepare:
        original, path = path, folder / "model.onnx"
        model.prepare(original, path)
    run([arguments.serinette, "compile", path, "-o", blob, *model.compile])
    inputs = model.cases[0](numpy.random.default_rng(0))
    numpy.savez(npz, **inputs)
    rounds = []
    for _ in range(arguments.rounds):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            peer = pool.apply(theirs, (str(path), {**inputs, **model.fixed}))
        rounds.append((ours(arguments.serinette, blob, npz), peer))
    mine, other = ([statistics.median(r[side][i] for r in rounds) for i in range(3)] for side in (0, 1))
    row = f"{mine[0]:.3f} | {other[0]:.3f} | {mine[0] / other[0]:.2f} | {mine[1]:.1f} | {other[1]:.1f} | {mine[2]:.0f} | {other[2]:.0f}"
    print(f"| {name} | {row} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serinette", type=pathlib.Path, default=pathlib.Path("target/release/serinette"))
    parser.add_argument("--models", type=pathlib.Path, default=default_models())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    arguments = parser.parse_args()
    unknown = [n for n in arguments.names if n not in MODELS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(MODELS)}")
    print(f"onnxruntime {onnxruntime.__version__}, {arguments.rounds} rounds")
    print("| model | ms | onnxruntime | ratio | first, ms | onnxruntime | MB | onnxruntime |\n|---|---|---|---|---|---|---|---|")
    failed = False
    for name in arguments.names or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                measure(name, arguments, pathlib.Path(folder))
            except (RuntimeError, ValueError, KeyError, OSError) as e:
                print(f"{name}: {e}", file=sys.stderr)
                failed = True
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
