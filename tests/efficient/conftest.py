import pytest

from cpc_tf.encoders import networks
from tests import samples


@pytest.fixture(scope="module", autouse=True)
def _networks_of_one_block():
    """Networks are no subject here. A step of 'tiny' and 'small' is traced in a third of the
    time.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, inside in (("tiny", 8), ("small", 16)):
            stacks = (networks.Stack(1, inside, 128, 2),)
            one_block = networks.Architecture(stacks, stem_kernel=3, stem_width=16, stem_pool=False)
            patch.setitem(networks.ARCHITECTURES, name, one_block)
        yield


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """12 red, green and blue images each to learn from, and 4 each to test on."""
    return samples.write_pictures(
        tmp_path_factory.mktemp("pictures") / "pictures", {"train": 12, "val": 4}
    )
