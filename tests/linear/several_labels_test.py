"""Linear classifiers of pictures with several labels each, and their place in the report."""

import pytest

from cpc_tf import cli
from cpc_tf.data import catalog
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import linear
from cpc_tf.report.blocks import text
from cpc_tf.report.linear import report
from cpc_tf.report.page import REPORTS
from cpc_tf.report.runs import collect
from tests import samples
from tests.report.samples import blocks

pytestmark = pytest.mark.slow
FLAGS = """
    --encoder=pixels --geometry_from=flags --resize=16 --image_size=16 --patch_size=8 --patch_stride=4 --augment=none
    --batch_size=8 --train_steps=40 --cached_views=1 --learning_rate=0.03 --strategy=single
""".split()


def test_to_the_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(catalog, "open_pair", samples.SeveralLabels.pair)
    result = linear(cli.parse(LinearConfig, [*FLAGS, f"--workdir={tmp_path}/run"]))
    assert not {"top1", "top5"} & result.keys()
    assert result["map"] > result["map_chance"] + 0.2
    printed, table = capsys.readouterr().out, (tmp_path / "run/table.txt").read_text()
    assert printed.endswith(f"\n{table}\nresults and picture: {tmp_path}/run\n")
    head, pixels, chance, *_ = table.splitlines()
    assert head == "linear classifier on         mAP  micro-F1"
    assert pixels.startswith(f"encoder                 {100 * result['map']:7.1f}%")
    assert chance == f"chance                  {100 * result['map_chance']:7.1f}%"

    runs, problems = collect(str(tmp_path), REPORTS)
    assert (len(runs), problems) == (1, [])
    (shown,) = blocks(report(runs, "photos"), "several")
    assert shown.columns == ["Method", "Labelled pictures", "Test pictures", "mAP, %", "Micro-F1, %", "Chance, %"]
    found = {row.values[0]: [*map(text, row.values[2:4])] for row in shown.rows}
    assert found == {"pixels": ["12", f"{100 * result['map']:.1f}"]}
    assert not blocks(report(runs, "photos"), "linear")
