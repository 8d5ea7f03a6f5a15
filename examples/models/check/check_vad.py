#!/usr/bin/env python3
"""Compares the probabilities of the program `vad` with those of onnxruntime, frame by frame.
onnxruntime runs another export of the network (`silero_vad.onnx`) than the program does.

    check/check_vad.py [--program PROGRAM] FILE.wav...

Files of 48 kHz (Debian package alsa-utils: /usr/share/sounds/alsa) are decimated by 3. Needs numpy and onnxruntime."""

import argparse
import pathlib
import subprocess
import tempfile
import wave

import numpy
import onnxruntime

from common import FOLDER, model


def read(path):
    with wave.open(str(path)) as file:
        assert file.getsampwidth() == 2, f"{path}: expected 16 bits"
        x = numpy.frombuffer(file.readframes(file.getnframes()), numpy.int16)
        x = x.reshape(-1, file.getnchannels())[:, 0]
        step, rest = divmod(file.getframerate(), 16000)
    assert rest == 0, f"{path}: expected a multiple of 16 kHz"
    return x[::step]


def reference(samples):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model("silero/silero_vad/data/silero_vad.onnx")), options)
    x = samples.astype(numpy.float32) / 32768
    x = numpy.pad(x, (64, -len(x) % 512))
    state = numpy.zeros((2, 1, 128), numpy.float32)
    found = []
    for at in range(0, len(x) - 64, 512):
        frame = x[None, at : at + 576]
        p, state = session.run(None, {"input": frame, "state": state, "sr": numpy.array(16000)})
        found.append(p[0, 0])
    return numpy.array(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=FOLDER / "target/release/vad")
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE.wav")
    arguments = parser.parse_args()
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        wav, text = pathlib.Path(folder, "in.wav"), pathlib.Path(folder, "out.txt")
        for path in arguments.files:
            samples = read(path)
            with wave.open(str(wav), "wb") as file:
                file.setparams((1, 2, 16000, 0, "NONE", None))
                file.writeframes(samples.tobytes())
            done = subprocess.run(
                [arguments.program, wav, "--probabilities", text], capture_output=True, text=True, check=True
            )
            found, expected = numpy.loadtxt(text, ndmin=1), reference(samples)
            assert found.shape == expected.shape, f"{path}: {found.shape} frames, expected {expected.shape}"
            difference = float(numpy.abs(found - expected).max())
            worst = max(worst, difference)
            print(f"{path.name}: {(expected >= 0.5).sum()} of {len(expected)} frames speech, difference {difference:.2e}")
            print(done.stdout, end="")
    if not worst <= 1e-4:
        raise SystemExit(f"the greatest difference is {worst:.2e}, expected 1e-4 at most")


if __name__ == "__main__":
    main()
