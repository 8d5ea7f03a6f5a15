#!/usr/bin/env python3
"""Renders text and compares what the program `ocr` reads with it: lines of several sizes, one that stands on its head, one
beside another, a slanted and a vertical one, light text on dark ground. All must be equal, in reading order, but for spaces.

    check/check_ocr.py [--program PROGRAM] [--font FONT.ttf] [--keep PICTURE.png]

The networks themselves are compared with onnxruntime by tools/check_models.py. Needs Pillow and a font (Debian package
fonts-dejavu-core)."""

import argparse
import json
import pathlib
import subprocess
import tempfile
import unicodedata

from PIL import Image, ImageDraw, ImageFont

from common import FOLDER

FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
# Text, middle, size, turn in degrees (counterclockwise), in reading order.
LINES = [
    ("Serinette", (330, 70), 64, 0),
    ("Compiled once", (200, 170), 28, 0),
    ("run anywhere", (640, 170), 36, 0),
    ("upside down 180", (450, 240), 32, 180),
    ("0123456789", (180, 310), 22, 0),
    ("Total: 271.82 EUR, 31.4 % off", (560, 320), 22, 0),
    ("A slanted line of text", (300, 450), 30, 10),
    ("vertical", (850, 480), 32, -90),
    ("small print, 14 pixels high", (240, 580), 14, 0),
]


def render(font, ink, ground):
    picture = Image.new("RGB", (960, 640), ground)
    for text, (x, y), size, turn in LINES:
        face = ImageFont.truetype(font, size)
        left, top, right, bottom = face.getbbox(text)
        mask = Image.new("L", (right - left + 4, bottom - top + 4))
        ImageDraw.Draw(mask).text((2 - left, 2 - top), text, 255, face)
        mask = mask.rotate(turn, Image.Resampling.BICUBIC, expand=True)
        picture.paste(ink, (x - mask.width // 2, y - mask.height // 2), mask)
    return picture


def squeezed(text):
    """Without spaces, and wide forms of characters as plain ones: the network is not sure of these beside punctuation."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=FOLDER / "target/release/ocr")
    parser.add_argument("--font", default=FONT, metavar="FONT.ttf")
    parser.add_argument("--keep", type=pathlib.Path, metavar="PICTURE.png", help="writes the first picture there")
    arguments = parser.parse_args()
    wrong = 0
    for name, ink, ground in (("dark on light", (20, 20, 20), (250, 250, 245)), ("light on dark", (240, 240, 160), (30, 40, 60))):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "text.png")
            picture = render(arguments.font, ink, ground)
            picture.save(file)
            if arguments.keep:
                picture.save(arguments.keep)
                arguments.keep = None
            done = subprocess.run([arguments.program, "--json", file], capture_output=True, text=True, check=True)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        print(f"{name}:")
        for line in found:
            (left, top), right = line["corners"][0], line["corners"][1]
            print(f"  {line['confidence']:.3f}  {left:.0f},{top:.0f} to {right[0]:.0f},{right[1]:.0f}  {line['text']}")
        expected, read = [text for text, *_ in LINES], [line["text"] for line in found]
        same = sum(a == b for a, b in zip(read, expected))
        print(f"  {same} of {len(expected)} lines to the character, spaces included")
        if [squeezed(t) for t in read] != [squeezed(t) for t in expected]:
            wrong += 1
            print(f"  expected {expected}")
    if wrong:
        raise SystemExit(f"{wrong} pictures were read otherwise")


if __name__ == "__main__":
    main()
