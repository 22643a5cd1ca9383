"""The native engine: equal to the reference, the same whatever the threads, and nonsense is
refused.
"""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import augment
from cpc_tf.augment import recipe
from cpc_tf.augment.config import AugmentConfig
from cpc_tf.augment.operations import all_primitives
from cpc_tf.core import native
from cpc_tf.core.native import BuildError
from tests.augment import samples

# Everything at once, more often than the paper's.
BUSY = AugmentConfig(augment_changes="autoaugment=3,elastic=0.5,histogram=0.5,grey=0.2")


def _many(size, count):
    some = samples.patches(size)
    return np.resize(some, (count, *some.shape[1:]))


@pytest.mark.slow
@pytest.mark.parametrize("size", [8, 31, 64, 256])
def test_native_is_the_reference(size):
    count = 4 if size == 256 else 200  # whole images, too
    patches = _many(size, count)
    for config in (AugmentConfig(), BUSY):
        recipe = augment.draw(config, 5, size, count, size)
        ours = augment.apply(patches, recipe, "native").numpy().astype(int)
        differences = abs(ours - augment.apply(patches, recipe, "reference").numpy())
        # Rounding of the elastic and colour steps can tip a value to its neighbour, and a later
        # threshold or a steep contrast then widens that.
        assert np.mean(differences > 0) < 1e-3
        assert np.mean(differences > 1) < (1e-3 if size == 256 else 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 4])
def test_threads_batches_and_order_change_nothing(threads):
    config, patches = AugmentConfig(), _many(16, 12)

    def augmented(i):
        return augment.apply(patches, augment.draw(config, 1, i, 12, 16), engine="native")

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    dataset = (
        tf.data.Dataset.range(12)
        .map(augmented, num_parallel_calls=threads)
        .batch(threads)
        .with_options(options)
    )
    got = np.concatenate([batch.numpy() for batch in dataset])
    np.testing.assert_array_equal(got, [augmented(i) for i in range(12)])

    # Patch by patch as all at once.
    recipe = augment.draw(config, 1, 3, 12, 16)
    alone = [
        augment.apply(patches[n : n + 1], augment.Recipe(*(x[n : n + 1] for x in recipe)))
        for n in range(12)
    ]
    np.testing.assert_array_equal(np.concatenate(alone), got[3])


def test_input_stays_as_it_was():
    patches = tf.constant(_many(16, 12))
    before = patches.numpy().copy()
    augment.apply(patches, augment.draw(AugmentConfig(), 1, 1, 12, 16), "native")
    np.testing.assert_array_equal(patches, before)


RECIPE = augment.draw(AugmentConfig(), 0, 0, 5, 16)
PATCHES = np.zeros([5, 16, 16, 3], np.uint8)


def _spoilt(field, value):
    array = getattr(RECIPE, field).numpy()
    array.flat[-1] = value
    return RECIPE._replace(**{field: array})


HOSTILE = {
    "float patches": (tf.cast(PATCHES, tf.float32), RECIPE),
    "one patch without batch": (PATCHES[0], RECIPE),
    "not square": (PATCHES[:, :8], RECIPE),
    "one channel": (PATCHES[..., :1], RECIPE),
    "one pixel": (PATCHES[:, :1, :1], RECIPE),
    "recipe of fewer patches": (PATCHES, augment.draw(AugmentConfig(), 0, 0, 4, 16)),
    "recipe of more patches": (PATCHES, augment.draw(AugmentConfig(), 0, 0, 6, 16)),
    "no patches, a recipe": (PATCHES[:0], RECIPE),
    "recipe of larger patches": (
        PATCHES[:, :4, :4],
        augment.draw(AugmentConfig(augment="v1", augment_changes="jitter.margin=0.5"), 0, 0, 5, 16),
    ),
    "ops without batch": (PATCHES, RECIPE._replace(op=RECIPE.op[0], magnitude=RECIPE.magnitude[0])),
    "fewer magnitudes": (PATCHES, RECIPE._replace(magnitude=RECIPE.magnitude[:, :1])),
    "smaller grid": (PATCHES, RECIPE._replace(displacement=RECIPE.displacement[:, :5])),
    "float op": (PATCHES, RECIPE._replace(op=tf.cast(RECIPE.op, tf.float32))),
    "unknown op": (PATCHES, _spoilt("op", 14)),
    "negative op": (PATCHES, _spoilt("op", -1)),
    "unknown order": (PATCHES, _spoilt("order", 4)),
    "unknown channel": (PATCHES, _spoilt("kept", 3)),
    "negative jitter": (PATCHES, _spoilt("jitter", -1)),
    "jitter beyond its margin": (PATCHES, _spoilt("jitter", 1)),
    "NaN magnitude": (PATCHES, _spoilt("magnitude", np.nan)),
    "infinite magnitude": (PATCHES, _spoilt("magnitude", np.inf)),
    "NaN displacement": (PATCHES, _spoilt("displacement", np.nan)),
    "NaN shear": (PATCHES, _spoilt("shear", np.nan)),
    "NaN curve": (PATCHES, _spoilt("curve", np.nan)),
    "NaN color": (PATCHES, _spoilt("color", np.nan)),
    "huge displacement": (PATCHES, _spoilt("displacement", 1e30)),
}


def test_nonsense_is_an_invalid_argument():
    for what, arguments in HOSTILE.items():
        try:
            augment.apply(*arguments, engine="native")
        except tf.errors.InvalidArgumentError:
            continue
        pytest.fail(f"{what}: accepted")


def test_no_patches_no_work():
    recipe = augment.draw(AugmentConfig(), 0, 0, 0, 16)
    for engine in ("native", "reference"):
        assert augment.apply(np.zeros([0, 16, 16, 3], np.uint8), recipe, engine).shape == (
            0,
            16,
            16,
            3,
        )


@pytest.mark.parametrize("value", [-1e6, 1e6])
@pytest.mark.parametrize("field", ["magnitude", "displacement", "shear", "curve", "color"])
def test_absurd_numbers_do_no_harm(field, value):
    numbers = np.int32([primitive.number for primitive in all_primitives()])
    rows = len(numbers)
    recipe = augment.draw(BUSY, 0, 0, rows, 16)
    recipe = recipe._replace(op=np.tile(numbers[:, None], 3), elastic=[True] * rows)
    recipe = recipe._replace(**{field: tf.fill(getattr(recipe, field).shape, np.float32(value))})
    assert augment.apply(_many(16, rows), recipe, "native").shape == (rows, 16, 16, 3)


@pytest.fixture
def _forget_engines():
    """No engine is chosen before or after the test."""
    recipe._engine.cache_clear()
    yield
    recipe._engine.cache_clear()


@pytest.mark.usefixtures("_forget_engines")
@pytest.mark.parametrize("compiler", ["/bin/false", "/no/such/compiler"])
def test_without_a_compiler_auto_is_the_reference(monkeypatch, tmp_path, caplog, compiler):
    monkeypatch.setenv("CPC_TF_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", compiler)
    with pytest.raises(BuildError, match=compiler):
        augment.apply(PATCHES, RECIPE, "native")
    reference = augment.apply(PATCHES, RECIPE, "reference")
    for _ in range(2):
        np.testing.assert_array_equal(augment.apply(PATCHES, RECIPE), reference)
    assert len(caplog.messages) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("_forget_engines")
def test_a_broken_library_is_a_build_error(monkeypatch, tmp_path):
    monkeypatch.setenv("CPC_TF_CACHE", str(tmp_path))
    augment.LIBRARY.path().write_bytes(b"not a library")
    with pytest.raises(BuildError, match="cannot load"):
        augment.apply(PATCHES, RECIPE, "native")


def test_library_name_follows_sources_and_flags(monkeypatch, tmp_path):
    (tmp_path / "op.cc").write_text("")
    paths = [augment.LIBRARY.path(), native.Library("augment", tmp_path).path()]
    (tmp_path / "op.h").write_text("//")
    paths.append(native.Library("augment", tmp_path).path())
    monkeypatch.setattr(native, "FLAGS", (*native.FLAGS, "-g"))
    paths += [augment.LIBRARY.path(), native.Library("augment", tmp_path).path()]
    assert len(set(paths)) == 5
    assert len({path.parent for path in paths}) == 1
