"""Results as a notebook shows them: an HTML table there, elsewhere the text that the command prints."""

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pilotstudy.errors import InputError
from pilotstudy.evidence.claims import Judged
from pilotstudy.evidence.ensembles import EnsembleRow
from pilotstudy.evidence.summary import Optimism, SummaryRow
from pilotstudy.report import plain, texts
from pilotstudy.report.formats import FORMATS, as_html, as_text, table_rows
from pilotstudy.report.layout import Column
from pilotstudy.report.table import Table

if TYPE_CHECKING:
    import pandas
    import pyarrow

Record = Mapping[str, object]


class Shown:
    """Records, one after another. `to_pandas()` gives a data frame of them, where pandas is installed."""

    def __init__(self, records: Sequence[Record], text: str, html: str):
        self.records, self._text, self._html = list(records), text, html

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __getitem__(self, place: int) -> Record:
        return self.records[place]

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._html

    def to_arrow(self) -> "pyarrow.Table":
        import pyarrow as pa

        return pa.Table.from_pylist([dict(record) for record in self.records])

    def to_pandas(self) -> "pandas.DataFrame":
        try:
            return self.to_arrow().to_pandas()
        except ImportError as error:
            raise InputError("a data frame needs pandas: `pip install pandas`; `.records` needs nothing") from error


class ShownTable(Shown):
    """A table to publish; `to("latex")` gives it as text, markdown, latex, csv, json or html."""

    def __init__(self, table: Table):
        super().__init__(table_rows(table), as_text(table), as_html(table))
        self.table = table

    def to(self, form: str) -> str:
        if form not in FORMATS:
            raise InputError(f"{form!r}: known are {', '.join(FORMATS)}")
        return FORMATS[form](self.table)


def html_table(rows: Sequence[Record], caption: str = "") -> str:
    """Everything in it is text."""
    if not rows:
        return f"<p>{html.escape(caption)}</p>"
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in rows[0])
    cells = ("".join(f"<td>{html.escape(plain.cell_text(value))}</td>" for value in row.values()) for row in rows)
    body = "\n".join(f"<tr>{line}</tr>" for line in cells)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>\n{title}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def shown_records(records: Sequence[Record]) -> Shown:
    return Shown(records, plain.table(records), html_table(records))


def shown_claims(judged: Sequence[Judged], reservations: Sequence[str]) -> Shown:
    lines = [
        {
            "verdict": claim.verdict,
            "claim": claim.says,
            "statement": claim.holds,
            "left − right": "" if claim.difference is None else f"{claim.difference:+.4f}",
            "95 %": "" if claim.low is None else f"{claim.low:+.4f} to {claim.high:+.4f}",
            "p, corrected": "" if claim.p_holm is None else f"{claim.p_holm:.2g}",
            "rests on": "; ".join(filter(None, [claim.budget, claim.reason])),
            "stated": claim.stated,
        }
        for claim in judged
    ]
    return Shown(
        [claim.record() for claim in judged],
        texts.claims_text(judged, reservations),
        html_table(lines, " ".join(reservations) if lines else "the study states no claims"),
    )


def shown_results(rows: Sequence[SummaryRow], optimism: Sequence[Optimism]) -> Shown:
    title = "test figures, mean ± sample deviation over seeds; ° the best mean of several seeds at its epoch"
    columns = texts.results_columns(rows, narrow=False)
    lines = [{"row": str(row.row), "epoch": row.at} for row in rows]
    return Shown(
        [row.record() for row in rows], texts.results_text(rows, optimism), html_columns(lines, columns, title)
    )


def shown_ensembles(rows: Sequence[EnsembleRow]) -> Shown:
    title = "° the best figure"
    lines = [{"row": str(row.row), "recalibration": row.recalibration} for row in rows]
    columns = texts.ensembles_columns(rows)
    return Shown([row.record() for row in rows], texts.ensembles_text(rows), html_columns(lines, columns, title))


def html_columns(lines: Sequence[Record], columns: Sequence[Column], caption: str) -> str:
    """The columns of a text beside what names its lines, in place of their first."""
    others = [{column.heading: column.cells[place] for column in columns[1:]} for place in range(len(lines))]
    return html_table([{**line, **other} for line, other in zip(lines, others, strict=True)], caption)
