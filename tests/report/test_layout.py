"""Tables that fit a width: what is left out is named, and what stays is whole."""

import pytest

from pilotstudy.report.layout import Column, command_text, lines_of, table_text, tables_text


def columns(narrow: bool = False) -> list[Column]:
    return [
        Column("row", ["vanilla", "dropout@mc@tuned"], least=8),
        Column("accuracy", ["0.91" if narrow else "0.9100", "0.92" if narrow else "0.9200"]),
        Column("low", ["0.10", "0.11"], extra="intervals"),
        Column("floor", ["0.01", "0.02"], extra="floors"),
        Column("high", ["0.20", "0.21"], extra="intervals"),
    ]


def test_without_a_width_there_is_every_column():
    assert table_text(columns(), None).splitlines()[0].split() == ["row", "accuracy", "low", "floor", "high"]


@pytest.mark.parametrize("width", range(24, 60))
def test_extras_are_shown_together_or_named(width):
    text = tables_text([("a title", columns)], width)
    assert max(map(len, text.splitlines())) <= width
    shown = text.splitlines()[1].split()
    assert ("low" in shown) == ("high" in shown)
    for extra, heading in ("intervals", "low"), ("floors", "floor"):
        assert (heading in shown) != (extra in text), width
    assert ("--wide" in text) == (len(shown) < 5)


def test_what_cannot_be_left_out_is_folded_below():
    needed = [Column("row", ["a", "b"]), *(Column(f"metric{n}", [f"{n}.{n}{n}", f"-{n}.{n}{n}"]) for n in range(6))]
    text = table_text(needed, 30)
    assert max(map(len, text.splitlines())) <= 30
    for n in range(6):
        for part in (f"metric{n}", f"{n}.{n}{n}", f"-{n}.{n}{n}"):
            assert part in text
    assert text.count("row") == 2
    together = [needed[0], *(Column(c.heading, c.cells, group="123"[place // 2]) for place, c in enumerate(needed[1:]))]
    assert table_text(together, 36).split("\n\n")[1].split()[:3] == ["row", "metric2", "metric3"]


def test_cells_are_broken_where_a_reader_would():
    assert lines_of("pilot-a-aug@mc@tuned", 12) == ["pilot-a-aug", "@mc@tuned"]
    assert lines_of("multi-sample-dropout", 14) == ["multi-sample-", "dropout"]
    assert lines_of("no difference can be seen", 13) == ["no difference", "can be seen"]
    assert lines_of("abcdefghij", 4) == ["abcd", "efgh", "ij"]


def test_a_long_command_can_be_pasted():
    command = "pilotstudy run mine --seeds 12 --set 'training.schedule={name = \"cosine\"}' --runs-dir /a/long/place"
    lines = command_text(command, 40).splitlines()
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert max(map(len, lines[:1])) <= 40
    assert not any(line.endswith((" --seeds \\", " --set \\", " --runs-dir \\")) for line in lines)
    assert " ".join(line.strip().removesuffix(" \\") for line in lines) == command
