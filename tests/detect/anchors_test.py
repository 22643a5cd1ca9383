import numpy as np

from cpc_tf.detect.boxes import anchor_grid


def xyxy(boxes):
    return boxes[:, [1, 0, 3, 2]]


def test_known():
    anchors = xyxy(anchor_grid(1, 2, 4, [32, 64], [0.25, 1, 4]))
    wanted = [
        [-30, -6, 34, 10],
        [-14, -14, 18, 18],
        [-6, -30, 10, 34],
        [-62, -14, 66, 18],
        [-30, -30, 34, 34],
        [-14, -62, 18, 66],
    ]
    np.testing.assert_allclose(anchors[:6], wanted, atol=1e-5)
    np.testing.assert_allclose(anchors[-1], [-10, -62, 22, 66], atol=1e-5)


def test_each_cell_has_all_at_its_centre():
    sizes, ratios = [8, 16, 24, 32], [0.5, 1, 3]
    anchors = anchor_grid(3, 5, 16, sizes, ratios)
    assert anchors.shape == (3 * 5 * 12, 4)
    assert anchors.dtype == np.float32
    cells = anchors.reshape(3, 5, 12, 4)
    centres = (cells[..., :2] + cells[..., 2:]) / 2
    np.testing.assert_allclose(centres[2, 4], [[40, 72]] * 12, atol=1e-5)
    height, width = np.moveaxis(cells[..., 2:] - cells[..., :2], -1, 0)
    np.testing.assert_allclose((height * width)[1, 1], np.repeat(np.square(sizes), 3), rtol=1e-5)
    np.testing.assert_allclose((height / width)[0, 3], ratios * 4, rtol=1e-5)
