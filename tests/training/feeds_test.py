import socket
import threading

import pytest
import tensorflow as tf

from cpc_tf.settings import ConfigError
from cpc_tf.training import feeds

ONE = tf.distribute.InputContext(num_input_pipelines=1)
SECOND = tf.distribute.InputContext(num_input_pipelines=2, input_pipeline_id=1)


@pytest.fixture
def named(monkeypatch):
    """Sets the feeds of this process, which are waited for in vain at once."""
    monkeypatch.setattr(feeds, "_WAIT", 0)
    return lambda text: monkeypatch.setenv(feeds.VARIABLE, text)


def through(context=ONE, hosts=()):
    """The numbers 0 and 1, through the feed if one is named."""
    return list(feeds.through(lambda: tf.data.Dataset.range(2), context, hosts).as_numpy_iterator())


NO_ADDRESS = "must be HOST:PORT for each host .*, or :PORT for a"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((text, NO_ADDRESS) for text in ("host", "host:x", "host:0", "host:65536", "a:1,:2")),
        ("a:1,b:2,c:3", "names 3 feeds; this run needs 2, one for each host"),
    ],
)
def test_what_does_not_name_a_feed_for_each_host_is_refused(text, why, named):
    named(text)
    with pytest.raises(ConfigError, match=f"^CPC_TF_FEED=[^ ]*: {why}"):
        through(SECOND)


def test_a_feed_that_does_not_answer_is_named_and_lies_beside_its_host(named, capsys):
    with socket.create_server(("localhost", 0)) as closed:
        port = closed.getsockname()[1]
    named(f":{port}")
    with pytest.raises(
        feeds.LostFeed, match=f"the feed at localhost:{port} does not answer for 0 s .Connection refused"
    ):
        through(SECOND, hosts=["elsewhere", "localhost"])
    with pytest.raises(feeds.LostFeed, match=f"the feed at localhost:{port} "):
        through()


NO_FEED = "does not answer as a feed does"


@pytest.mark.parametrize(
    ("answer", "error", "why"),
    [
        (b"", feeds.LostFeed, NO_FEED),
        (b"HTTP/1.1 400 Bad Request\r\n", feeds.LostFeed, NO_FEED),
        (b'{"dispatcher": 1}\n', feeds.LostFeed, NO_FEED),
        (
            b'{"dispatcher": 1, "has": {"TensorFlow": "2.3"}}\n',
            ConfigError,
            r"has TensorFlow 2.3, this run 2\..*; start the",
        ),
    ],
    ids=["nothing", "HTTP", "no versions", "another version"],
)
def test_what_is_no_feed_of_this_version_is_refused(answer, error, why, named):
    with socket.create_server(("localhost", 0)) as server:

        def serve():
            with server.accept()[0] as connection:
                connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        port = server.getsockname()[1]
        named(f"localhost:{port}")
        with pytest.raises(error, match=f"the feed at localhost:{port} {why}"):
            through()


def test_pictures_that_python_decodes_are_refused(monkeypatch):
    lost = tf.errors.InvalidArgumentError(
        None, None, "ValueError: Could not find callback with key=pyfunc_3 in the reg"
    )
    with pytest.raises(tf.errors.InvalidArgumentError), feeds.connected():
        raise lost
    monkeypatch.setattr(feeds, "_open", [socket.socket()])
    with pytest.raises(ConfigError, match="--dataset has WebP, TIFF or BMP, which feeds cannot de"), feeds.connected():
        raise lost
