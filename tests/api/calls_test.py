"""Keywords become settings, nothing is printed, and functions are found in any order of imports."""

import inspect
import os
import signal
import subprocess
import sys
import threading

import pytest

import cpc_tf
from cpc_tf import api
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import Stopped, flatten
from cpc_tf.termination import Deferred
from tests.binaries import ROOT


def test_keywords_are_settings_over_a_preset(tmp_path):
    values = {
        "workdir": tmp_path,
        "batch_size": 7,
        "mirror": False,
        "learning_rate": 0.1 + 0.2,
        "seed": None,
        "parts": 1,
    }
    found = flatten(api.settings_of(PretrainConfig, "photos/pretrain", values))
    assert found["workdir"] == str(tmp_path)
    assert (found["batch_size"], found["mirror"], found["learning_rate"]) == (7, False, 0.1 + 0.2)
    assert (found["seed"], found["parts"]) == (0, 1)  # of the preset; a constant
    assert found["dataset"] == "photos/15200"
    assert api.preset_of("photos", "pretrain") == "photos/pretrain"
    assert api.preset_of("voc/detect", "pretrain") == "voc/detect"


def test_a_comma_in_the_name_of_a_folder_makes_no_two_folders():
    folders = ["a, b", "c", 'd"e,']
    found = api.settings_of(PretrainConfig, None, {"unlabelled": folders})
    assert found.data.folders == folders
    assert api.settings_of(PretrainConfig, None, {"unlabelled": ["a", "b"]}).data.unlabelled == "a,b"
    assert api.settings_of(PretrainConfig, None, {"unlabelled": "~/a"}).data.unlabelled == os.path.expanduser("~/a")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"bach_size": 3}, "bach_size: no such setting; did you mean batch_size?"),
        ({"batch_size": "many"}, "--batch_size=many: must be a whole number"),
        ({"batch_size": 3.5}, "--batch_size=3.5: must be a whole number"),
        ({"batch_size": 0}, "--batch_size=0: must be at least 1"),
        ({"workdir": "a\nb"}, "must be text without control characters"),
        ({"encoder": "tinny"}, "--encoder=tinny: must be one of"),
    ],
)
def test_a_wrong_keyword_is_an_exception(values, message):
    with pytest.raises(cpc_tf.ConfigError, match=message):
        cpc_tf.pretrain(**values)


def test_a_wrong_preset_is_an_exception():
    with pytest.raises(cpc_tf.ConfigError, match="no such preset; did you mean photos/"):
        cpc_tf.pretrain(preset="photo/pretrain")
    with pytest.raises(cpc_tf.ConfigError, match="name a preset of linear or efficient"):
        cpc_tf.classify(encoder="x", preset="photos/pretrain")


@pytest.mark.slow
def test_a_function_has_the_name_of_a_package():
    """Whichever is imported first, from which module of the package ever."""
    code = """
from cpc_tf.pretrain.run import pretrain as run
import cpc_tf.embed.run
import cpc_tf
from cpc_tf import api, embed, predict, pretrain
import cpc_tf.predict.config
assert [embed, predict, pretrain] == [cpc_tf.embed, cpc_tf.predict, cpc_tf.pretrain]
assert [embed, predict, pretrain] == [api.embed, api.predict, api.pretrain]
assert run is not pretrain
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_names_for_type_checkers_are_the_names():
    stub = (ROOT / "cpc_tf/__init__.pyi").read_text()
    assert {line.rpartition(" as ")[2] for line in stub.splitlines() if line.startswith("from")} == set(cpc_tf.__all__)
    for name in cpc_tf.__all__:
        assert inspect.getdoc(getattr(cpc_tf, name)), name
    with pytest.raises(AttributeError, match="has no attribute 'pretrian'"):
        cpc_tf.pretrian  # noqa: B018


def test_quiet_unless_asked_and_ctrl_c_is_what_python_has(capsys):
    for verbose in (False, True):
        with api.running(verbose):
            print("a line")
        assert capsys.readouterr().out == ("a line\n" if verbose else "")
    with pytest.raises(KeyboardInterrupt, match="step 3"), api.running(False):
        raise Stopped(signal.SIGINT, "saved step 3")
    with pytest.raises(Stopped), api.running(False):
        raise Stopped(signal.SIGTERM, "saved step 3")


def test_handlers_of_signals_are_those_of_before_and_a_thread_sets_none():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def train():
        with Deferred() as stop:
            stop.begin()
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    train()
    assert seen[0] is before
    assert seen[1] is not before
    assert signal.getsignal(signal.SIGTERM) is before
