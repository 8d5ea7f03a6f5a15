#!/usr/bin/env python3
"""Compares labels and scores of the program `magika` with those of the python package.

    check/check_magika.py [--program PROGRAM] FILE...

Labels must be equal. Scores may differ by 0.005: the network computes variances as the mean square less the squared mean,
in f32; of short files, mostly padding, they are 1e-5 of the squares, and the order of additions shows in the score.

Needs the package (pip install magika==1.0.3). Among the files are always some made here: empty, short, blank, random."""

import argparse
import pathlib
import random
import subprocess
import tempfile

import magika

from common import FOLDER


def made(folder):
    """Files in which what is decided without the network matters."""
    generator = random.Random(1)
    contents = {
        "empty": b"",
        "short": b"ab\n",
        "not_text": b"\xff\xfe\x00",
        "blank": b" \n" * 3000,
        "few_between_blanks": b" " * 40 + b"word" + b"\n" * 40,
        "random": generator.randbytes(9000),
        "vertical_tab": b"\x0b\x0b def f(x):\n    return x + 1\n",
        "long_blank_start": b"\n" * 5000 + b"import os\nprint(os.getcwd())\n" * 40,
    }
    for name, content in contents.items():
        path = pathlib.Path(folder, name)
        path.write_bytes(content)
        yield path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=FOLDER / "target/release/magika")
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_args()
    wrong, worst, kinds = 0, 0.0, set()
    with tempfile.TemporaryDirectory() as folder:
        files = [*arguments.files, *made(folder)]
        done = subprocess.run([arguments.program, "--tabs", *files], capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        assert len(lines) == len(files), f"{len(lines)} lines for {len(files)} files"
        for line, expected in zip(lines, magika.Magika().identify_paths(files)):
            path, label, network, score = line.split("\t")
            want = (str(expected.path), str(expected.output.label), str(expected.dl.label))
            difference = abs(float(score) - expected.score)
            worst = max(worst, difference)
            kinds.add(label)
            if (path, label, network) != want or not difference <= 5e-3:
                wrong += 1
                print(f"{line}: expected {want}, {expected.score}")
    print(f"{len(files)} files of {len(kinds)} kinds, greatest difference of scores {worst:.2e}: {', '.join(sorted(kinds))}")
    if wrong:
        raise SystemExit(f"{wrong} differ")


if __name__ == "__main__":
    main()
