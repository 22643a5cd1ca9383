"""Estimates of memory beside sums by hand, and what a machine and its control groups leave."""

import pathlib

import pytest
import tensorflow as tf

from cpc_tf import memory
from cpc_tf.core.settings import ConfigError

MB = 2**20


def graph_of(function, shape=(256, 1024)):  # an input of 1 MB
    return tf.function(function, autograph=False).get_concrete_function(tf.TensorSpec(shape)).graph


def gradient(x):
    """Four layers whose outputs wait for the backward pass."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(4):
            y = tf.exp(y)
    return tape.gradient(y, x)


def loop(x):
    return tf.while_loop(
        lambda i, _: i < 9, lambda i, x: (i + 1, tf.reduce_max(tf.exp(tf.sin(x)), 0) + x), (0, x)
    )[1]


def together(x):
    """Two that wait, as gradients wait for their norm, while two others are computed."""
    one, two = tf.identity_n([tf.exp(x), tf.sin(x)])
    return tf.cos(tf.tan(x)) + one + two


@tf.function(autograph=False)
def called(x):
    """A first output that waits for the second one."""
    return tf.exp(x), tf.reduce_sum(tf.cos(tf.sin(x)))


@pytest.mark.parametrize(
    ("function", "least", "most"),
    [
        (lambda x: tf.reshape(tf.identity(x), [-1]), 0, 0),  # views
        (
            lambda x: tf.reduce_sum(tf.exp(tf.exp(tf.exp(tf.exp(x))))),
            2,
            2.01,
        ),  # one after the other
        (gradient, 4, 6.01),
        (loop, 2, 4.01),  # not nine times
        (together, 4, 4.01),
        (called, 3, 3.01),
        (lambda x: tf.cast(x, tf.float64), 2, 2),
    ],
)
def test_the_most_that_lives_at_a_time(function, least, most):
    assert least <= memory.estimated(graph_of(function)) / MB <= most


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, None),
        ({"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   4000 kB\n"}, 4000 * 1024),
        ({"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "5"}, None),
        (
            {
                "proc/meminfo": "MemAvailable: 4000 kB",
                "sys/fs/cgroup/memory.max": "1000",
                "sys/fs/cgroup/memory.current": "700",
                "sys/fs/cgroup/memory.stat": "anon 600\ninactive_file 100",
            },
            400,
        ),
        (
            {
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "900",
            },
            100,
        ),
    ],
)
def test_what_is_free(files, free, tmp_path):
    for name, text in files.items():
        path = pathlib.Path(tmp_path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert memory.available(str(tmp_path)) == free


def test_more_than_is_free_is_refused_in_a_line(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 2e9)
    memory.refuse_too_large(1.9e9, "--batch_size=512", "a step", "less is better")
    message = (
        "^--batch_size=512: a step needs about 3 GB of memory, and 2 GB are free; less is better$"
    )
    with pytest.raises(ConfigError, match=message):
        memory.refuse_too_large(3e9, "--batch_size=512", "a step", "less is better")
