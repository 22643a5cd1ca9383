"""Batches of views: shapes, replay, hosts, evaluation; files that are damaged or change
meanwhile.
"""

import itertools
import os

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import augment
from cpc_tf.augment.config import AugmentConfig
from cpc_tf.core.settings import ConfigError
from cpc_tf.data import check, pipeline, views
from cpc_tf.data.config import GeometryConfig, ImageConfig
from cpc_tf.data.source import read_once
from cpc_tf.data.views import PatchGrid, RandomSizedCrop, SeveralCrops, Together, WholeImage
from tests.data.samples import encode, open_folder, write_files
from tests.faults.targets import damaged

pytestmark = pytest.mark.slow
NONE = AugmentConfig(augment="none")
GRID = PatchGrid()
GEOMETRY = GeometryConfig(resize=12, image_size=8, patch_size=4, patch_stride=2)
MIRRORED = GeometryConfig(resize=12, image_size=8, patch_size=4, patch_stride=2, mirror=True)
WHOLE = ImageConfig(resize=12, image_size=8, crop_area=0.3)
IMAGES = np.random.default_rng(0).integers(0, 256, [10, 12, 12, 3], dtype=np.uint8)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """10 images [12, 12, 3], number i of class i % 2."""
    root = tmp_path_factory.mktemp("pictures")
    write_files(
        root, {f"{number % 2}/{number}.png": encode(image) for number, image in enumerate(IMAGES)}
    )
    return open_folder(str(root), "train", str(tmp_path_factory.mktemp("cache")))


def take(dataset, count):
    return list(itertools.islice(read_once(dataset).as_numpy_iterator(), count))


def batches(source, count, geometry=GEOMETRY, view=GRID, augmentation=NONE, **options):
    options = {"global_batch": 4, "seed": 1, **options}
    return take(pipeline.batches(source, view, geometry, augmentation, **options), count)


def assert_same(these, those):
    assert len(these) == len(those)
    for this, that in zip(these, those):
        assert this.keys() == that.keys()
        for key in this:
            np.testing.assert_array_equal(this[key], that[key], key)


def joined(parts):
    """The rows of several hosts' batches, one after another."""
    return [
        {key: np.concatenate([part[key] for part in row]) for key in row[0]} for row in zip(*parts)
    ]


@pytest.mark.parametrize("mode", ["squash", "crop", "pad"])
def test_resize_mode_of_training_and_test(tmp_path, cache, mode):
    """An image of two grey halves, twice as wide as high: what each mode shows of it."""
    picture = np.repeat(np.repeat(np.uint8([[10, 200]]), 12, 1), 12, 0)[..., None].repeat(
        3, 2
    )  # [12, 24, 3]
    write_files(tmp_path, {"x/1.png": encode(picture)})
    source = open_folder(str(tmp_path / "x"), "train", cache)
    geometry = GeometryConfig(resize=12, image_size=12, patch_size=12, resize_mode=mode)
    plain = take(pipeline.plain_images(source, geometry, 1), 1)[0]["image"][0, :, :, 0]
    edges = np.unique(np.r_[plain[:, :4].ravel(), plain[:, 8:].ravel()]).tolist()
    assert edges == ([10, 128, 200] if mode == "pad" else [10, 200])
    patches = [batch["patches"] for batch in batches(source, 20, geometry, global_batch=1)]
    for patch in patches:
        assert (patch[0, 0, 0, 0, :, 0] == views.GREY).all() == (mode == "pad")
    # Only where there is room to crop do training views differ.
    assert len({patch.tobytes() for patch in patches}) == 1 or mode == "crop"


def patches_of(example):
    image = views.random_crop(tf.io.decode_png(example["encoded"]), 8, 1, example["counter"])
    return views.grid_of_patches(views.mirror(image, 1, example["counter"]), 4, 2)


def crop_of(example, counter=None):
    counter = example["counter"] if counter is None else counter
    image = views.random_sized_crop(tf.io.decode_png(example["encoded"]), 8, 0.3, 4 / 3, 1, counter)
    return views.mirror(image, 1, counter)


@pytest.mark.parametrize(
    ("view", "geometry", "expected"),
    [(GRID, MIRRORED, patches_of), (RandomSizedCrop(), WHOLE, crop_of)],
)
def test_views_follow_the_stream_with_their_own_counter(source, view, geometry, expected):
    config = AugmentConfig(augment="small_patches", augment_engine="reference")  # quickly traced
    plain, changed = (
        batches(source, 2, geometry, view, augmentation) for augmentation in (NONE, config)
    )
    for number, example in enumerate(source.stream(seed=1).take(8)):
        batch, row = divmod(number, 4)
        wanted = expected(example).numpy()
        np.testing.assert_array_equal(plain[batch][view.key][row], wanted)
        assert plain[batch]["label"][row] == example["label"]
        pieces = wanted.reshape(-1, *wanted.shape[-3:])
        recipe = augment.draw(config, 1, example["counter"], len(pieces), pieces.shape[1])
        found = changed[batch][view.key][row].reshape(pieces.shape)
        np.testing.assert_array_equal(found, augment.apply(pieces, recipe, "reference"))
    assert (changed[0][view.key] != plain[0][view.key]).any()


@pytest.mark.parametrize("decoded", [None, lambda counter: counter % 4 < 2])
def test_views_together_are_those_of_each_alone(source, decoded):
    both = batches(source, 2, view=Together({"grid": GRID, "whole": WholeImage()}), decoded=decoded)
    grids = batches(source, 2, decoded=decoded)
    wholes = batches(source, 2, GEOMETRY.whole, WholeImage(), decoded=decoded)
    assert_same(
        both,
        [
            {"grid": a["patches"], "whole": b["image"], "label": a["label"]}
            for a, b in zip(grids, wholes)
        ],
    )


def test_batches_depend_on_seed_not_on_thread_count(source):
    expected = batches(source, 6, MIRRORED)
    assert (batches(source, 1, MIRRORED, seed=2)[0]["patches"] != expected[0]["patches"]).any()
    dataset = pipeline.batches(source, GRID, MIRRORED, NONE, global_batch=4, seed=1)
    assert dataset.element_spec["patches"] == tf.TensorSpec([4, *GRID.shape(MIRRORED)], tf.uint8)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    for same in (dataset, dataset.with_options(options)):  # with tf.data's optimizations, too
        assert_same(list(itertools.islice(same.as_numpy_iterator(), 6)), expected)


ONE_PATCH = GeometryConfig(resize=12, image_size=8, patch_size=8, patch_stride=1, mirror=True)


@pytest.mark.parametrize(
    ("view", "geometry"),
    [(GRID, MIRRORED), (RandomSizedCrop(), WHOLE), (SeveralCrops(2), ONE_PATCH)],
)
def test_views_resume_and_spread_over_hosts(source, view, geometry):
    options = {"view": view, "augmentation": AugmentConfig()}
    whole = batches(source, 4, geometry, **options)
    part = batches(source, 2, geometry, start_step=2, shard=(1, 2), **options)
    assert part[0][view.key].shape == (2, *view.shape(geometry))
    assert_same(part, [{key: rows[2:] for key, rows in batch.items()} for batch in whole[2:]])


def test_hosts_and_replicas_split_the_global_batch(source):
    whole = batches(source, 4)
    assert_same(
        joined([batches(source, 2, start_step=2, shard=(host, 2)) for host in range(2)]), whole[2:]
    )
    replicas = batches(source, 4, start_step=1, global_batch=8, shard=(1, 2), per_batch=2)
    assert_same(
        joined([replicas[::2], replicas[1::2]]),
        batches(source, 2, start_step=1, global_batch=8, shard=(1, 2)),
    )


@pytest.mark.parametrize(
    "options", [{"shard": (0, 3)}, {"per_batch": 3}, {"shard": (0, 2), "per_batch": 4}]
)
def test_what_does_not_divide_is_an_error(source, options):
    with pytest.raises(ValueError, match="^--batch_size=4 is not a multiple of"):
        batches(source, 1, **options)


def test_plain_views_are_ordered_centre_crops(source):
    whole = take(pipeline.plain_images(source, GEOMETRY, 4), 9)
    assert [len(batch["label"]) for batch in whole] == [4, 4, 2]
    order = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]  # by class folder
    images = np.concatenate([batch["image"] for batch in whole])
    np.testing.assert_array_equal(images, IMAGES[order, 2:10, 2:10])
    assert np.concatenate([batch["label"] for batch in whole]).tolist() == [0] * 5 + [1] * 5
    grids = np.concatenate(
        [batch["patches"] for batch in take(pipeline.plain_patches(source, GEOMETRY, 3), 9)]
    )
    np.testing.assert_array_equal(
        grids, [views.grid_of_patches(tf.constant(image), 4, 2) for image in images]
    )
    (some,) = take(pipeline.plain_patches(source, GEOMETRY, 10, every=3), 2)
    np.testing.assert_array_equal(some["patches"], grids[::3])


def test_image_views_are_in_order_and_each_different(source):
    got = list(pipeline.image_views(source, WHOLE, NONE, 4, views=2, seed=1).as_numpy_iterator())
    pixels, labels = (np.concatenate([batch[name] for batch in got]) for name in ("image", "label"))
    assert len(pixels) == 20
    np.testing.assert_array_equal(labels, np.tile(source.labels(), 2))
    for place, example in enumerate(source.ordered()):
        for view in range(2):
            expected = crop_of(example, example["counter"] + 10 * view)
            np.testing.assert_array_equal(pixels[10 * view + place], expected)
    assert (pixels[:10] != pixels[10:]).any()


MADE = {
    "images": lambda source, **options: pipeline.plain_images(source, WHOLE, 4, **options),
    "every second": lambda source, **options: pipeline.plain_patches(
        source, GEOMETRY, 4, every=2, **options
    ),
    "views": lambda source, **options: pipeline.image_views(
        source, WHOLE, NONE, 4, 2, 1, **options
    ),
    "batches": lambda source, **options: pipeline.batches(
        source, GRID, GEOMETRY, NONE, global_batch=4, seed=1, **options
    ),
}


@pytest.mark.parametrize("made", MADE)
def test_partial_decoding_gives_the_same_images(source, made):
    """The share of the second of two processes that compute batches of 4 together: places 2, 3, 6,
    7, 10, 11, ...
    """
    make = MADE[made]
    whole, part = (
        take(make(source), 5),
        take(make(source, decoded=lambda place: place % 4 // 2 == 1), 5),
    )
    assert len(whole) == len(part)
    for all_of, own in zip(whole, part):
        (key,) = all_of.keys() - {"label"}
        np.testing.assert_array_equal(own[key][2:4], all_of[key][2:4])
        assert all_of[key][:2].any()
        assert not own[key][:2].any()
        np.testing.assert_array_equal(own["label"], all_of["label"])


def trained_on(source, steps=6):
    """Some batches, as a training fetches them."""
    batches = pipeline.batches(
        source, PatchGrid(), GEOMETRY, AugmentConfig(augment="none"), global_batch=4, seed=1
    )
    return list(itertools.islice(batches.as_numpy_iterator(), steps))


def test_damaged_images_are_skipped_in_training(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "_MOST_LEFT_OUT", 1)
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, [9, 13, 3], np.uint8)
    corpus = [encode(pixels, kind) for kind in ("PNG", "JPEG", "BMP", "GIF")]
    write_files(tmp_path, {f"x/{number}.jpg": damaged(random, corpus) for number in range(60)})
    source = open_folder(str(tmp_path / "x"), "train", str(tmp_path / "cache"))
    assert 3 < source.num_examples < 60
    assert len(trained_on(source, 10)) == 10
    assert source.changed() == []


@pytest.mark.parametrize(
    "spoil", [os.unlink, lambda path: path.write_bytes(b"BM" + bytes([0, 255]) * 8)]
)
def test_file_changed_during_training_is_named(root, tmp_path, spoil):
    source = open_folder(str(root), "train", str(tmp_path / "cache"))
    with pipeline.fetching(source):
        trained_on(source)
    spoil(root / "train/b/2.png")
    with (
        pytest.raises(ConfigError, match=rf"^{root}/train/b/2.png: changed or gone since"),
        pipeline.fetching(source),
    ):
        trained_on(source)


def test_other_errors_do_not_blame_files(root, tmp_path):
    source = open_folder(str(root), "train", str(tmp_path / "cache"))
    with pytest.raises(tf.errors.OutOfRangeError), pipeline.fetching(source):
        raise tf.errors.OutOfRangeError(None, None, "something else")
