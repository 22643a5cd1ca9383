"""Views: what an encoder in training sees of an image."""

from __future__ import annotations

import abc

from cpc_tf.data.config import GeometryConfig


class View(abc.ABC):
    """What is cut from one image.

    Attributes:
      key: its name in a batch.
    """

    key: str

    @abc.abstractmethod
    def shape(self, geometry: GeometryConfig) -> list[int]:
        """The static shape of one image's view."""


class PatchGrid(View):
    """The grid of overlapping patches of a random crop."""

    key = "patches"

    def shape(self, geometry: GeometryConfig) -> list[int]:
        return [geometry.grid, geometry.grid, geometry.patch_size, geometry.patch_size, 3]
