"""The program itself: real code trains on a host of the fake cloud."""

import json
import os
import re
import shlex
import sys

import pytest

from tests import processes, samples
from tests.binaries import ROOT

pytestmark = pytest.mark.slow
# A host has no TPU, no library of it and no bucket: its training takes the CPU, and a folder.
ON_CPU = f"""
sed "s|gs://|$FAKE_GCLOUD/bucket/|; /^--strategy=/d; /^--tpu=/d" run.flags > here.flags
unset TF_PLUGGABLE_DEVICE_LIBRARY_PATH NEXT_PLUGGABLE_DEVICE_USE_C_API
env HOME={shlex.quote(os.path.expanduser("~"))} {shlex.quote(sys.executable)} -m cpc_tf "$3" --flagfile=here.flags
"""
LINEAR = """
    linear --dataset=folder:gs://bucket/pictures --test_split=val --encoder=pixels --geometry_from=flags --resize=16
    --image_size=16 --patch_size=8 --patch_stride=4 --augment=none --batch_size=8 --train_steps=2 --cached_views=1
    --workdir=gs://bucket/runs/x/linear
""".split()


def test_a_real_training_goes_there_and_back(cloud):
    samples.write_pictures(cloud.root / "bucket/bucket/pictures", {"train": 3, "val": 1})
    cloud.train(ON_CPU)
    flags = ["--zone=europe-west4-a", "--poll=0.1", "--restarts=0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = processes.run("cpc_tf.launch", *flags, "--", *LINEAR, env=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search("^linear classifier on ", ended.stdout, re.MULTILINE)
    assert json.loads((cloud.root / "runs/x/linear/result.json").read_text())["encoder"] == "pixels"
    assert not (cloud.root / "runs/x/linear/checkpoints").exists()
