"""Prints what every task gives on one, two and four logical devices and on two processes, and how weights differ.

python -m tests.devices_table
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

import pytest

from cpc_tf.settings import replace
from cpc_tf.training.strategy import make_strategy
from tests import conformance_test as conformance
from tests.conftest import make_tiny

ONE, TWO, FOUR, PROCESSES = "1 device", "2 devices", "4 devices", "2 processes"
SHOWN = ("loss", "top1", "map11")  # of a result, whichever it has


def run(root, kind):
    """Runs every task below ROOT/KIND in this process."""
    with pytest.MonkeyPatch.context() as patch:
        if kind in (TWO, FOUR):
            strategy = make_strategy("mirrored", devices=tuple(f"/cpu:{number}" for number in range(int(kind[0]))))
            patch.setattr("cpc_tf.training.workdir.strategy_of", lambda *_: strategy)
        for case, (task, _) in conformance.CASES.items():
            config = conformance.settings(root, case, root / kind / case)
            # TensorFlow 2.15 dies of the strided convolutions of one image of this detector, on a CPU.
            task.run(replace(config, batch_size=8, strategy="multiworker" if kind == PROCESSES else "single"))


def cluster(count):
    """TF_CONFIG of each of some processes on this machine."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    workers = [f"localhost:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    return [json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": i}}) for i in range(count)]


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = conformance.write_root(pathlib.Path(folder))
        for kind in (ONE, TWO, FOUR, PROCESSES):
            command = [sys.executable, "-m", "tests.devices_table", folder, kind]
            configs = cluster(2) if kind == PROCESSES else ["{}"]
            started = [subprocess.Popen(command, env={**os.environ, "TF_CONFIG": config}) for config in configs]
            if any([process.wait() for process in started]):
                sys.exit(f"failed: {kind}")
        for case in conformance.CASES:
            for kind in (ONE, TWO, FOUR, PROCESSES):
                result = json.loads((root / kind / case / "result.json").read_text())
                shown = next(f"{name} {result[name]:.6f}" for name in SHOWN if name in result)
                differs = conformance.difference(root / kind / case, root / ONE / case)
                print(f"{case:28}{kind:14}{shown:20}{differs:9.1e}")


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch_of_all:
        make_tiny(patch_of_all)
        if len(sys.argv) > 1:
            run(pathlib.Path(sys.argv[1]), sys.argv[2])
        else:
            main()
