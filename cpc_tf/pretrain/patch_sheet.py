"""The sheet of augmented patches of `cpc-tf show`."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Container

import numpy as np
import tensorflow as tf
from PIL import Image, ImageDraw, ImageFont

from cpc_tf import augment
from cpc_tf.augment.config import AugmentConfig
from cpc_tf.augment.operations import OPERATIONS, to_text
from cpc_tf.core.files import optional_picture, write_file
from cpc_tf.core.settings import ConfigError
from cpc_tf.data import pipeline
from cpc_tf.data.config import GeometryConfig
from cpc_tf.data.source import Source
from cpc_tf.data.views import centre_crop, grid_of_patches
from cpc_tf.pretrain.config import DRAWS, PretrainConfig

GAP = 4  # px between patches
MARGIN = 24  # px around a panel, and the height of its title
MIN_PATCH_SIDE = 64  # px: smaller patches are magnified
# images from which a sheet's is chosen, evenly spaced among so many
CANDIDATES = 64
FURTHEST = 3200
FRAME = "#ffb000"  # of the patch that is drawn augmented
CELLS = 8  # along a side of an image whose structure is measured


def write_once(config: PretrainConfig, source: Source) -> None:
    """Writes patches.png of an image with much structure into a run's directory, unless the file
    exists.
    """
    if tf.io.gfile.exists(os.path.join(config.workdir, "patches.png")):
        return
    with optional_picture(os.path.join(config.workdir, "patches.png")) as path:
        buffer = io.BytesIO()
        Image.fromarray(draw(config, choose(config, source))).save(buffer, format="png")
        write_file(path, buffer.getvalue())


def choose(config: PretrainConfig, source: Source) -> np.ndarray:
    """Returns the image of a source, among CANDIDATES, in which one sees most; see
    `whole_image`.
    """
    every = max(1, min(source.num_examples, FURTHEST) // CANDIDATES)
    batches = pipeline.plain_images(source, _uncropped(config), 1, every=every).take(CANDIDATES)
    return max((batch["image"][0] for batch in batches.as_numpy_iterator()), key=_structure)


def whole_image(config: PretrainConfig, source: Source, picture: int) -> np.ndarray:
    """Returns an image before it is cropped, uint8 [resize, resize, 3].

    Raises:
      ConfigError: if the source has no such image.
    """
    if picture >= source.num_examples:
        raise ConfigError(
            "picture", picture, f"the split holds {source.num_examples} images, from 0"
        )
    batches = pipeline.plain_images(source, _uncropped(config), 1).skip(picture).take(1)
    return next(batches.as_numpy_iterator())["image"][0]


def draw(config: PretrainConfig, whole: np.ndarray, draws: int = DRAWS) -> np.ndarray:
    """Draws an image, its patches, augmented draws of them, and each used operation alone: uint8
    [H, W, 3].

    Args:
      config: geometry, augmentation and seed.
      whole: the image before the centre is cropped, uint8 [resize, resize, 3].
      draws: number of augmented draws; none if the policy is 'none'.
    """
    geometry = config.geometry
    policy = config.augment
    image = centre_crop(tf.constant(whole), geometry.image_size)
    patches = grid_of_patches(image, geometry.patch_size, geometry.patch_stride)  # [R, C, P, P, 3]
    patches = patches.numpy().reshape(-1, *patches.shape[2:])  # [R*C, P, P, 3]
    side = geometry.patch_size
    chosen = int(np.argmax([patch.std((0, 1)).mean() for patch in patches]))
    zoom = -(-MIN_PATCH_SIDE // side)
    panels = [_panel(f"its {len(patches)} patches of {side} px", patches, geometry.grid, zoom)]
    # The image at the size of its patches beside it.
    height = panels[0].shape[0] - MARGIN - GAP
    panels.insert(
        0, _panel("image, patches outlined", _outlined(whole, geometry, chosen, height)[None], 1, 1)
    )
    for number in range(draws if policy.policy.used else 0):
        recipe = augment.draw(policy, config.training.seed, number, len(patches), side)
        grid = augment.apply(patches, recipe, policy.engine).numpy()
        panels.append(_panel(f"{policy.title}, draw {number + 1}", grid, geometry.grid, zoom))
    pair = np.stack([patches[chosen]] * 2)
    used = extremes(policy, side, [operation.name for operation in policy.policy.used])
    alone = [
        _panel(title, augment.apply(pair, recipe, policy.engine).numpy(), 2, max(zoom, 128 // side))
        for title, recipe in {"the framed patch": augment.idle(2, side), **used}.items()
    ]
    above = _rows(panels, 3)
    rows = above + _rows(alone, max(1, above[0].shape[1] // alone[0].shape[1]))
    width = max(row.shape[1] for row in rows)
    return np.concatenate(
        [np.pad(x, [(0, 0), (0, width - x.shape[1]), (0, 0)], constant_values=255) for x in rows]
    )


def _uncropped(config: PretrainConfig) -> GeometryConfig:
    # Of patches nothing is used here, but they must fit.
    geometry = config.geometry
    return dataclasses.replace(geometry, image_size=geometry.resize, patch_size=geometry.resize)


def _outlined(whole: np.ndarray, geometry: GeometryConfig, framed: int, height: int) -> np.ndarray:
    """Returns the image, uint8 [height, height, 3], with its patches outlined and one framed; paler
    where cropped.
    """
    start = (geometry.resize - geometry.image_size) // 2
    pale = whole // 2 + 128
    inside = slice(start, start + geometry.image_size)
    pale[inside, inside] = whole[inside, inside]
    large = Image.fromarray(pale).resize([height, height], Image.Resampling.BICUBIC)
    canvas = ImageDraw.Draw(large)
    scale = height / geometry.resize
    places = [divmod(number, geometry.grid) for number in range(geometry.grid**2)]
    for number in [*(n for n in range(len(places)) if n != framed), framed]:
        top, left = (start + place * geometry.patch_stride for place in places[number])
        corners = [
            scale * left,
            scale * top,
            scale * (left + geometry.patch_size),
            scale * (top + geometry.patch_size),
        ]
        color, width = (FRAME, 4) if number == framed else ("white", 1)
        canvas.rectangle(
            [min(corner, height - 1) for corner in corners], outline=color, width=width
        )
    return np.asarray(large)


def extremes(
    config: AugmentConfig, side: int, names: Container[str] = OPERATIONS
) -> dict[str, augment.Recipe]:
    """Returns {title: a recipe of two patches}: each primitive at both ends of its range, each step
    in two draws.
    """
    idle = augment.idle(2, side)
    policy = config.policy
    recipes = {}
    for name, operation in ((name, OPERATIONS[name]) for name in OPERATIONS if name in names):
        if operation.primitive:
            low, high = policy.bounds(name, side)[0]
            high -= operation.whole
            title = name if low == high else f"{name} {low:.4g}, {high:.4g}"
            op = np.full([2, 1], operation.number, np.int32)
            magnitude = np.float32([[low], [high]])
            recipes[title] = idle._replace(op=op, magnitude=magnitude)
        else:
            ranges = {f"{name}.{key}": value for key, value in policy.ranges(name).items()}
            alone = AugmentConfig(augment="none", augment_changes=to_text({name: 1, **ranges}))
            recipes[f"{name}, two draws"] = augment.draw(alone, 0, 0, 2, side)
    return recipes


def _structure(image: np.ndarray) -> float:
    """Returns how much there is to see in an image [H, W, 3]: large shapes, details in most places,
    and colours.
    """
    side = min(image.shape[:2]) // CELLS
    cells = (
        image[: CELLS * side, : CELLS * side]
        .astype(np.float32)
        .reshape(CELLS, side, CELLS, side, 3)
    )
    shapes = cells.mean((1, 3)).std((0, 1)).mean()
    details = np.median(cells.std((1, 3)).mean(-1))
    colours = np.ptp(cells, axis=-1).mean()
    # so that images without colour can be compared, too
    return float(shapes * details * (20 + colours))


def _panel(title: str, patches: np.ndarray, columns: int, zoom: int) -> np.ndarray:
    """Draws patches [N, P, P, 3] in rows of `columns` on white, under a title."""
    patches = patches.repeat(zoom, axis=1).repeat(zoom, axis=2)
    patches = np.pad(patches, [(0, 0), (0, GAP), (0, GAP), (0, 0)], constant_values=255)
    rows = [
        np.concatenate(patches[i : i + columns], axis=1) for i in range(0, len(patches), columns)
    ]
    image = np.pad(
        np.concatenate(rows), [(MARGIN, 0), (MARGIN // 2, MARGIN // 2), (0, 0)], constant_values=255
    )
    canvas = Image.fromarray(image)
    ImageDraw.Draw(canvas).text(
        (MARGIN // 2, 6), title, fill="black", font=ImageFont.load_default(13)
    )
    return np.asarray(canvas)


def _rows(panels: list[np.ndarray], columns: int) -> list[np.ndarray]:
    return [np.concatenate(panels[i : i + columns], axis=1) for i in range(0, len(panels), columns)]
