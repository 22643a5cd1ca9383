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
from cpc_tf.files import write_file
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import ConfigError

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
    for number in range(draws if policy.policy.used else 0):
        recipe = augment.draw(policy, config.training.seed, number, len(patches), side)
        grids.append((f"{policy.title}, draw {number + 1}", _apply(patches, recipe, policy)))
    panels = [_panel(title, x, config.geometry.grid, zoom) for title, x in grids]
    middle = patches[len(patches) // 2]
    alone = [
        _panel(title, _apply(np.stack([middle] * 2), recipe, policy), 2, max(zoom, 128 // side))
        for title, recipe in extremes(policy, side).items()
    ]
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
    """{title: a recipe of two patches}: each primitive at both ends of its range, each step in two draws."""
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


def _patches(config: PretrainConfig, source: Source, picture: int) -> np.ndarray:
    """The grid of a picture, uint8 [R * C, P, P, 3]."""
    if picture >= source.num_examples:
        raise ConfigError(f"--picture={picture}: the split holds {source.num_examples} pictures, from 0")
    grids = pipeline.plain_patches(source, config.geometry, 1).skip(picture).take(1)
    grid = next(iter(grids))["patches"][0]
    return grid.numpy().reshape(-1, *grid.shape[2:])


def _apply(patches: np.ndarray, recipe: augment.Recipe, policy: AugmentConfig) -> np.ndarray:
    return augment.apply(patches, recipe, policy.engine).numpy()


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
