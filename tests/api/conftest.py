"""A folder as the examples of the docstrings have it: the trained module, and some pictures."""

import pytest

from tests import samples
from tests.binaries import ROOT


@pytest.fixture(scope="session")
def room(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    (folder / "modules").symlink_to(ROOT / "modules")
    samples.write_pictures(folder, {"my_pictures": 8}, side=40)
    return folder
