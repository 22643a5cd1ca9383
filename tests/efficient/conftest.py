import pytest

from cpc_tf.encoders.networks import resnet


@pytest.fixture(scope="module", autouse=True)
def _networks_of_one_block():
    """Blocks are no subject here, and a step of 'tiny' and 'small' is traced in a third of the time."""
    with pytest.MonkeyPatch.context() as patch:
        for name, inside in (("tiny", 8), ("small", 16)):
            stacks = (resnet.Stack(1, inside, 128, 2),)
            one_block = resnet.Architecture(stacks, stem_kernel=3, stem_width=16, stem_pool=False)
            patch.setitem(resnet.ARCHITECTURES, name, one_block)
        yield
