"""Checkpoints: everything a trial needs to go on, in one file that holds tensors and plain values only."""

import io
import pickle
import threading
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import torch
from torch.utils._pytree import tree_map

from pilotstudy.errors import CheckpointError, StorageError
from pilotstudy.storage import check_format, readable, write
from pilotstudy.trial.trainer import State

FORMAT = 2
SHARE = 20  # saving may take a twentieth of the time, at most

Content = Mapping[str, object]  # tensors and plain values, nested


def save(path: Path, content: Content) -> None:
    """Writes a trainer's state."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT} | on_cpu(content, copy=False), buffer)
    write(path, lambda file: file.write(buffer.getbuffer()))


def on_cpu(content: Content, *, copy: bool) -> dict[str, object]:
    """Every tensor on the CPU, so that any machine can read it."""
    moved: dict[str, object] = tree_map(
        lambda value: value.detach().to("cpu", copy=copy) if isinstance(value, torch.Tensor) else value, content
    )
    return moved


def load(path: Path) -> State | None:
    """What `save` wrote, on the CPU, or None where there is no file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = torch.load(readable(path), map_location="cpu", weights_only=True)
    except FileNotFoundError:
        return None
    except pickle.UnpicklingError as error:
        raise CheckpointError(f"{path} holds more than tensors and was not opened: delete it to start again") from error
    except (RuntimeError, EOFError, ValueError, KeyError, OSError) as error:
        raise CheckpointError(f"{path} is damaged: delete it to start again") from error
    check_format(path, content, FORMAT)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of this version: delete it to start again")
    return cast(State, content)  # `Trainer.restore` finds out whether that is so


class Saver:
    """Writes checkpoints beside the training: at most every `seconds`, and less often where a save takes long.

    The next one waits until `SHARE` times as long has passed as the last one took, copying and writing together.
    """

    def __init__(self, path: Path, seconds: float):
        self.path, self.seconds = path, seconds
        self._thread: threading.Thread | None = None
        self._error: StorageError | None = None
        self._took = 0.0
        self._ended = time.monotonic()

    def due(self) -> bool:
        """Whether it is time. Raises what went wrong with the last one."""
        if self._thread is not None and self._thread.is_alive():
            return False
        self.wait()
        return time.monotonic() - self._ended >= max(self.seconds, SHARE * self._took)

    def save(self, content: Content) -> None:
        """Copies the content, which may change from now on, and writes the copy."""
        self.wait()
        started = time.monotonic()
        copied = on_cpu(content, copy=True)

        def work() -> None:
            try:
                save(self.path, copied)
            except StorageError as error:
                self._error = error
            self._ended = time.monotonic()
            self._took = self._ended - started

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until what was given is written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error
