"""What a run may be called: its name is that of a folder, which must stay within the folder of runs."""

from pilotstudy.errors import InputError
from pilotstudy.study.faults import shown

LONGEST = 100  # letters; file systems count bytes, and have room for 255
MOST_BYTES = 200


def wrong_name(name: object) -> str:
    """Why a run cannot have this name; empty if it can."""
    if not isinstance(name, str):
        return "a name is a text"
    if not name.strip():
        return "a name cannot be empty"
    if "/" in name or "\\" in name:
        return "a name is that of a folder, not a path: leave out slashes"
    if not name.isprintable():
        return "a name has no control characters"
    if name.startswith("."):
        return "a name does not begin with a dot"
    if name[-1] in " ." or name[0] == " ":
        return "a name does not begin or end with a space, or end with a dot"
    if len(name) > LONGEST or len(name.encode()) > MOST_BYTES:
        return f"a name has at most {LONGEST} letters"
    return ""


def check_run_name(name: str, said: str = "--name") -> str:
    """The name, if a run can have it. `said`: where it was given."""
    if why := wrong_name(name):
        raise InputError(f"{said} {shown(name)}: {why}")
    return name
