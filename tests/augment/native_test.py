"""The native engine: equal to the reference, the same whatever the threads, and nonsense is refused."""

import subprocess

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import augment
from cpc_tf.augment import build
from cpc_tf.augment.config import AugmentConfig
from cpc_tf.augment.operations import OPERATIONS, Operation, all_primitives
from tests.augment import samples

# Everything at once, more often than the paper's.
BUSY = AugmentConfig(augment_changes="autoaugment=3,elastic=0.5,histogram=0.5,grey=0.2")


def _many(size, count):
    some = samples.patches(size)
    return np.resize(some, (count, *some.shape[1:]))


@pytest.mark.parametrize("size", [8, 9, 16, 31, 64, 80, 96])
@pytest.mark.parametrize("config", [AugmentConfig(), BUSY], ids=["paper", "busy"])
def test_native_is_the_reference(config, size):
    patches = _many(size, 300)
    recipe = augment.draw(config, 5, size, 300, size)
    native = augment.apply(patches, recipe, "native").numpy().astype(int)
    differences = abs(native - augment.apply(patches, recipe, "reference").numpy())
    # Rounding of the elastic and colour steps can tip a value to its neighbour, and a later threshold or a steep
    # contrast then widens that.
    assert np.mean(differences > 0) < 1e-3
    assert np.mean(differences > 1) < 1e-4


@pytest.mark.parametrize("policy", ["v1", "colour_drop"])
def test_early_policies_are_equal(policy):
    for size in (8, 15, 64):
        patches = _many(size, 50)
        recipe = augment.draw(AugmentConfig(augment=policy), 0, 0, 50, size)
        np.testing.assert_array_equal(*(augment.apply(patches, recipe, e) for e in ("native", "reference")))


def test_large_patches_and_whole_images():
    images = _many(256, 4)
    recipe = augment.draw(AugmentConfig(), 0, 0, 4, 256)
    both = [augment.apply(images, recipe, engine).numpy().astype(int) for engine in ("native", "reference")]
    assert np.mean(abs(both[0] - both[1]) > 1) < 1e-3


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_batches_and_order_change_nothing(threads):
    config, patches = AugmentConfig(), _many(16, 12)

    def augmented(i):
        return augment.apply(patches, augment.draw(config, 1, i, 12, 16), engine="native")

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    dataset = tf.data.Dataset.range(12).map(augmented, num_parallel_calls=threads).batch(threads).with_options(options)
    got = np.concatenate([batch.numpy() for batch in dataset])
    np.testing.assert_array_equal(got, [augmented(i) for i in range(12)])

    # Patch by patch as all at once.
    recipe = augment.draw(config, 1, 3, 12, 16)
    alone = [augment.apply(patches[n : n + 1], augment.Recipe(*(x[n : n + 1] for x in recipe))) for n in range(12)]
    np.testing.assert_array_equal(np.concatenate(alone), got[3])


def test_iterator_resumes_mid_epoch(tmp_path):
    config, patches = AugmentConfig(), _many(16, 9)

    def augmented(i):
        return augment.apply(patches, augment.draw(config, 1, i, 9, 16), "native")

    dataset = tf.data.Dataset.range(50).shuffle(20, seed=1).map(augmented, num_parallel_calls=2)
    iterator = iter(dataset)
    for _ in range(17):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "checkpoint"))
    rest = [x.numpy() for x in iterator]
    again = iter(dataset)
    tf.train.Checkpoint(iterator=again).restore(path)
    np.testing.assert_array_equal([x.numpy() for x in again], rest)


def test_input_stays_as_it_was():
    patches = tf.constant(_many(16, 12))
    before = patches.numpy().copy()
    augment.apply(patches, augment.draw(AugmentConfig(), 1, 1, 12, 16), "native")
    np.testing.assert_array_equal(patches, before)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_no_patches_no_work(engine):
    recipe = augment.draw(AugmentConfig(), 0, 0, 0, 16)
    assert augment.apply(np.zeros([0, 16, 16, 3], np.uint8), recipe, engine).shape == (0, 16, 16, 3)


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


@pytest.mark.parametrize("what", HOSTILE)
def test_nonsense_is_an_invalid_argument(what):
    with pytest.raises(tf.errors.InvalidArgumentError):
        augment.apply(*HOSTILE[what], engine="native")


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
    """Nothing decided or loaded before or after the test."""
    caches = (augment._engine, build.library)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


@pytest.mark.usefixtures("_forget_engines")
@pytest.mark.parametrize("compiler", ["/bin/false", "/no/such/compiler"])
def test_without_a_compiler_auto_is_the_reference(monkeypatch, tmp_path, compiler):
    said = []
    monkeypatch.setattr(augment.logging, "warning", lambda *words: said.append(words))
    monkeypatch.setenv("CPC_TF_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", compiler)
    with pytest.raises(build.BuildError, match=compiler):
        augment.apply(PATCHES, RECIPE, "native")
    np.testing.assert_array_equal(augment.apply(PATCHES, RECIPE), augment.apply(PATCHES, RECIPE, "reference"))
    assert len(said) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("_forget_engines")
def test_a_broken_library_is_a_build_error(monkeypatch, tmp_path):
    monkeypatch.setenv("CPC_TF_CACHE", str(tmp_path))
    build.native_engine().path().write_bytes(b"not a library")
    with pytest.raises(build.BuildError, match="cannot load"):
        augment.apply(PATCHES, RECIPE, "native")


def test_library_name_follows_sources_flags_and_table(monkeypatch):
    before = build.native_engine().path()
    monkeypatch.setitem(OPERATIONS, "shift_hue", Operation("shift_hue", 14, tf.identity))
    with_more = build.native_engine().path()
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-g"))
    paths = [before, with_more, build.native_engine().path()]
    assert len(set(paths)) == 3
    assert len({path.parent for path in paths}) == 1


@pytest.mark.parametrize(("native", "compiles"), [(True, False), (False, True)])
def test_a_primitive_without_its_function_does_not_compile(monkeypatch, tmp_path, native, compiles):
    """The C++ enumeration is made from the table; the switch over it must have all of it."""
    monkeypatch.setitem(OPERATIONS, "shift_hue", Operation("shift_hue", 14, tf.identity, native=native))
    (tmp_path / "primitives.h").write_text(build.primitives_header())
    (tmp_path / "x.cc").write_text(f'#include "{build.SOURCES[0].parent}/patch.h"\n')
    command = ["g++", "-std=c++17", "-fsyntax-only", f"-I{tmp_path}", str(tmp_path / "x.cc")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is compiles
    assert ("kShiftHue" in done.stderr) is not compiles


def test_unknown_engine_is_named():
    with pytest.raises(ValueError, match="fast"):
        augment.apply(PATCHES, RECIPE, "fast")
