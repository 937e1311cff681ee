"""Folders of small pictures, in the layouts that users have."""

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def pictures(n: int, size: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, size, size, 3), dtype=np.uint8)


def parquet_folder(folder: Path, column: str = "image", plain: bool = False, names=("cat", "dog", "eel")) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split_, n in ("train", 30), ("test", 12):
        encoded = [png(p) for p in pictures(n, seed=n)]
        table = pa.table({column: encoded if plain else [{"bytes": e} for e in encoded], "label": np.arange(n) % 3})
        if names:
            features = {"info": {"features": {"label": {"names": names}}}}
            table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
        pq.write_table(table, folder / f"{split_}-00000-of-00001.parquet")
    return folder


def image_folder(folder: Path) -> Path:
    for split_, n in ("train", 30), ("test", 12):
        for row, picture in enumerate(pictures(n, seed=n)):
            path = folder / split_ / ("cat", "dog", "eel")[row % 3] / f"{row:03}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(picture))
    return folder
