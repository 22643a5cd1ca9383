"""The gains that the paper prints follow from its accuracies, by a rule coarser than
interpolation.
"""

import pytest

from studies.paper import figures as paper


@pytest.mark.parametrize("metric", ["top1", "top5"])
def test_printed_gains_follow_from_the_accuracies(metric):
    table, gains = paper.TABLE_2[metric], []
    for fraction, accuracy in zip(paper.FRACTIONS[:-1], table[paper.CPC]):
        beaten = [
            f for f, pixels in zip(paper.FRACTIONS, table[paper.PIXELS]) if pixels <= accuracy
        ]
        gains.append(max(beaten) / fraction)
    printed = list(paper.GAIN[metric][:-1])
    if metric == "top5":
        printed[3], printed[4] = printed[4], printed[3]  # swapped in the paper
    assert gains == pytest.approx(printed)
