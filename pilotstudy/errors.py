"""Everything that can go wrong in a way a user can mend. Each kind has its exit code; the message is one line."""


class PilotstudyError(Exception):
    """What is wrong, where, and what to do about it."""

    exit_code = 1


class InputError(PilotstudyError):
    """An unknown study, arm, key or data set, or a value that does not fit."""

    exit_code = 2


class DeviceError(InputError):
    """A GPU was asked for and cannot be used on this node."""


class CaptureError(PilotstudyError):
    """Steps that cannot be captured as a CUDA graph; the trial starts again with ordinary ones."""


class DataError(PilotstudyError):
    """A data set that cannot be had, or that is damaged."""

    exit_code = 3


class DivergedError(PilotstudyError):
    """A training loss that is not finite."""

    exit_code = 4

    def __init__(self, epoch: int):
        super().__init__(f"the loss was not finite in epoch {epoch}: lower the learning rate or the decoder's")
        self.epoch = epoch


class CheckpointError(PilotstudyError):
    """A checkpoint that is damaged or belongs to another trial."""

    exit_code = 5


class StorageError(PilotstudyError):
    """A file that cannot be written."""

    exit_code = 6


class RunLockedError(PilotstudyError):
    """A run folder that another process is working on."""

    exit_code = 7


class NotDoneError(PilotstudyError):
    """A run that ended before all of its trials did: stopped, out of time, or with trials that failed."""

    exit_code = 8


class InterruptedRunError(PilotstudyError):
    """Ctrl-C, after everything was saved."""

    exit_code = 130


def nearest(word: str, known: "list[str] | tuple[str, ...]") -> str:
    """A question or a list, to end a sentence of an error message with."""
    from difflib import get_close_matches

    near = get_close_matches(word, known, 1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
