"""Two workers in two processes train as one: the same global batch, gradients averaged over a
socket.
"""

import json
import pathlib
import re
import signal

import pytest

from cpc_tf.core import cli
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import linear
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.run import pretrain
from tests import modules, processes, samples
from tests.training import killed_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """The flags of a dataset."""
    root = tmp_path_factory.mktemp("pictures")
    folder = samples.write_pictures(root / "pictures", {"train": 4, "val": 2})
    return [f"--dataset=folder:{folder}", f"--data_dir={root}/data"]


def start_workers(module, *flags):
    """Starts both processes of a cluster."""
    start = processes.cluster(module, *flags)
    return [start(0), start(1)]


def ended(workers):
    """(exit status, what was printed since it was last read) of each worker."""
    outputs = [worker.communicate(timeout=600)[0] for worker in workers]
    return [(worker.returncode, output) for worker, output in zip(workers, outputs)]


def trained(workers):
    """What workers print that train to the end."""
    (first, output), (second, other) = ended(workers)
    assert (first, second) == (0, 0), output + other
    return output, other


def losses(workdir):
    return [
        json.loads(line)["loss"] for line in (workdir / "metrics.jsonl").read_text().splitlines()
    ]


def test_two_workers_equal_one_after_kill_and_stop(pictures, tmp_path):
    flags = [*samples.PRETRAIN_SMALLEST, *pictures, "--split=train", "--checkpoint_every=3"]
    stopped = [*flags, "--train_steps=100000", f"--workdir={tmp_path}/stopped"]

    chief, other = start_workers("cpc_tf.pretrain", *stopped)
    for _ in range(5):
        processes.wait_for(chief, "loss")
    chief.kill()
    (status, output), _ = ended([other, chief])
    assert status == 6, output
    assert "has ended or cannot be reached; run the same command on each machine" in output

    chief, other = start_workers("cpc_tf.pretrain", *stopped)
    processes.wait_for(chief, "loss")
    other.send_signal(signal.SIGTERM)
    (first, output), (second, others) = ended([chief, other])
    assert (first, second) == (143, 143), output + others
    step, same = (
        int(re.search(r"stopped by SIGTERM: saved step (\d+) in", text)[1])
        for text in (output, others)
    )
    assert (step, max(tmp_path.glob("stopped/checkpoints/*.index")).name) == (
        same,
        f"step_{step:08d}.index",
    )

    alone = [*flags, f"--train_steps={step}", f"--workdir={tmp_path}/alone"]
    output, others = trained(start_workers("cpc_tf.pretrain", *alone))
    # only the chief writes and reports
    assert ("images/s" in output, "images/s" in others) == (
        True,
        False,
    )
    ours, theirs = (killed_run.weights(tmp_path / name) for name in ("stopped", "alone"))
    assert not killed_run.differences(ours, theirs)
    assert losses(tmp_path / "stopped") == losses(tmp_path / "alone")

    pretrain(
        cli.parse(
            PretrainConfig,
            [*flags, "--strategy=single", "--train_steps=4", f"--workdir={tmp_path}/one"],
        )
    )
    assert losses(tmp_path / "alone")[:4] == pytest.approx(losses(tmp_path / "one"), rel=1e-3)


def test_two_workers_train_all_linear_classifiers(pictures, tmp_path):
    modules.write_module(tmp_path / "hub", EncoderConfig(encoder="tiny", output_stack=1))
    flags = [
        "--test_split=val",
        "--batch_size=4",
        "--train_steps=2",
        "--cached_views=1",
        f"--encoder={tmp_path}/hub",
    ]
    flags += ["--augment=none", *pictures]
    outputs = trained(start_workers("cpc_tf.linear", *flags, f"--workdir={tmp_path}/run"))
    assert [("results and image:" in output) for output in outputs] == [True, False]
    table = pathlib.Path(tmp_path, "run/table.txt").read_text()
    assert [line.split("  ")[0] for line in table.splitlines()[1:5]] == [
        "encoder",
        "random encoder",
        "pixels",
        "chance",
    ]
    linear(
        cli.parse(
            LinearConfig,
            [*flags, "--strategy=single", "--nobaselines", f"--workdir={tmp_path}/one"],
        )
    )
    results = (json.loads((tmp_path / run / "result.json").read_text()) for run in ("one", "run"))
    one, two = ({name: result[name] for name in ("top1", "loss")} for result in results)
    assert two == pytest.approx(one, rel=1e-3)
