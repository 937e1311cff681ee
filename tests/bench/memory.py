"""How many copies of the data a study holds: four trials at once on all of CIFAR-10.

    python tests/bench/memory.py --data-dir ../shared/data

Each actor maps the object store: what it reads there is the images, and what of that is private to it would be a copy.
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path

from pilotstudy.cluster import engine
from pilotstudy.cluster.capacity import Placement
from pilotstudy.data.dataset import load_data
from pilotstudy.runs.folder import Run
from pilotstudy.schedule.director import Director
from pilotstudy.schedule.screen import Screen
from pilotstudy.study.reading import validate_study
from pilotstudy.study.resources import Resources


def actors() -> dict[int, dict[str, float]]:
    """MiB of each actor process: private memory, and how much of the object store it reads, of that privately."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"ray::ResourceTrainable" in (entry / "cmdline").read_bytes():
                sizes = {"private": 0.0, "store": 0.0, "store, private": 0.0}
                in_store = False
                for line in (entry / "smaps").read_text().splitlines():
                    name, *rest = line.split()
                    if not name.endswith(":"):
                        in_store = "plasma" in line
                    elif name == "Rss:" and in_store:
                        sizes["store"] += int(rest[0]) / 1024
                    elif name.startswith("Private_") and name[8:13] in ("Clean", "Dirty"):
                        sizes["private"] += int(rest[0]) / 1024
                        sizes["store, private"] += int(rest[0]) / 1024 * in_store
                found[int(entry.name)] = sizes
        except OSError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    content = {
        "title": "memory",
        "seeds": [0, 1, 2, 3],
        "data": {"name": "cifar10"},
        "network": {"name": "mlp-512"},
        "training": {"epochs": 1},
        "arms": {"vanilla": {}},
    }
    data = load_data("cifar10", options.data_dir)
    images = (data.train_images.nbytes + data.test_images.nbytes) / 2**20
    most: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder) / "run")
        run.files.folder.mkdir()
        director = Director(validate_study(content, "bench"), run, data.fingerprint)
        with engine.connected(None, run.files.log, num_cpus=4), engine.terminal() as out:

            def watch() -> None:
                while not most.get("end"):
                    now = actors()
                    private = sum(sizes["private"] for sizes in now.values())
                    if len(now) == 4 and private > most.get("private", 0.0):
                        most.update(private=private, actors=now)
                    time.sleep(0.5)

            watcher = threading.Thread(target=watch)
            watcher.start()
            engine.execute(director, data, Placement(Resources(), concurrency=4), Screen(director, out, True))
            most["end"] = True
            watcher.join()
    print(f"images: {images:.0f} MiB; four actors at their largest:")
    for pid, sizes in most["actors"].items():
        print(f"  process {pid}: " + ", ".join(f"{name} {size:.0f} MiB" for name, size in sizes.items()))


if __name__ == "__main__":
    main()
