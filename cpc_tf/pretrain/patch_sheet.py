"""The sheet of augmented patches of `cpc_tf.show_patches`."""

from __future__ import annotations

import io
import os
import sys

import numpy as np
import tensorflow as tf
from PIL import Image, ImageDraw, ImageFont

from cpc_tf import augment
from cpc_tf.augment.config import AugmentConfig
from cpc_tf.augment.operations import OPERATIONS
from cpc_tf.augment.policies import to_text
from cpc_tf.data.pipeline import pipeline
from cpc_tf.data.sources.source import Source
from cpc_tf.data.views.geometry import grid_of_patches
from cpc_tf.files import write_file
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import ConfigError

GAP = 4  # px between patches
MARGIN = 24  # px around a panel, and the height of its title
MIN_PATCH_SIDE = 64  # px: smaller patches are magnified
DRAWS = 4
CANDIDATES = 32  # images from which a run's sheet takes the one with the most contrast


def write_once(config: PretrainConfig, source: Source) -> None:
    """Writes patches.png of an image with much contrast into a run's directory, unless the file exists.

    A run does not need the sheet: an image that cannot be read, a missing font or a full disk is a warning. Other
    errors are raised.
    """
    path = os.path.join(config.workdir, "patches.png")
    if tf.io.gfile.exists(path):
        return
    try:
        images = pipeline.plain_images(source, config.geometry, 1).take(CANDIDATES)
        contrasts = [float(tf.math.reduce_std(tf.cast(batch["image"], tf.float32))) for batch in images]
        buffer = io.BytesIO()
        Image.fromarray(draw(config, source, int(np.argmax(contrasts)))).save(buffer, format="png")
        write_file(path, buffer.getvalue())
    except (OSError, ImportError, ConfigError, tf.errors.OpError) as error:  # ImportError: PIL without FreeType
        print(f"warning: {path} is not drawn: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)


def draw(config: PretrainConfig, source: Source, picture: int = 0, draws: int = DRAWS) -> np.ndarray:
    """Draws an image, its patches, augmented draws of them, and each operation alone on one patch: uint8 [H, W, 3].

    Args:
      config: geometry, augmentation and seed.
      source: where the image comes from.
      picture: its index.
      draws: number of augmented draws; none if the policy is 'none'.

    Raises:
      ConfigError: if the source has no such image.
    """
    if picture >= source.num_examples:
        raise ConfigError(f"--picture={picture}: the split holds {source.num_examples} pictures, from 0")
    geometry, policy = config.geometry, config.augment
    image = next(iter(pipeline.plain_images(source, geometry, 1).skip(picture).take(1)))["image"][0]
    patches = grid_of_patches(image, geometry.patch_size, geometry.patch_stride)  # [R, C, P, P, 3]
    patches = patches.numpy().reshape(-1, *patches.shape[2:])  # [R*C, P, P, 3]
    side = geometry.patch_size
    zoom = -(-MIN_PATCH_SIDE // side)
    panels = [_panel(f"patches, {side} px", patches, geometry.grid, zoom)]
    # The image at the size of its patches beside it.
    height = panels[0].shape[0] - MARGIN - GAP
    large = Image.fromarray(image.numpy()).resize([height, height], Image.Resampling.BICUBIC)
    panels.insert(0, _panel(f"image, {geometry.image_size} px", np.asarray(large)[None], 1, 1))
    for number in range(draws if policy.policy.used else 0):
        recipe = augment.draw(policy, config.training.seed, number, len(patches), side)
        grid = augment.apply(patches, recipe, policy.engine).numpy()
        panels.append(_panel(f"{policy.title}, draw {number + 1}", grid, geometry.grid, zoom))
    pair = np.stack([max(patches, key=np.std)] * 2)
    alone = [
        _panel(title, augment.apply(pair, recipe, policy.engine).numpy(), 2, max(zoom, 128 // side))
        for title, recipe in extremes(policy, side).items()
    ]
    above = _rows(panels, 3)
    rows = above + _rows(alone, max(1, above[0].shape[1] // alone[0].shape[1]))
    width = max(row.shape[1] for row in rows)
    return np.concatenate([np.pad(x, [(0, 0), (0, width - x.shape[1]), (0, 0)], constant_values=255) for x in rows])


def extremes(config: AugmentConfig, side: int) -> dict[str, augment.Recipe]:
    """Returns {title: a recipe of two patches}: each primitive at both ends of its range, each step in two draws."""
    idle, policy, recipes = augment.idle(2, side), config.policy, {}
    for name, operation in OPERATIONS.items():
        if operation.primitive:
            low, high = policy.bounds(name, side)[0]
            high -= operation.whole
            title = name if low == high else f"{name} {low:.4g}, {high:.4g}"
            op, magnitude = np.full([2, 1], operation.number, np.int32), np.float32([[low], [high]])
            recipes[title] = idle._replace(op=op, magnitude=magnitude)
        else:
            ranges = {f"{name}.{key}": value for key, value in policy.ranges(name).items()}
            alone = AugmentConfig(augment="none", augment_changes=to_text({name: 1, **ranges}))
            recipes[f"{name}, two draws"] = augment.draw(alone, 0, 0, 2, side)
    return recipes


def _panel(title: str, patches: np.ndarray, columns: int, zoom: int) -> np.ndarray:
    """Draws patches [N, P, P, 3] in rows of `columns` on white, under a title."""
    patches = patches.repeat(zoom, axis=1).repeat(zoom, axis=2)
    patches = np.pad(patches, [(0, 0), (0, GAP), (0, GAP), (0, 0)], constant_values=255)
    rows = [np.concatenate(patches[i : i + columns], axis=1) for i in range(0, len(patches), columns)]
    image = np.pad(np.concatenate(rows), [(MARGIN, 0), (MARGIN // 2, MARGIN // 2), (0, 0)], constant_values=255)
    canvas = Image.fromarray(image)
    ImageDraw.Draw(canvas).text((MARGIN // 2, 6), title, fill="black", font=ImageFont.load_default(13))
    return np.asarray(canvas)


def _rows(panels: list[np.ndarray], columns: int) -> list[np.ndarray]:
    return [np.concatenate(panels[i : i + columns], axis=1) for i in range(0, len(panels), columns)]
