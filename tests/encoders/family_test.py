"""An encoder of another family is one new file: chosen by --encoder, trained, exported, checked and loaded."""

import json
import subprocess
import sys

import pytest

FAMILY = '''
"""A plain ConvNet."""

import tensorflow as tf

from cpc_tf.encoders.network import Network
from cpc_tf.keras import keras


class ConvNet(Network):
    """Strided convolutions without normalization."""

    feature_dim = 12

    def __init__(self, config, precision="float32", name="encoder"):
        super().__init__(config, precision, name)
        dtype = self.dtype_policy
        self.layers_ = [keras.layers.Conv2D(width, 3, 2, "same", dtype=dtype) for width in (8, self.feature_dim)]

    def endpoints(self, images, training=False):
        inner = tf.nn.relu(self.layers_[0](images))
        maps = tf.cast(self.layers_[1](inner), tf.float32)
        return {"inner": tf.cast(inner, tf.float32), "feature_map": maps, "features": tf.reduce_mean(maps, [1, 2])}


NETWORKS = {"convnet": ConvNet}
'''

# The package of families with one more directory, as if the file lay in it.
SCRIPT = """
import importlib.util, json, sys

folder, name = sys.argv[1], "cpc_tf.encoders.networks"
spec = importlib.util.find_spec(name)
spec.submodule_search_locations.append(folder)
sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[name])

from cpc_tf import cli
from cpc_tf.encoders.load import load_feature_maps
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.run import pretrain
from cpc_tf.settings import ConfigError
from cpc_tf.export.run import ExportConfig, export

flags = '''--encoder=convnet --resize=24 --image_size=20 --patch_size=8 --patch_stride=4 --augment=none --directions=1
    --context_blocks=1 --context_dim=8 --target_dim=8 --batch_size=4 --train_steps=2 --steps_per_loop=2
    --strategy=single --precision=bfloat16'''.split()
result = pretrain(cli.parse(PretrainConfig, [*flags, f"--workdir={folder}/run"]))
done = export(ExportConfig(workdir=f"{folder}/run", output=f"{folder}/hub"))
encoders = [(f"{folder}/hub", ""), (f"graph:{folder}/hub", ""), ("random", "convnet"), ("pixels", "convnet")]
loaded = [load_feature_maps(encoder, "inner", 16, backbone=backbone) for encoder, backbone in encoders]
try:
    cli.parse(PretrainConfig, [*flags, "--norm=batch"])
except ConfigError as error:
    refused = str(error)
kinds = [one.identity.trained_by for one in loaded]
print(json.dumps([result["identity"], done["difference"], done["variables"], kinds, refused]))
"""


@pytest.mark.slow
def test_another_family_is_one_new_file(tmp_path):
    (tmp_path / "convnet.py").write_text(FAMILY)
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    identity, difference, variables, kinds, refused = json.loads(done.stdout.splitlines()[-1])
    assert (identity["trained_by"], identity["architecture"]) == ("cpc", "convnet")
    assert identity["parameters"] == 3 * 9 * 8 + 8 + 8 * 9 * 12 + 12
    assert difference < 1e-5
    assert variables == 4
    assert kinds == ["cpc", "cpc", "untrained", "pixels"]
    assert refused == "--norm=batch: not an option of --encoder=convnet; leave it at layer"
    readme = (tmp_path / "hub" / "README.md").read_text()
    assert "inside the network: `inner`." in readme
    assert "| encoder | `convnet`, 1,100 parameters |" in readme
