"""cloud/tpu.sh with a gcloud that is played: its steps, their order, and what stays behind."""

import os
import subprocess

import pytest

from tests.binaries import ROOT

SCRIPT = ROOT / "cloud/tpu.sh"
TRAIN = ["train", "pretrain", "--augment_changes=a b", "--workdir=gs://bucket/runs/x"]
ALL = ["describe", "create", "scp", "install", "run", "fetch", "delete"]
# Of the host: what pip installs and what Python runs is written down.
PROGRAM = '#!/bin/sh\n[ "$1" = -c ] || echo "$*" >> "$CLOUD/{0}"\n'


class Cloud:
    """A folder in place of Google's cloud, and the script in it."""

    def __init__(self, root):
        self.root = root
        for name in ("bin", "plan"):
            (root / name).mkdir()
        (root / "bin/gcloud").symlink_to(ROOT / "tests/cloud/fake_gcloud.sh")
        for name in ("pip", "python3"):
            self.add_program(name, PROGRAM.format(name))

    def add_program(self, name, text):
        (self.root / "bin" / name).write_text(text)
        (self.root / "bin" / name).chmod(0o755)

    def plan(self, step, *ends):
        (self.root / "plan" / step).write_text("".join(f"{end}\n" for end in ends))

    def run(self, *words, **variables):
        """The finished script."""
        variables = {"NAME": "cpc", "ZONE": "us-west4-a", "TYPE": "v5litepod-8", **variables}
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        environment = {"PATH": path, "CLOUD": str(self.root), "PAUSE": "0", **variables}
        return subprocess.run(
            ["bash", SCRIPT, *words],
            env=environment,
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def lines(self, name):
        path = self.root / name
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def cloud(tmp_path):
    return Cloud(tmp_path)


def test_a_training_takes_all_steps(cloud):
    ended = cloud.run(*TRAIN, MORE="--spot --network=mine")
    assert (ended.returncode, cloud.lines("steps")) == (0, ALL), ended.stderr
    assert not (cloud.root / "tpu").exists()
    assert "--spot --network=mine" in cloud.lines("calls")[1]
    assert cloud.lines("python3") == [
        "-m cpc_tf pretrain --augment_changes=a b --workdir=gs://bucket/runs/x "
        "--strategy=tpu --tpu=local"
    ]
    assert (cloud.root / "runs/x").is_dir()


def test_tensorflow_for_tpus_is_installed_last(cloud):
    cloud.run(*TRAIN)
    lines = (ROOT / "requirements-tpu.txt").read_text().splitlines()
    version = next(line for line in lines if line.startswith("tensorflow-tpu"))
    assert cloud.lines("pip") == [
        "install -q -r requirements-tpu.txt",
        f"install -q --no-deps --force-reinstall {version}",
    ]


def test_a_preempted_run_resumes_on_another_tpu(cloud):
    cloud.plan("run", "PREEMPTED", "255")  # the second: a lost connection
    ended = cloud.run(*TRAIN)
    steps = cloud.lines("steps")
    assert ended.returncode == 0, ended.stderr
    assert (steps.count("run"), steps.count("fetch")) == (3, 1)
    assert not (cloud.root / "tpu").exists()


@pytest.mark.parametrize("status", ["2", "3", "5"])
def test_what_would_fail_again_ends_the_script(cloud, status):
    cloud.plan("run", status)
    ended = cloud.run(*TRAIN)
    assert ended.returncode == int(status)
    assert cloud.lines("steps") == [step for step in ALL if step != "fetch"]


def test_a_tpu_that_stays_is_named(cloud):
    cloud.plan("delete", "1")
    ended = cloud.run(*TRAIN)
    assert ended.returncode == 7
    assert "cpc may be left and COSTS MONEY" in ended.stderr


def test_queue_is_polled_until_the_tpu_exists(cloud):
    flex = "--provisioning-model=flex-start --max-run-duration=4h"
    cloud.plan("describe", "WAITING_FOR_RESOURCES", "ACTIVE")
    assert cloud.run("queue", MORE=flex).returncode == 0
    assert flex in cloud.lines("calls")[0]
    assert cloud.lines("steps") == ["create", "describe", "describe"]
    assert cloud.run("delete", GET="queue").returncode == 0
    assert "queued-resources delete cpc" in cloud.lines("calls")[-1]


def test_a_request_that_failed_is_no_tpu(cloud):
    cloud.plan("describe", "FAILED")
    assert cloud.run("queue").returncode == 1


def test_of_several_hosts_each_serves_its_chips(cloud):
    cloud.add_program("pgrep", "#!/bin/sh\nexit 0\n")
    cloud.run("create")
    assert cloud.run("run", "pretrain", HOSTS="4").returncode == 0
    serve, train = cloud.lines("calls")[-2:]
    assert "--worker=all" in serve
    assert "--worker=0" in train
    assert cloud.lines("python3") == ["-m cpc_tf pretrain --strategy=tpu --tpu=cpc"]


@pytest.mark.parametrize("name", ["NAME", "ZONE", "TYPE"])
def test_what_is_not_set_is_named(cloud, name):
    ended = cloud.run(*TRAIN, **{name: ""})
    assert ended.returncode != 0
    assert name in ended.stderr
    assert not cloud.lines("calls")
