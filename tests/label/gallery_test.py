"""Images are encoded once: not those of before an interruption, and those that are new."""

import numpy as np
import pytest

from cpc_tf.core.settings import ConfigError
from cpc_tf.evaluation.neighbours import normalized
from cpc_tf.label import gallery
from tests.label.conftest import MeanColours


def _open(encoder, folder):
    return gallery.open_gallery(encoder, str(folder), 8, lambda line: None)


def test_interrupted_encoding_resumes_with_new_images(folder):
    (folder / "blue/broken.jpg").write_bytes(b"\xff\xd8 nothing")
    with pytest.raises(ConfigError, match="killed"):
        _open(MeanColours(calls=2), folder)
    (index,) = folder.parent.glob("cache/features/*/index.jsonl")
    with index.open("a") as file:
        file.write('{"blue/0.png')  # what a killed process left
    with (index.parent / "features.bin").open("ab") as file:
        file.write(b"123")
    encoder = MeanColours()
    found = _open(encoder, folder)
    assert encoder.encoded == 48 - 16
    assert (len(found.rows), [*found.broken]) == (48, ["blue/broken.jpg"])
    colours = [name.partition("/")[0] for name in found.pictures.names]
    features = np.concatenate([*found.blocks()])
    assert [("red", "green", "blue")[i] for i in features.argmax(1)] == colours
    cosines = normalized(features) @ normalized(features).T
    np.testing.assert_allclose(found.directions @ found.directions.T, cosines, atol=1e-4)
    (folder / "red/new.png").write_bytes((folder / "red/1.png").read_bytes())
    encoder = MeanColours()
    again = _open(encoder, folder)
    assert (encoder.encoded, len(again.rows)) == (1, 49)
    assert [*again.broken] == ["blue/broken.jpg"]  # it was tried again
    old, new = (each.pictures.names.index("red/3.png") for each in (found, again))
    np.testing.assert_array_equal(again.take(np.array([new]))[0], features[old])


def test_a_folder_without_sound_pictures_is_refused(folder, tmp_path):
    with pytest.raises(ConfigError, match="there is no such folder"):
        _open(MeanColours(), tmp_path / "none")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/1.png").write_bytes(b"x")
    with pytest.raises(ConfigError, match="none can be read: 1.png"):
        _open(MeanColours(), tmp_path / "bad")
