"""The searcher that stands between a study's plan and Ray Tune, and what Tune tells it."""

from pathlib import Path

from tests.support.plans import make_study


def make_searcher(folder: Path, **placement):
    from pilotstudy.cluster.capacity import Placement
    from pilotstudy.cluster.searcher import StudySearcher
    from pilotstudy.runs.folder import Run
    from pilotstudy.schedule.director import Director
    from pilotstudy.schedule.screen import Screen

    out = (folder / "said").open("w+")
    study = make_study()
    director = Director(study, Run(folder / "run"), "x")
    searcher = StudySearcher(director, Placement(study.resources, **placement), Screen(director, out))
    searcher.nobody_left = lambda: False
    return searcher, lambda: (out.seek(0), out.read())[1]


def fault(node: str, error: str = "RuntimeError: CUDA error: ECC", kind: str = "node"):
    from ray.exceptions import RayTaskError

    from pilotstudy.cluster.faults import NodeFault
    from pilotstudy.cluster.messages import Fault, FaultKind
    from pilotstudy.runs.records import Place

    place = Place(node, f"host-{node}", "0")
    return RayTaskError("step", "Traceback ..", NodeFault(Fault(FaultKind(kind), error, "Traceback ..", place, True)))
