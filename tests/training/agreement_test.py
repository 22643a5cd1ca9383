import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cpc_tf.linear.config import LinearConfig
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training import agreement
from cpc_tf.training.strategy import make_strategy


@pytest.fixture
def ends(monkeypatch):
    """[facts of each process, which is a thread here] -> how each ends: the message of its error, or ''."""

    def run(facts):
        hosts, table, barrier = [f"host{index}:2222" for index in range(len(facts))], {}, threading.Barrier(len(facts))

        def gather(index, values):
            table[index] = [*values]
            barrier.wait(60)
            found = np.array([table[index] for index in range(len(hosts))])
            barrier.wait(60)
            return found

        def end(index):
            try:
                agreement.agree(index, lambda: facts[index])  # the number of the process in place of a strategy
            except ConfigError as error:
                return str(error)
            return ""

        monkeypatch.setattr(agreement.cluster, "addresses", lambda _: hosts)
        monkeypatch.setattr(agreement.cluster, "gathered_of_processes", gather)
        with ThreadPoolExecutor(len(facts)) as pool:
            return list(pool.map(end, range(len(facts))))

    return run


def test_who_differs_from_most_is_named_to_all_with_what_it_has(ends):
    same = {"the task": "linear", "--split": "1,200 images, 4 classes, digest 0a1b2c3d", "--seed": 0}
    assert ends([same] * 3) == [""] * 3
    found = ends([same, {**same, "--split": "1,100 images, 4 classes, digest 9f8e7d6c", "--seed": 1}, same])
    wanted = "differ in --split (and in --seed): 1,100 images, 4 classes, digest 9f8e7d6c at host1:2222, 1,200 images, "
    assert wanted + "4 classes, digest 0a1b2c3d at the others;" in found[0]
    assert found == [found[0]] * 3


def test_one_process_is_asked_nothing():
    agreement.agree(make_strategy("single"), lambda: pytest.fail("asked"))


def test_settings_are_compared_but_for_places():
    one, other = (LinearConfig(), replace(LinearConfig(), workdir="/mnt/run", data_dir="/mnt/data"))
    assert agreement.about_settings(one) == agreement.about_settings(other)
    other = replace(LinearConfig(), steps_per_loop=7)  # free on resume: processes that differ in it would wait for ever
    assert agreement.about_settings(one) != agreement.about_settings(other)


def test_machines_with_other_sources_of_the_operations_have_other_code(tmp_path, monkeypatch):
    monkeypatch.setattr(agreement.cpc_tf, "__file__", str(tmp_path / "__init__.py"))
    for name in ("a.py", "op.cc", "op.h", "notes.txt"):
        (tmp_path / name).write_text("")
    codes = [agreement.about_program("linear")["the version of cpc_tf"]]
    for name in ("notes.txt", "a.py", "op.cc", "op.h"):
        (tmp_path / name).write_text("changed")
        codes.append(agreement.about_program("linear")["the version of cpc_tf"])
    assert codes[0] == codes[1]
    assert len(set(codes)) == 4
