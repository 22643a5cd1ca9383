import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cpc_tf.linear.config import LinearConfig
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training import agreement
from cpc_tf.training.strategy import make_strategy


class Played:
    """Processes that are threads here; each has one of these in place of a strategy."""

    def __init__(self, hosts, index=0, barrier=None, table=None):
        self.hosts, self.index, self.table = hosts, index, table if table is not None else {}
        self.barrier = barrier or threading.Barrier(len(hosts))

    def others(self):
        return [Played(self.hosts, index, self.barrier, self.table) for index in range(len(self.hosts))]

    def gather(self, values):
        self.table[self.index] = [*values]
        self.barrier.wait(60)
        found = np.array([self.table[index] for index in range(len(self.hosts))])
        self.barrier.wait(60)
        return found


@pytest.fixture
def ends(monkeypatch):
    """[facts of each process] -> how each ends: the message of its error, or ''."""
    monkeypatch.setattr(agreement, "addresses", lambda played: played.hosts)
    monkeypatch.setattr(agreement, "gathered_of_processes", lambda played, values: played.gather(values))

    def end(played, facts):
        try:
            agreement.agree(played, lambda: facts)
        except ConfigError as error:
            return str(error)
        return ""

    def run(facts):
        processes = Played([f"host{index}:2222" for index in range(len(facts))]).others()
        with ThreadPoolExecutor(len(facts)) as pool:
            return list(pool.map(end, processes, facts))

    return run


def test_who_differs_from_most_is_named_to_all_with_what_it_has(ends):
    same = {"the task": "linear", "--split": "1,200 images, 4 classes, digest 0a1b2c3d", "--seed": 0}
    assert ends([same] * 3) == [""] * 3
    found = ends([same, {**same, "--split": "1,100 images, 4 classes, digest 9f8e7d6c", "--seed": 1}, same])
    wanted = "differ in --split (and in --seed): 1,100 images, 4 classes, digest 9f8e7d6c at host1:2222, 1,200 images, "
    assert wanted + "4 classes, digest 0a1b2c3d at the others;" in found[0]
    assert found == [found[0]] * 3


def test_of_two_that_differ_both_are_named(ends):
    found = ends([{"--seed": 0}, {"--seed": 1}])
    assert "differ in --seed: 0 at host0:2222, 1 at host1:2222;" in found[0] == found[1]


def test_one_process_is_asked_nothing():
    agreement.agree(make_strategy("single"), lambda: pytest.fail("asked"))


def test_settings_are_compared_but_for_places():
    one, other = (LinearConfig(), replace(LinearConfig(), workdir="/mnt/run", data_dir="/mnt/data"))
    assert agreement.about_settings(one) == agreement.about_settings(other)
    other = replace(LinearConfig(), steps_per_loop=7)  # free on resume: processes that differ in it would wait for ever
    assert agreement.about_settings(one) != agreement.about_settings(other)
