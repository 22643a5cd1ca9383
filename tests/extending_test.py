"""docs/extending.md: its parts train CPC; its encoder and objective are a file and an entry, its
operation an entry; one run has all.
"""

import json
import math
import re
import subprocess
import sys

import pytest

from tests import samples
from tests.binaries import ROOT

# Two packages with one more directory each, as if the files lay in them.
SCRIPT = """
import importlib, json, sys

folder = sys.argv[1]
for name in ("cpc_tf.encoders.networks", "cpc_tf.objectives.others"):
    importlib.import_module(name).__path__.append(f"{folder}/{name}")
sys.path.append(folder)
import convnet_entry, above_entry
assert "tensorflow" not in sys.modules
import gamma
import numpy as np

from cpc_tf.core import cli
from cpc_tf.encoders.load import load_feature_maps
from cpc_tf.export import run as exporting
from cpc_tf.pretrain import patch_sheet
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.run import pretrain
from cpc_tf.core.settings import ConfigError

flags = '''--dataset=photos/40 --split=unlabelled --encoder=convnet --objective=above
    --above_width=8 --resize=24 --image_size=20 --patch_size=8 --patch_stride=4 --augment=none
    --augment_changes=autoaugment=1,gamma=1 --batch_size=4 --train_steps=2 --steps_per_loop=2
    --strategy=single --precision=bfloat16'''.split()
patch_sheet.write_once = lambda *_: None
result = pretrain(cli.parse(PretrainConfig, [*flags, f"--workdir={folder}/run"]))
# It starts a process: here the graph is compared.
exporting.verify = lambda *_: {"difference": 0, "variables": 0}
exporting.export(exporting.ExportConfig(workdir=f"{folder}/run", output=f"{folder}/hub"))
encoders = [
    (f"{folder}/hub", ""),
    (f"graph:{folder}/hub", ""),
    ("random", "convnet"),
    ("pixels", "convnet"),
]
loaded = [load_feature_maps(name, "inner", 16, backbone=backbone) for name, backbone in encoders]
images = np.random.default_rng(0).random([2, 16, 16, 3], np.float32)
rebuilt, graph = (one(images).numpy() for one in loaded[:2])
try:
    cli.parse(PretrainConfig, [*flags, "--norm=batch"])
except ConfigError as error:
    refused = str(error)
kinds = [one.identity.trained_by for one in loaded]
levels = gamma.gamma(np.full([2, 1, 1, 3], 64, np.uint8), np.float32([1, 0.5]))
levels = levels[:, 0, 0, 0].numpy().tolist()
difference = [float(abs(rebuilt).max()), float(abs(rebuilt - graph).max())]
difference.append(len(loaded[1].trainable_variables))
print(json.dumps([result["identity"], difference, kinds, refused, levels]))
"""


PARTS, *ADDITIONS = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs/extending.md").read_text(), re.DOTALL
)


@pytest.mark.slow
def test_the_parts_make_cpc(tmp_path, capsys):
    parts = {}
    exec(PARTS, parts)
    images = samples.write_pictures(tmp_path, {"train": 2})
    features = parts["train"](images, steps=1, batch_size=4)
    assert features.shape == [6, 256]
    [loss] = re.findall(r"step 1: loss ([\d.]+)", capsys.readouterr().out)
    # In four directions with two offsets each: a guess among 25 patches of 4 images.
    assert float(loss) == pytest.approx(4 * 2 * math.log(4 * 25), rel=0.02)


@pytest.mark.slow
def test_the_additions_run(tmp_path):
    encoder = ("cpc_tf.encoders.networks/convnet.py", "convnet_entry.py")
    others = "cpc_tf.objectives.others"
    above = (f"{others}/above_config.py", "above_entry.py", f"{others}/above.py")
    files = (*encoder, *above, "gamma.py")
    assert len(ADDITIONS) == len(files)
    for name, code in zip(files, ADDITIONS):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    identity, (largest, difference, variables), kinds, refused, levels = json.loads(
        done.stdout.splitlines()[-1]
    )
    assert (identity["trained_by"], identity["architecture"]) == ("above", "convnet")
    assert identity["parameters"] == 27 * 16 + 16 + 144 * 32 + 32 + 288 * 64 + 64
    assert difference < 1e-5 * largest
    assert variables == 6
    assert kinds == ["above", "above", "untrained", "pixels"]
    assert refused == "--norm=batch: not an option of --encoder=convnet; leave it at layer"
    assert levels == [64, 128]  # 255 * (64 / 255) ** 0.5 = 127.7
    readme = (tmp_path / "hub" / "README.md").read_text()
    assert "inside the network: `inner`." in readme
    assert "| encoder | `convnet`, 23,584 parameters |" in readme
