"""Throughput of a study on two nodes of one CPU against one node of one CPU: real trials of about 30 seconds.

    python tests/bench/cluster.py [--trials 10] [--epochs 160]

Head, nodes and driver share this machine's cores, so what they take of them is lost to the trials. Throughput is trials
by time once every node has ended its first trial; the whole command, with the start of all of it, stands beside it.
"""

import argparse
import tempfile
import time
from pathlib import Path

from tests.support.nodes import TOKEN, Nodes

STUDY = """
title = "throughput"
seeds = {seeds}
[data]
name = "fashion"
validation = 1000
train_size = 2000
[network]
name = "mlp-512"
[training]
epochs = {epochs}
[arms]
vanilla = {{}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=160)
    options = parser.parse_args()
    seconds, throughput = {}, {}
    for number in 1, 2:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "study.toml").write_text(STUDY.format(seeds=list(range(options.trials)), epochs=options.epochs))
            nodes = Nodes(folder, TOKEN)
            try:
                nodes.head("--num-cpus=0")
                for worker in range(number):
                    nodes.worker(str(worker), "--num-cpus=1")
                nodes.wait(number + 1)
                words = ("run", folder / "study.toml", "--runs-dir", folder / "runs", "--address", nodes.address)
                since = time.perf_counter()
                done = nodes.pilotstudy(*words, timeout=1000)
                seconds[number] = time.perf_counter() - since
                assert done.returncode == 0, done.stderr
                ends = sorted(path.stat().st_mtime for path in (folder / "runs" / "study" / "results").iterdir())
                throughput[number] = (len(ends) - number) / (ends[-1] - ends[number - 1])
            finally:
                nodes.end()
        print(
            f"{number} node{'s' * (number > 1)}: {1 / throughput[number]:.1f} s a trial, {seconds[number]:.0f} s in all"
        )
    print(f"throughput of two nodes / one: {throughput[2] / throughput[1]:.2f} (wanted: at least 1.8)")
    print(f"the whole command: {seconds[1] / seconds[2]:.2f}")


if __name__ == "__main__":
    main()
