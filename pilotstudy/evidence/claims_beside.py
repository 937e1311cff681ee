"""The claims of several runs beside each other: one for each statement, with the verdict of every run on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from pilotstudy.evidence.claims import Judged, judge_all
from pilotstudy.evidence.run_evidence import RunEvidence
from pilotstudy.study.spec import Claim


@dataclass(frozen=True)
class ClaimBeside:
    """`verdicts`: of each run, in their order; None where its study does not state the claim, or nothing has ended."""

    says: str
    holds: str
    section: str
    verdicts: tuple[Judged | None, ...]

    @classmethod
    def of_one(cls, judged: Judged) -> Self:
        return cls(judged.says, judged.holds, judged.section, (judged,))

    @property
    def judged(self) -> list[Judged]:
        return [verdict for verdict in self.verdicts if verdict]


def claims_beside(runs: Sequence[RunEvidence], extra: Sequence[Claim] = ()) -> list[ClaimBeside]:
    """In the order in which the studies state them. Each verdict is corrected for all claims of its own study.

    `extra`: claims that are asked of every run besides.
    """
    by_run = [judge_all(evidence, extra) if evidence.trials else [] for evidence in runs]
    first: dict[str, Judged] = {}
    for judged in by_run:
        for claim in judged:
            first.setdefault(claim.holds, claim)
    found = [{claim.holds: claim for claim in judged} for judged in by_run]
    return [
        ClaimBeside(claim.says, holds, claim.section, tuple(own.get(holds) for own in found))
        for holds, claim in first.items()
    ]
