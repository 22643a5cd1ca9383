"""Settings of how images with boxes are shown to a detector."""

from __future__ import annotations

import dataclasses
import functools

from cpc_tf.core.settings import ConfigError, Settings, count, fraction, setting, side

_SMALLEST_SCALE = 1e-4
area = functools.partial(count, unit="px", maximum=10_000**2)


def canvas_side(which: str) -> int:
    """Returns the setting of a side of the canvas."""
    about = (
        "of the canvas; an image that does not fit on it is shrunk further; 0: it follows from your"
        " boxes"
    )
    return side(0, f"{which} {about}", minimum=0, derived=True)


@dataclasses.dataclass(frozen=True)
class CanvasConfig(Settings):
    """How images with objects are shown to a detector."""

    canvas_height: int = canvas_side("Height")
    canvas_width: int = canvas_side("Width")
    smallest_area: int = area(150_000, "Smallest area of a training image, before --area_scale")
    largest_area: int = area(450_000, "Largest area of a training image, before --area_scale")
    test_area: int = area(300_000, "Area of a test image, before --area_scale")
    area_scale: float = setting(
        0.0,
        "How large images are shown: at 1 with 150,000 to 450,000 px (height times width), in the"
        " test with 300,000 px, at 0.5 with half as many; 0: as large as half of your images fit on"
        " the canvas",
        minimum=0,
        maximum=1e4,
        derived=True,
    )
    canvas_mirror: bool = setting(
        True, "Mirror half of the training images left to right, with their boxes"
    )
    canvas_colour_drop: float = fraction(
        0.5,
        "Probability that a training image keeps one of three colour channels",
        source="Doersch 2015",
    )
    smallest_box: float = setting(
        2.0,
        "Shortest side, after resizing, of a box to learn",
        unit="px",
        minimum=0,
        maximum=10_000,
        detail=True,
    )
    max_boxes: int = count(
        100,
        "Most boxes of a training image that are learned; of more, the largest",
        maximum=100_000,
    )

    def check(self):
        if self.smallest_area > self.largest_area:
            raise ConfigError(
                "smallest_area", self.smallest_area, f"above --largest_area={self.largest_area}"
            )
        if 0 < self.area_scale < _SMALLEST_SCALE:
            raise ConfigError(
                f"--area_scale={self.area_scale:g}: must be at least {_SMALLEST_SCALE:g}, or 0"
            )
        for name in ("largest_area", "test_area"):
            area = getattr(self, name) * self.area_scale
            if area > self.canvas_height * self.canvas_width > 0:
                most = self.canvas_height * self.canvas_width / getattr(self, name)
                raise ConfigError(
                    f"--area_scale={self.area_scale:g}: images of {area:.0f} px are more than the"
                    f" {self.canvas_height} x {self.canvas_width} px of --canvas_height and"
                    f" --canvas_width; 1 is {getattr(self, name)} px, at most {most:.3g} fits, and"
                    " 0 takes what fits your images"
                )
