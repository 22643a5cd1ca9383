import io
import socket
import threading

import pytest
import tensorflow as tf
from PIL import Image
from tensorflow.python.ops import script_ops

from cpc_tf.core.settings import ConfigError
from cpc_tf.data import decode
from cpc_tf.training import feeds

KNOWN = b"0123456789abcdef"  # a secret
ONE = tf.distribute.InputContext(num_input_pipelines=1)
SECOND = tf.distribute.InputContext(num_input_pipelines=2, input_pipeline_id=1)


@pytest.fixture
def named(monkeypatch):
    """Sets the feeds of this process, which are waited for in vain at once."""
    monkeypatch.setattr(feeds, "_WAIT", 0)
    monkeypatch.delenv(feeds.SECRET, raising=False)
    return lambda text: monkeypatch.setenv(feeds.VARIABLE, text)


def through(context=ONE, hosts=()):
    """The numbers 0 and 1, through the feed if one is named."""
    return list(feeds.through(lambda: tf.data.Dataset.range(2), context, hosts).as_numpy_iterator())


@pytest.fixture
def answering():
    """Starts a server that answers a training with some bytes, or as a feed with this secret; returns its port."""
    with socket.create_server(("localhost", 0)) as server:

        def start(answer, secret=None):
            def serve():
                connection = server.accept()[0]
                with connection:
                    if secret is None:
                        connection.sendall(answer)
                        return
                    feeds.send(connection, {"number": "1"})
                    number = feeds.receive(connection)["number"]
                    feeds.send(connection, answer, secret, number)

            threading.Thread(target=serve, daemon=True).start()
            return server.getsockname()[1]

        yield start


def test_without_feeds_the_input_is_computed_here(named):
    named(" ")
    assert through() == [0, 1]


@pytest.mark.parametrize(
    "text", ["host", "host:x", "host:0", "host:65536", "a:1,:2", "a:1,b:2,c:3"]
)
def test_what_does_not_name_a_server_for_each_host_is_refused(text, named):
    named(text)
    why = (
        "names 3 input servers; this run needs 2, one for"
        if "c" in text
        else "must be HOST:PORT for .*, or :PORT for"
    )
    with pytest.raises(ConfigError, match=f"^CPC_TF_FEED=[^ ]*: {why}"):
        through(SECOND)


def test_a_server_that_does_not_answer_is_named_and_lies_beside_its_host(named, capsys):
    with socket.create_server(("localhost", 0)) as closed:
        port = closed.getsockname()[1]
    named(f":{port}")
    with pytest.raises(
        feeds.LostFeed,
        match=f"the input server at localhost:{port} does not answer for 0 s .Connection refused",
    ):
        through(SECOND, hosts=["elsewhere", "localhost"])
    with pytest.raises(feeds.LostFeed, match=f"the input server at localhost:{port} "):
        through()


# What a server answers, with which secret it signs that (None: not at all), and the error.
@pytest.mark.parametrize(("answer", "signed_with", "error", "message"), [
    (b"", None, feeds.LostFeed, "does not answer as an input server does"),
    (b"HTTP/1.1 400 Bad Request\r\n", None, feeds.LostFeed, "does not answer as an input server does"),
    (b'{"dispatcher": 1}\n', None, feeds.LostFeed, "does not answer as an input server does"),
    ({"refused": "it serves another"}, KNOWN, feeds.LostFeed, "does not .*refuses this run: it serves anoth"),
    ({"dispatcher": 1, "has": {"TensorFlow": "2.3"}}, KNOWN, ConfigError, "has TensorFlow 2.3, this run .*start it"),
    ({"dispatcher": 1, "has": {}}, b"0123456789abcdeF", ConfigError, "has another secret .*need the same"),
])  # fmt: skip
def test_what_does_not_serve_this_run_is_refused(
    answer, signed_with, error, message, named, answering, secret
):
    secret(KNOWN)
    port = answering(answer, signed_with)
    named(f"localhost:{port}")
    with pytest.raises(
        error, match=f"^CPC_TF_FEED: the input server at localhost:{port} {message}"
    ):
        through()


@pytest.fixture
def secret(tmp_path, monkeypatch):
    """Writes a secret with a mode, and names its file."""

    def write(content, mode=0o600):
        path = tmp_path / "feed.secret"
        path.write_bytes(content)
        path.chmod(mode)
        monkeypatch.setenv(feeds.SECRET, str(path))

    return write


@pytest.mark.parametrize(("content", "mode", "message"), [
    (KNOWN, 0o640, "others can read it .mode 640, of user [0-9]+.; `chmod 600` it"),
    (KNOWN, 0o604, "others can read it .mode 604"),
    (b" 0123456789abcde\n", 0o600, "has 15 bytes, at least 16 are needed; `.umask 077; openssl"),
    (None, 0o600, "cannot be read .No such file"),
])  # fmt: skip
def test_a_secret_that_is_none_is_refused(content, mode, message, secret, monkeypatch):
    secret(KNOWN + b"\n")
    assert feeds.read_secret() == KNOWN
    secret(content, mode) if content else monkeypatch.setenv(feeds.SECRET, "/nowhere/feed.secret")
    with pytest.raises(ConfigError, match=f"^CPC_TF_FEED_SECRET=.*feed.secret: {message}"):
        feeds.read_secret()


@pytest.mark.parametrize(
    ("secret_of_sender", "number", "change"),
    [(b"other", "1", {}), (b"", "1", {}), (b"same", "2", {}), (b"same", "1", {"host": "changed"})],
)
def test_what_was_not_signed_with_the_secret_and_the_number_is_refused(
    secret_of_sender, number, change
):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        feeds.send(theirs, {"host": "a"}, b"same", "1")
        assert feeds.receive(ours, b"same", "1") == {"host": "a"}
        feeds.send(theirs, {"host": "a"}, secret_of_sender, number)
        feeds.send(theirs, {**feeds.receive(ours), **change})
        with pytest.raises(feeds.NotSigned):
            feeds.receive(ours, b"same", "1")


def test_pictures_that_python_decodes_are_refused(monkeypatch):
    webp = io.BytesIO()
    Image.new("RGB", (4, 4)).save(webp, "WEBP")
    dataset = tf.data.Dataset.from_tensors(webp.getvalue()).map(decode.decode)
    monkeypatch.setattr(script_ops._py_funcs, "_funcs", {})  # as in another process

    def read():
        with feeds.connected():
            list(dataset)

    with pytest.raises(tf.errors.InvalidArgumentError):
        read()
    monkeypatch.setattr(feeds, "_open", [socket.socket()])
    with pytest.raises(
        ConfigError, match="--dataset has WebP, TIFF or BMP, which input servers cannot de"
    ):
        read()
