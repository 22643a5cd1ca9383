"""Draws a sheet of augmented patches: what the encoder sees.

    cpc-tf show --preset=photos/pretrain --output=patches.png

The upper part shows the patch grid of one image and several augmented draws of it, the lower part
each operation that the augmentation uses, alone: primitives at both ends of their range.
"""

import dataclasses

from cpc_tf.core.settings import count, setting
from cpc_tf.pretrain.config import DRAWS, PretrainConfig


@dataclasses.dataclass(frozen=True)
class ShowConfig(PretrainConfig):
    """Settings of a pre-training, and of the sheet."""

    SHOWN = (
        *("output", "picture", "draws", "dataset", "split", "unlabelled"),
        *("resize", "image_size", "patch_size", "patch_stride"),
        *("augment", "augment_changes", "seed"),
    )

    output: str = setting("patches.png", "Image file to write")
    picture: int = count(
        -1, "Index of the image in the split; -1: one in which there is much to see", minimum=-1
    )
    draws: int = count(DRAWS, "Number of augmented draws beside the original", maximum=1000)

    def check_complete(self) -> None:
        """Nothing: a sheet needs no directory of a run."""


def show(config: ShowConfig) -> None:
    """Draws the sheet and writes it."""
    from PIL import Image

    from cpc_tf.data import catalog  # TensorFlow, which settings do without
    from cpc_tf.pretrain import patch_sheet

    source = catalog.open_source(config.data, config.data.split)
    if config.picture < 0:
        whole = patch_sheet.choose(config, source)
    else:
        whole = patch_sheet.whole_image(config, source, config.picture)
    sheet = patch_sheet.draw(config, whole, config.draws)
    Image.fromarray(sheet).save(config.output)
    print(f"done: {config.output} ({sheet.shape[1]} x {sheet.shape[0]} px)")
