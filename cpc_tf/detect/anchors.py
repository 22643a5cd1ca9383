"""Anchors: boxes of several sizes and shapes around the centre of each cell of a feature map (Ren et al. 2015)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def anchor_grid(rows: int, columns: int, stride: float, sizes: Sequence[float], ratios: Sequence[float]) -> np.ndarray:
    """The anchors of a feature map.

    Args:
      rows, columns: of the map.
      stride: side of a cell in pixels.
      sizes: square roots of the areas, in pixels.
      ratios: heights over widths.

    Returns:
      [rows * columns * len(sizes) * len(ratios), 4], float32, cell by cell, and in a cell size by size. They may reach
      beyond the image.
    """
    size, root = np.meshgrid(sizes, np.sqrt(ratios), indexing="ij")
    half = 0.5 * np.stack([size * root, size / root], -1).reshape(-1, 2)  # [S*R, 2]: heights and widths
    y, x = np.meshgrid((np.arange(rows) + 0.5) * stride, (np.arange(columns) + 0.5) * stride, indexing="ij")
    centre = np.stack([y, x], -1).reshape(-1, 1, 2)  # [rows*columns, 1, 2]
    return np.concatenate([centre - half, centre + half], -1).reshape(-1, 4).astype(np.float32)
