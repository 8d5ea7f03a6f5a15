"""Fashion-MNIST files and the one input normalisation that all scripts here share."""

import gzip
import struct
from pathlib import Path

import numpy as np

LABELS = [
    "t_shirt", "trouser", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "ankle_boot",
]

DEFAULT_DIR = "/usr/share/datasets/fashion-mnist"  # where Debian's dataset-fashion-mnist puts it

# value = (pixel - MEAN) * SCALE.  The training set has mean 0.2860 * 255 = 72.9
# and standard deviation 0.3530 * 255.  The mean is rounded to a whole pixel, so
# that the int8 model's input quantisation is exactly q = pixel - 128.
MEAN = 73.0
STD = 0.353
SCALE = 1.0 / (255.0 * STD)


def _idx(path, magic, dims):
    """Read one gzipped IDX file of unsigned bytes."""
    if not path.is_file():
        raise SystemExit(f"error: {path} not found (install dataset-fashion-mnist, or pass --data DIR)")
    raw = gzip.decompress(path.read_bytes())
    head = struct.unpack_from(f">{1 + dims}I", raw)
    if head[0] != magic:
        raise SystemExit(f"error: {path} is no IDX file of the expected kind")
    return np.frombuffer(raw, np.uint8, offset=4 * (1 + dims)).reshape(head[1:])


def load(directory, split):
    """Return (images uint8 [n,28,28], labels int64 [n]); split is "train" or "t10k"."""
    directory = Path(directory)
    images = _idx(directory / f"{split}-images-idx3-ubyte.gz", 2051, 3)
    labels = _idx(directory / f"{split}-labels-idx1-ubyte.gz", 2049, 1)
    return images, labels.astype(np.int64)


def normalise(images):
    """uint8 [n,28,28] -> float32 [n,1,28,28], as hint.json tells the runtime to do it."""
    return ((images[:, None].astype(np.float32) - np.float32(MEAN)) * np.float32(SCALE))
