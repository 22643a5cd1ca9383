"""What all objectives share: a batch in parts."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.objectives.base import side_by_side


@pytest.mark.parametrize(
    ("count", "parts", "sizes"), [(7, 3, [3, 2, 2]), (8, 2, [4, 4]), (7, 1, [7]), (2, 3, [2])]
)
def test_batch_parts_are_even_and_in_order(count, parts, sizes):
    seen = []

    def function(part):
        seen.append(part.shape[0])
        return 2 * part

    batch = tf.reshape(tf.range(2 * count), [count, 2])
    np.testing.assert_array_equal(side_by_side(function, batch, parts), 2 * batch)
    assert seen == sizes
