"""A folder as the examples of the docstrings have it: a module where the released one is, and some pictures."""

import json

import pytest

from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders import networks
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.settings import unflatten
from tests import modules, samples
from tests.binaries import ROOT

RELEASED = "modules/imagenette_128px"
CARD = json.loads((ROOT / RELEASED / "encoder.json").read_text())


@pytest.fixture(scope="package", autouse=True)
def _small_base():
    """The encoder of the released module has one narrow block of each kind, and as many features as it has."""
    stacks = networks.Stack(1, 4, 8, 1), networks.Stack(1, 4, CARD["feature_dim"], 2)
    architecture = networks.Architecture(stacks, stem_kernel=3, stem_width=8, stem_stride=4, stem_pool=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(networks.ARCHITECTURES, CARD["encoder"]["encoder"], architecture)
        yield


@pytest.fixture(scope="package")
def room(_small_base, tmp_path_factory):
    """The module is untrained; tests/released_module_test.py looks at the released one."""
    folder = tmp_path_factory.mktemp("api")
    samples.write_pictures(folder, {"my_pictures": 8}, side=40)
    settings, geometry = unflatten(EncoderConfig, CARD["encoder"]), unflatten(GeometryConfig, CARD["geometry"])
    (folder / RELEASED).mkdir(parents=True)
    modules.write_module(folder / RELEASED, settings, geometry)
    return folder
