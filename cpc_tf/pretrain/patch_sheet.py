"""A sheet of augmented patches, to see what the encoder sees.

Above: the patch grid of one picture beside several augmented draws of it. Below: each primitive alone at the two ends
of its range, with its name.
"""

from __future__ import annotations

import io
import os
import sys

import numpy as np
import tensorflow as tf
from PIL import Image, ImageDraw, ImageFont

from cpc_tf import augment
from cpc_tf.augment.config import AugmentConfig
from cpc_tf.augment.recipe import CONTROL_POINTS, CURVE_POINTS, color_range, magnitude_range
from cpc_tf.data import pipeline
from cpc_tf.data.source import Source
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import ConfigError
from cpc_tf.training.workdir import write_file

GAP = 4  # px between patches
MARGIN = 24  # px around a panel, and the height of its title
SMALLEST = 64  # px: smaller patches are magnified
DRAWS = 5


def draw(config: PretrainConfig, source: Source, picture: int = 0, draws: int = DRAWS) -> np.ndarray:
    """The sheet, uint8 [H, W, 3].

    Args:
      config: whose geometry, augmentation and seed are shown.
      source: where the picture comes from.
      picture: which of it.
      draws: augmented draws beside the original; none if the policy is 'none'.

    Raises:
      ConfigError: if the source has no such picture.
    """
    patches = _patches(config, source, picture)
    side = patches.shape[1]
    zoom = -(-SMALLEST // side)
    policy = config.augment
    grids = [("original", patches)]
    for number in range(draws if policy.augment != "none" else 0):
        recipe = augment.draw(policy, config.training.seed, number, len(patches), side)
        grids.append((f"--augment={policy.augment}, draw {number + 1}", _apply(patches, recipe, policy)))
    panels = [_panel(title, x, config.geometry.grid, zoom) for title, x in grids]
    middle = patches[len(patches) // 2]
    alone = [_panel(title, _apply(np.stack([middle] * len(recipe.grey)), recipe, policy), 2, max(zoom, 128 // side))
             for title, recipe in extremes(policy, side).items()]  # fmt: skip
    above = _rows(panels, 3)
    return _stack(above + _rows(alone, max(1, above[0].shape[1] // alone[0].shape[1])))


def leave(config: PretrainConfig, source: Source) -> None:
    """Writes patches.png into a run's directory, unless it stands there.

    A run does not need the sheet. Where the machine fails it (a picture that cannot be read, no font, no room on the
    disk) there is a warning instead; a mistake in the drawing itself is raised.
    """
    path = os.path.join(config.workdir, "patches.png")
    if tf.io.gfile.exists(path):
        return
    try:
        buffer = io.BytesIO()
        Image.fromarray(draw(config, source)).save(buffer, format="png")
        write_file(path, buffer.getvalue())
    except (OSError, ImportError, ConfigError, tf.errors.OpError) as error:  # ImportError: PIL without FreeType
        print(f"warning: {path} is not drawn: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)


def extremes(config: AugmentConfig, side: int) -> dict[str, augment.Recipe]:
    """{title: a recipe of two patches}, of each primitive alone at the lower and the upper end of its range."""
    idle = augment.idle(2, side)
    yes = tf.constant([True, True])
    recipes = {}
    for number, (name, *ends) in enumerate(zip(augment.PRIMITIVES, *magnitude_range(config, side))):
        ends[1] = min(ends[1], 8) if name == "posterize" else ends[1]
        title = name if ends[0] == ends[1] else f"{name} {ends[0]:.4g}, {ends[1]:.4g}"
        magnitude = np.float32(ends)[:, None]
        recipes[title] = idle._replace(op=np.full([2, 1], number, np.int32), magnitude=magnitude)

    # Two draws at the usual strength, and the largest shear with and against it.
    seed = [0, 1]
    normal = tf.random.stateless_normal([2, CONTROL_POINTS, CONTROL_POINTS, 2], seed)
    shear = config.elastic_shear * np.float32([[1, 1], [-1, -1]])
    displacement = normal * (config.elastic_sigma * side)
    recipes["elastic, two draws"] = idle._replace(elastic=yes, displacement=displacement, shear=shear)

    shift = config.histogram_shift * np.float32([[-1, 1], [1, -1]])[:, :, None]  # black, white: most and least contrast
    line = np.linspace(0, 1, CURVE_POINTS, dtype=np.float32)
    curve = np.repeat((shift[:, 0] * (1 - line) + (1 + shift[:, 1]) * line)[:, None], 3, axis=1)  # [2, 3, 5]
    recipes["histogram, straight curves"] = idle._replace(histogram=yes, curve=curve)

    bounds = np.float32(color_range(config))
    for k, name in enumerate(("brightness", "saturation", "hue", "contrast")):
        color = np.tile(np.float32([0, 1, 0, 1]), [2, 1])
        color[:, k] = bounds[k]
        title = f"Inception {name} {bounds[k, 0]:.3g}, {bounds[k, 1]:.3g}"
        recipes[title] = idle._replace(distort=yes, color=color)

    recipes["grey"] = idle._replace(grey=yes)
    margin = int(side * config.jitter_fraction + 0.5)
    recipes["jitter"] = idle._replace(jitter=np.int32([[margin, 0, 0], [margin, margin, margin]]))
    recipes["colour dropping, red, blue"] = idle._replace(kept=np.int32([0, 2]))
    return recipes


def _patches(config: PretrainConfig, source: Source, picture: int) -> np.ndarray:
    """The grid of a picture, uint8 [R * C, P, P, 3]."""
    if picture >= source.num_examples:
        raise ConfigError(f"--picture={picture}: the split holds {source.num_examples} pictures, from 0")
    grids = pipeline.plain_patches(source, config.geometry, 1).skip(picture).take(1)
    grid = next(iter(grids))["patches"][0]
    return grid.numpy().reshape(-1, *grid.shape[2:])


def _apply(patches: np.ndarray, recipe: augment.Recipe, policy: AugmentConfig) -> np.ndarray:
    return augment.apply(patches, recipe, policy.augment_engine).numpy()


def _panel(title: str, patches: np.ndarray, columns: int, zoom: int) -> np.ndarray:
    """Patches [N, P, P, 3] in rows of `columns` on white, under a title."""
    patches = patches.repeat(zoom, axis=1).repeat(zoom, axis=2)
    patches = np.pad(patches, [(0, 0), (0, GAP), (0, GAP), (0, 0)], constant_values=255)
    rows = [np.concatenate(patches[i : i + columns], axis=1) for i in range(0, len(patches), columns)]
    image = np.pad(np.concatenate(rows), [(MARGIN, 0), (MARGIN // 2, MARGIN // 2), (0, 0)], constant_values=255)
    canvas = Image.fromarray(image)
    ImageDraw.Draw(canvas).text((MARGIN // 2, 6), title, fill="black", font=ImageFont.load_default(13))
    return np.asarray(canvas)


def _rows(panels: list[np.ndarray], columns: int) -> list[np.ndarray]:
    return [np.concatenate(panels[i : i + columns], axis=1) for i in range(0, len(panels), columns)]


def _stack(rows: list[np.ndarray]) -> np.ndarray:
    width = max(row.shape[1] for row in rows)
    return np.concatenate([np.pad(x, [(0, 0), (0, width - x.shape[1]), (0, 0)], constant_values=255) for x in rows])
