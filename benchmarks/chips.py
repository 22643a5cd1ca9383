"""The accelerators that programs are compiled for: what a device has and does at best, by its
maker.
"""

from __future__ import annotations

from typing import NamedTuple


class Chip(NamedTuple):
    """A device that runs one replica.

    Attributes:
      title: name and what a device of it is.
      memory: bytes.
      peak: operations a second in bfloat16.
      bandwidth: bytes a second of its memory.
      links: bytes a second that it sends to its neighbours.
      topologies: replicas -> the compiler's name of a pod with so many devices.
    """

    title: str
    memory: float
    peak: float
    bandwidth: float
    links: float
    topologies: dict[int, str]


# Of a chip: https://cloud.google.com/tpu/docs/v3, v4 and v5e (read in 2026), but for the links of
# v3 and v4, which are assumed. A v3 chip has two cores, each a device with half of everything; the
# two cores of a v4 chip are one device.
CHIPS = {
    "v3": Chip(
        "v3, a core", 16 * 2**30, 123e12 / 2, 900e9 / 2, 328e9 / 2, {8: "v3:2x2", 32: "v3:4x4"}
    ),
    "v4": Chip("v4, a chip", 32 * 2**30, 275e12, 1228e9, 300e9, {8: "v4:2x2x2", 32: "v4:2x4x4"}),
    "v5e": Chip("v5e, a chip", 16 * 2**30, 197e12, 819e9, 200e9, {8: "v5e:2x4", 32: "v5e:4x8"}),
}
# NVIDIA's data sheet of the H100 SXM: dense bfloat16, NVLink in one direction.
H100 = Chip("H100", 80e9, 989e12, 3350e9, 450e9, {1: "h100"})
