"""Checkpoints: everything a trial needs to go on, in one file that holds tensors and plain values only."""

import io
import pickle
import warnings
from pathlib import Path
from typing import Any

import torch

from pilotstudy.errors import CheckpointError
from pilotstudy.files import source, write

FORMAT = 1


def save(path: Path, content: dict[str, Any]) -> None:
    buffer = io.BytesIO()
    torch.save({"format": FORMAT} | content, buffer)
    write(path, lambda file: file.write(buffer.getbuffer()))


def load(path: Path) -> dict[str, Any] | None:
    """What `save` wrote, on the CPU, or None where there is no file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = torch.load(source(path), map_location="cpu", weights_only=True)
    except FileNotFoundError:
        return None
    except pickle.UnpicklingError as error:
        raise CheckpointError(f"{path} holds more than tensors and was not opened: delete it to start anew") from error
    except (RuntimeError, EOFError, ValueError, KeyError, OSError) as error:
        raise CheckpointError(f"{path} is damaged: delete it to start anew") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of this version: delete it to start anew")
    return content
