"""The input pipeline: a source in, batches of views out; errors in reading name the files behind
them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from cpc_tf import augment
from cpc_tf.augment.config import AugmentConfig
from cpc_tf.augment.operations import Policy
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import listed
from cpc_tf.data import views
from cpc_tf.data.config import GeometryConfig, ImageConfig
from cpc_tf.data.source import Examples, Select, Source
from cpc_tf.data.views import RandomSizedCrop, Together, View

_PREFETCH = 4  # batches: enough to hide the jitter of decoding, little enough memory


def batches(
    source: Source,
    view: View | Together,
    geometry: GeometryConfig | ImageConfig,
    augmentation: AugmentConfig,
    *,
    global_batch: int,
    seed: int,
    start_step: int = 0,
    shard: tuple[int, int] = (0, 1),
    per_batch: int | None = None,
    decoded: Select = None,
    indexed: bool = False,
) -> tf.data.Dataset:
    """Returns endless batches of augmented views; the same bits for the same (seed, step) on any
    machine.

    The global batch of step s is the counters [s * global_batch, (s + 1) * global_batch) of
    `source.stream(seed)`, for any number of hosts. Host h of n gets its rows [h * global_batch / n,
    (h + 1) * global_batch / n). Each host reads all encoded records of TFDS (of folders only the
    files it needs), but decodes only its own.

    With --share_records it reads only its `source.share`, and the batches are another function of
    (seed, step, hosts).

    Args:
      source: where the images come from.
      view: what is cut from an image.
      geometry: sizes for the view.
      augmentation: what is done to each patch of the view.
      global_batch: images per step over all replicas of all hosts.
      seed: seed of order, crops, mirroring and augmentation.
      start_step: the first step.
      shard: (index of this host, number of hosts).
      per_batch: images per element of the dataset, e.g. of one replica; it must divide this host's
        rows, which are then spread over several elements in order. Default: all of this host's
        rows.
      decoded: picks, by their counters, the images whose pixels are needed; the others are black.
        None: all images.
      indexed: whether a batch has 'index', int64 [per_batch], the places of its images in
        `source.ordered()`, too; for a source that reads by index.

    Returns:
      {view.key: uint8 [per_batch, *view.shape(geometry)], 'label': int64 [per_batch]}, shapes
      static, infinite; each of `view.views` under its name.

    Raises:
      ValueError: global_batch is not divisible by the hosts and per_batch.
    """
    prepare = _cut(source, view, geometry, augmentation, seed, decoded, indexed)
    return endless(source, prepare, global_batch, seed, start_step, shard, per_batch)


def image_views(
    source: Source,
    geometry: ImageConfig,
    augmentation: AugmentConfig,
    batch_size: int,
    views: int,
    seed: int,
    decoded: Select = None,
) -> tf.data.Dataset:
    """Goes through a source in order `views` times; each time each image is another
    RandomSizedCrop.

    `decoded` picks, by their positions in all views, the images whose pixels are needed; the others
    are black.

    Returns:
      {'image': uint8 [B, S, S, 3], 'label': int64 [B]}; the last batch may be smaller.
    """

    def once(view):
        return source.ordered().map(
            lambda e: {**e, "counter": e["counter"] + view * source.num_examples}
        )

    prepare = _cut(source, RandomSizedCrop(), geometry, augmentation, seed, decoded)
    return _batched(
        tf.data.Dataset.range(views).flat_map(once), prepare, batch_size, drop_remainder=False
    )


def _cut(source, view, geometry, augmentation, seed, decoded, indexed=False):
    def prepare(example):
        def cut():
            # Once for all views.
            image = functools.cache(functools.partial(source.decode, example["encoded"]))
            drawn = example["counter"], geometry, augmentation, seed
            return {name: one.cut(image, *drawn) for name, one in view.views.items()}

        shapes = {name: one.shape(geometry) for name, one in view.views.items()}
        shown = black_unless(decoded, example["counter"], cut, shapes)
        index = {"index": example["index"]} if indexed else {}
        return {**shown, "label": example["label"], **index}

    return prepare


def black_unless(
    decoded: Select,
    place: tf.Tensor,
    make: Callable[[], dict[str, tf.Tensor]],
    shapes: dict[str, Sequence[int]],
) -> dict[str, tf.Tensor]:
    """Returns make(), uint8 of these shapes, or zeros if the image at this place is not to be
    `decoded`.
    """
    if decoded is None:
        return make()
    return tf.cond(
        decoded(place),
        make,
        lambda: {name: tf.zeros(shape, tf.uint8) for name, shape in shapes.items()},
    )


def plain_patches(
    source: Source,
    geometry: GeometryConfig,
    batch_size: int,
    every: int = 1,
    policy: Policy | None = None,
    decoded: Select = None,
) -> tf.data.Dataset:
    """Returns the patches of the centre crop of each image (or each `every`-th), in order, without
    augmentation.

    They are grey if the encoder learned with a `policy` that makes all patches grey; see
    `augment.at_test`. `decoded` picks, by their positions among these images, those whose pixels
    are needed; the others are black.

    Returns:
      {'patches': uint8 [B, R, C, P, P, 3], 'label': int64 [B]}; the last batch may be smaller.
    """

    def patches(image):
        shown = augment.at_test(image, policy) if policy else image
        return views.grid_of_patches(shown, geometry.patch_size, geometry.patch_stride)

    return _plain(source, geometry, batch_size, every, "patches", patches, decoded)


def plain_images(
    source: Source,
    geometry: GeometryConfig | ImageConfig,
    batch_size: int,
    every: int = 1,
    policy: Policy | None = None,
    decoded: Select = None,
) -> tf.data.Dataset:
    """Returns the centre crop of each image (or each `every`-th), in order, without augmentation.

    `policy` and `decoded` make images grey or black as in `plain_patches`.

    Returns:
      {'image': uint8 [B, S, S, 3], 'label': int64 [B]} with S = geometry.image_size; the last batch
      may be smaller.
    """

    def shown(image):
        return augment.at_test(image, policy) if policy else image

    return _plain(source, geometry, batch_size, every, "image", shown, decoded)


def _plain(source, geometry, batch_size, every, key, cut, decoded):
    def prepare(example):
        def plain():
            return {
                key: views.plain_crop(source.decode(example["encoded"], geometry.resize), geometry)
            }

        side = geometry.image_size
        shapes = {key: [side, side, 3]}
        images = black_unless(decoded, example["counter"] // every, plain, shapes)
        image = images[key]
        return {key: cut(image), "label": example["label"]}

    return _batched(source.ordered().shard(every, 0), prepare, batch_size, drop_remainder=False)


def endless(
    source: Examples,
    prepare: Callable,
    global_batch: int,
    seed: int,
    start_step: int,
    shard: tuple[int, int],
    per_batch: int | None,
) -> tf.data.Dataset:
    """Returns endless batches of one host's prepared examples; arguments as in `batches`."""
    host, hosts = shard
    rows, rest = divmod(global_batch, hosts)
    per_batch = per_batch or rows
    if rest or rows % per_batch:
        raise ValueError(
            f"--batch_size={global_batch} is not a multiple of {hosts} hosts x {per_batch} images"
        )
    select = None if hosts == 1 else (lambda counter: counter % global_batch // rows == host)
    share = source.share(host, hosts) if hosts > 1 else None
    if share:

        def global_counter(example):
            step = example["counter"] // rows
            row = example["counter"] % rows
            return {**example, "counter": step * global_batch + host * rows + row}

        examples = share.stream(seed, start_step * rows).map(global_counter)
    else:
        examples = source.stream(seed, start_step * global_batch, select)
    return _batched(examples, prepare, per_batch, drop_remainder=True)


def _batched(examples, prepare, batch_size, drop_remainder):
    examples = examples.map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return examples.batch(batch_size, drop_remainder=drop_remainder).prefetch(_PREFETCH)


@contextlib.contextmanager
def fetching(*sources: Examples) -> Iterator[None]:
    """Turns errors of changed files or damaged records of these sources into a ConfigError that
    names the files.

    A run with changed files cannot go on: its order of examples is a function of the files at its
    start. Errors of any other cause are raised unchanged, so a whole training may run inside.
    """
    try:
        yield
    # UnicodeDecodeError: raised for an error of TensorFlow's whose text shows bytes of a file.
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        if changed := [path for source in sources for path in source.changed()]:
            raise ConfigError(
                f"{listed(changed)}: changed or gone since this run checked the folder of"
                " --dataset; restore it and run the same command to resume, or train on the changed"
                " files in another --workdir"
            ) from error
        if not isinstance(error, (tf.errors.DataLossError, tf.errors.NotFoundError)):
            raise
        if damaged := [path for source in sources for path in source.damaged()]:
            raise ConfigError(
                f"{listed(damaged)}: is truncated; move the folder away and run the same command,"
                " which prepares --dataset again and resumes"
            ) from error
        raise
