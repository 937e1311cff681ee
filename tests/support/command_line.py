"""What a command said."""


def refused(found: tuple[int, str, str], code: int, *words: str) -> None:
    """One line on stderr that holds the words, nothing on stdout, the exit code."""
    assert found[0] == code, found
    assert found[1] == ""
    assert found[2].startswith("pilotstudy: ")
    assert found[2].count("\n") == 1
    assert "Traceback" not in found[2]
    for word in words:
        assert word in found[2]
