"""Files and directories are written whole or not at all."""

import os

import pytest

from cpc_tf.core.files import NotWritten, read_json, write_file, written_aside
from cpc_tf.core.settings import ConfigError


def test_files_are_whole_or_absent(tmp_path):
    path = tmp_path / "deep" / "result.json"
    for content in ('{"a": 1}', b'{"a": 2}'):
        write_file(str(path), content)
    assert read_json(str(path)) == {"a": 2}
    (tmp_path / "deep" / "folder").mkdir()
    for place in (f"{path}/below", f"{tmp_path}/deep/folder"):
        with pytest.raises(
            NotWritten, match="cannot be written .*; what was saved before is intact"
        ) as error:
            write_file(place, "x")
    assert error.value.status == 4
    assert sorted(os.listdir(tmp_path / "deep")) == ["folder", "result.json"]


def test_what_killed_exports_left_is_removed(tmp_path):
    left, new, other = (tmp_path / name for name in ("hub.17.tmp", "hub.18.tmp", "hub.old.tmp"))
    for path in (left, new, other):
        path.mkdir()
        (path / "saved_model.pb").write_text("")
    for path in (left / "saved_model.pb", left, other):
        os.utime(path, (0, 0))
    with written_aside(f"{tmp_path}/hub", "output") as aside:
        assert aside
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hub", "hub.18.tmp", "hub.old.tmp"]


def test_directory_is_replaced_if_all_goes_well(tmp_path):
    for content in ("first", "second"):
        with written_aside(f"{tmp_path}/hub", "output", replaces=True) as aside:
            write_file(f"{aside}/card", content)
        assert (tmp_path / "hub/card").read_text() == content
    with pytest.raises(KeyError), written_aside(f"{tmp_path}/hub", "output", replaces=True):
        raise KeyError
    assert (tmp_path / "hub/card").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["hub"]


def test_kill_between_renames_loses_no_directory(tmp_path):
    """The old one waits under a temporary name, for years if need be: a failure brings it back."""
    waiting = tmp_path / "hub.1234.old.tmp"
    waiting.mkdir()
    (waiting / "weights").write_text("old")
    os.utime(waiting / "weights", (0, 0))
    os.utime(waiting, (0, 0))
    with pytest.raises(KeyError), written_aside(f"{tmp_path}/hub", "output", replaces=True):
        raise KeyError
    assert (tmp_path / "hub/weights").read_text() == "old"
    assert os.listdir(tmp_path) == ["hub"]


def test_directory_that_is_there_is_refused(tmp_path):
    (tmp_path / "hub").mkdir()
    with pytest.raises(ConfigError, match="--output=.*exists already"):
        written_aside(f"{tmp_path}/hub", "output").__enter__()
