#!/usr/bin/env python3
"""Write samples/*.png, one test image of each class, and expected.json for them.

The first test image of each class is taken that both models classify right.
"""

import argparse
import json
from pathlib import Path

from PIL import Image

import data
from evaluate import open_model, predict

MODELS = {"fashion": "fashion.onnx", "fashion_int8": "fashion_int8.onnx"}


def main():
    here = Path(__file__).parent
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--data", default=data.DEFAULT_DIR, metavar="DIR", help="folder of the four IDX .gz files")
    ap.add_argument("--out", default=here, type=Path, metavar="DIR", help="folder of the two models")
    args = ap.parse_args()
    for name in MODELS.values():
        if not (args.out / name).is_file():
            ap.error(f"{args.out / name} not found (run train.py and quantize.py first)")

    images, labels = data.load(args.data, "t10k")
    images, labels = images[:500], labels[:500]  # enough to find one of each class
    probs = {key: predict(open_model(args.out / name), images) for key, name in MODELS.items()}
    folder = args.out / "samples"
    folder.mkdir(exist_ok=True)
    expected = {}
    for label, name in enumerate(data.LABELS):
        index = next(i for i in range(len(labels))
                     if labels[i] == label and all(p[i].argmax() == label for p in probs.values()))
        file = f"{name}_0.png"
        Image.fromarray(images[index]).save(folder / file, optimize=True)
        expected[file] = {
            "label": name, "class": label, "test_index": index,
            **{key: {"label": name, "probability": round(float(p[index].max()), 6)} for key, p in probs.items()},
        }
    (args.out / "expected.json").write_text(json.dumps(expected, indent=2) + "\n")


if __name__ == "__main__":
    main()
