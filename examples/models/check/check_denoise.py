#!/usr/bin/env python3
"""Compares what the program `denoise` makes of noisy speech with the same algorithm in numpy over onnxruntime, sample by
sample, and says how much less noise there is.

    check/check_denoise.py [--program PROGRAM] SPEECH.wav...

Files of one multiple of 16 kHz (Debian package alsa-utils: /usr/share/sounds/alsa), one after the other, plus noise made
here: white, and white through a low-pass filter. Needs numpy and onnxruntime."""

import argparse
import pathlib
import subprocess
import tempfile
import wave

import numpy
import onnxruntime

from common import FOLDER, model

FRAME, HOP = 512, 128


def read(path):
    """Samples at 16 kHz: of the spectrum, what is above 8 kHz is cut off."""
    with wave.open(str(path)) as file:
        assert file.getsampwidth() == 2, f"{path}: expected 16 bits"
        x = numpy.frombuffer(file.readframes(file.getnframes()), numpy.int16).astype(float) / 32768
        x = x.reshape(-1, file.getnchannels())[:, 0]
        step, rest = divmod(file.getframerate(), 16000)
    assert rest == 0, f"{path}: expected a multiple of 16 kHz"
    n = len(x) // step
    return numpy.fft.irfft(numpy.fft.rfft(x[: n * step])[: n // 2 + 1], n) / step


def reference(x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    sessions = [
        onnxruntime.InferenceSession(str(model(f"dtln/livekit/plugins/dtln/models/model_{i}.onnx")), options) for i in (1, 2)
    ]
    states = [numpy.zeros((1, 2, 128, 2), numpy.float32) for _ in sessions]

    def run(i, x):
        names = [v.name for v in sessions[i].get_inputs()]
        y, states[i] = sessions[i].run(None, dict(zip(names, (x.astype(numpy.float32).reshape(1, 1, -1), states[i]))))
        return y.reshape(-1)

    hops = -(-(len(x) + FRAME - HOP) // HOP)
    padded = numpy.pad(x, (FRAME - HOP, hops * HOP - len(x)))
    total = numpy.zeros(len(padded))
    for at in range(0, hops * HOP, HOP):
        spectrum = numpy.fft.rfft(padded[at : at + FRAME])
        total[at : at + FRAME] += run(1, numpy.fft.irfft(run(0, numpy.abs(spectrum)) * spectrum))
    return total[FRAME - HOP :][: len(x)]


def ratio(x, speech):
    """Signal to noise in dB, the signal being the part of `x` that is a multiple of the speech."""
    part = speech * (x @ speech) / (speech @ speech)
    return 10 * numpy.log10((part @ part) / ((x - part) @ (x - part)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=FOLDER / "target/release/denoise")
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="SPEECH.wav")
    arguments = parser.parse_args()
    speech = numpy.concatenate([read(path) for path in arguments.files])
    white = numpy.random.default_rng(1).standard_normal(len(speech) + 15)
    low = numpy.convolve(white, numpy.hanning(16), "valid")
    worst = 0.0
    for kind, noise in (("white", white[15:]), ("low", low)):
        for level in (0, 10):
            noise = noise * numpy.sqrt(speech @ speech / (noise @ noise) / 10 ** (level / 10))
            pcm = numpy.clip(numpy.round((speech + noise) * 32768 * 0.5), -32768, 32767).astype("<i2")
            with tempfile.TemporaryDirectory() as folder:
                noisy, clean, raw = (pathlib.Path(folder, n) for n in ("noisy.wav", "clean.wav", "clean.f32"))
                with wave.open(str(noisy), "wb") as file:
                    file.setparams((1, 2, 16000, 0, "NONE", None))
                    file.writeframes(pcm.tobytes())
                done = subprocess.run(
                    [arguments.program, noisy, clean, "--raw", raw], capture_output=True, text=True, check=True
                )
                found = numpy.fromfile(raw, "<f4").astype(float)
                written = read(clean)
            x = pcm / 32768
            expected = reference(x)
            assert found.shape == expected.shape, f"{found.shape} samples, expected {expected.shape}"
            assert numpy.abs(found - written).max() <= 0.51 / 32768, "the WAV file holds other samples"
            difference = float(numpy.abs(found - expected).max())
            worst = max(worst, difference)
            print(
                f"{kind} noise: {ratio(x, speech):.1f} dB before, {ratio(found, speech):.1f} dB after; difference "
                f"{difference:.2e} of samples up to {numpy.abs(expected).max():.2f}; {done.stdout.strip()}"
            )
    if not worst <= 1e-4:
        raise SystemExit(f"the greatest difference is {worst:.2e}, expected 1e-4 at most")


if __name__ == "__main__":
    main()
