"""Makes the embedded data set beside this file from Debian's package dataset-fashion-mnist (MIT, see LICENSE).

    apt-get install dataset-fashion-mnist && python pilotstudy/data/fashion/make.py

The first 1,000 training and 500 test images of each class, in their original order, as an xz-compressed .npz: smaller
than any image format (5.6 MB), for the images share more with each other than within themselves.
"""

import gzip
import io
import lzma
import sys
from pathlib import Path

import numpy as np


def read_idx(path: Path, header: int) -> np.ndarray:
    return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=header)


def make(source: Path, target: Path) -> None:
    arrays: dict[str, np.ndarray] = {}
    for split, prefix, each in ("train", "train", 1000), ("test", "t10k", 500):
        images = read_idx(source / f"{prefix}-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
        labels = read_idx(source / f"{prefix}-labels-idx1-ubyte.gz", 8)
        rows = np.sort(np.concatenate([np.flatnonzero(labels == k)[:each] for k in range(10)]))
        arrays |= {f"{split}_images": images[rows], f"{split}_labels": labels[rows].astype(np.int64)}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    target.write_bytes(lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    source = Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/datasets/fashion-mnist")
    make(source, Path(__file__).with_name("fashion.npz.xz"))
