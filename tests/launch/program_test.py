"""The program itself: real code trains on a host of the fake cloud, and Ctrl-C ends the program."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys

import pytest

from cpc_tf import cli
from cpc_tf.launch.__main__ import main
from tests import samples
from tests.binaries import ROOT, settings_of
from tests.docs_test import commands
from tests.launch.cloud import WORDS

pytestmark = pytest.mark.slow
LAUNCH = [sys.executable, "-m", "cpc_tf.launch", "--zone=europe-west4-a", "--poll=0.1"]
# A host has no TPU, no library of it and no bucket: its training takes the CPU, and a folder.
ON_CPU = f"""
sed "s|gs://|$FAKE_GCLOUD/bucket/|; /^--strategy=/d; /^--tpu=/d" run.flags > here.flags
unset TF_PLUGGABLE_DEVICE_LIBRARY_PATH NEXT_PLUGGABLE_DEVICE_USE_C_API
env HOME={shlex.quote(os.path.expanduser("~"))} {shlex.quote(sys.executable)} -m cpc_tf "$3" --flagfile=here.flags
"""


@pytest.fixture
def started(cloud):
    """Starts the program; what it prints goes into pipes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def start(*words):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([*LAUNCH, *words], env=environment, **pipes)

    return start


def test_a_real_training_goes_there_and_back(cloud, started):
    cloud.train(ON_CPU)
    flags = [*samples.PRETRAIN, "--encoder=tiny", "--directions=1", "--batch_size=8", "--train_steps=2"]
    process = started(
        "--restarts=0",
        "--",
        "pretrain",
        f"--data_dir={cloud.root}/data",
        *flags,
        "--workdir=gs://bucket/runs/x/pretrain",
    )
    log, told = process.communicate(timeout=300)
    assert process.returncode == 0, log + told
    assert re.search("^40 images, 2 steps of 8$", log, re.MULTILINE)
    assert json.loads((cloud.root / "runs/x/pretrain/result.json").read_text())["step"] == 2
    assert not (cloud.root / "runs/x/pretrain/checkpoints").exists()
    assert not cloud.exists


def test_ctrl_c_deletes_the_tpu_and_is_one_line(cloud, started):
    cloud.train("echo on; sleep 60")
    process = started("--", *WORDS)
    assert process.stdout.readline() == "on\n"
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert told.splitlines()[-1].startswith(
        "error: stopped by SIGINT: what was saved before is whole; the same command"
    )
    assert not cloud.exists


def test_the_commands_of_the_page_run(cloud):
    launches = [words for module, words in commands((ROOT / "docs/tpu.md").read_text()) if module == "cpc_tf.launch"]
    for words in launches:
        place = words.index("--")
        bucket = words[-1].partition("gs://")[2]
        cloud.train(f"mkdir -p $FAKE_GCLOUD/bucket/{bucket}; echo {{}} > $FAKE_GCLOUD/bucket/{bucket}/result.json")
        main(cli.parse(settings_of("cpc_tf.launch"), [*words[:place], "--poll=0.02"]), words[place + 1 :])
        assert (cloud.root / bucket.partition("/")[2] / "result.json").exists()
        assert not cloud.exists
    assert launches
