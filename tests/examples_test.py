"""The example of the package's parts: its loss begins where InfoNCE begins, and each picture gets a vector."""

import importlib.util
import math
import re

import pytest

from tests import samples
from tests.binaries import ROOT


@pytest.mark.slow
def test_the_parts_make_cpc(tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("example", ROOT / "examples/cpc.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(samples.write_pictures(tmp_path, {"train": 2}), steps=1, batch_size=4)
    printed = capsys.readouterr().out
    [loss] = re.findall(r"step 1: loss ([\d.]+)", printed)
    # directions, offsets; each finds its target among 25 patches of 4 pictures
    untrained = 4 * 2 * math.log(4 * 25)
    assert float(loss) == pytest.approx(untrained, rel=0.02)
    assert "features: (6, 256)" in printed
