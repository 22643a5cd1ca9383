"""The paper's tables against its text, and against each other."""

import pytest

from cpc_tf.results import paper


def _row(table, name):
    (found,) = (row for rows in table.values() for row in rows if row[0] == name)
    return found


def test_the_abstract_and_the_text():
    v1, v2 = _row(paper.TABLE_1, "CPC v1"), _row(paper.TABLE_1, "CPC v2 - ResNet-161")
    assert round(v2[2] - v1[2]) == 23
    top5, top1 = paper.TABLE_2["top5"], paper.TABLE_2["top1"]
    absolute = top5[paper.CPC][0] - top5[paper.PIXELS][0]
    assert round(absolute) == 34
    assert int(100 * absolute / top5[paper.PIXELS][0]) == 77  # per cent, relative
    assert top1[paper.CPC][-1] - top1[paper.PIXELS][-1] == pytest.approx(3.2)
    assert top1[paper.CPC][0] > top1[paper.PIXELS][2]  # surpasses five times the labels
    assert top1[paper.CPC][5] > top1[paper.PIXELS][-1]  # half of the labels
    assert _row(paper.TABLE_3, "CPC v2 (fine-tuned)")[1] - _row(paper.TABLE_3, "Rotation")[1] > 20
    cpc, supervised = _row(paper.TABLE_4, "CPC v2"), _row(paper.TABLE_4, "Supervised baseline")
    assert round(cpc[2] - supervised[2]) == 2


def test_tables_2_and_3_agree():
    at = [paper.FRACTIONS.index(f) for f in paper.TABLE_3_FRACTIONS]
    ours, baseline = (_row(paper.TABLE_3, name)[1:] for name in ("CPC v2 (fine-tuned)", "Supervised baseline"))
    assert ours == tuple(paper.TABLE_2["top5"][paper.CPC][i] for i in at)
    assert baseline == tuple(paper.TABLE_2["top5"][paper.PIXELS][i] for i in at)


def test_accuracy_grows_with_labels():
    for rows in paper.TABLE_2.values():
        for row in rows.values():
            assert list(row) == sorted(row)
            assert len(row) == len(paper.FRACTIONS)
