import io
import socket
import threading

import pytest
import tensorflow as tf
from PIL import Image
from tensorflow.python.ops import script_ops

from cpc_tf.data.decoding import decode
from cpc_tf.settings import ConfigError
from cpc_tf.training import feed_messages, feeds

ONE = tf.distribute.InputContext(num_input_pipelines=1)
SECOND = tf.distribute.InputContext(num_input_pipelines=2, input_pipeline_id=1)


@pytest.fixture
def named(monkeypatch):
    """Sets the feeds of this process, which are waited for in vain at once."""
    monkeypatch.setattr(feeds, "_WAIT", 0)
    monkeypatch.delenv(feed_messages.SECRET, raising=False)
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
                    feed_messages.send(connection, {"number": "1"})
                    number = feed_messages.receive(connection)["number"]
                    feed_messages.send_signed(connection, answer, secret, number)

            threading.Thread(target=serve, daemon=True).start()
            return server.getsockname()[1]

        yield start


def test_without_feeds_the_input_is_computed_here(named):
    named(" ")
    assert through() == [0, 1]


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


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n", b'{"dispatcher": 1}\n'])
def test_what_is_no_feed_is_refused(answer, named, answering):
    named(f"localhost:{answering(answer)}")
    with pytest.raises(feeds.LostFeed, match="does not answer as a feed does"):
        through()


def test_a_feed_of_another_version_is_refused(named, answering):
    port = answering({"dispatcher": 1, "has": {"TensorFlow": "2.3"}}, b"")
    named(f"localhost:{port}")
    with pytest.raises(
        ConfigError, match=rf"the feed at localhost:{port} has TensorFlow 2.3, this run 2\..*; start the"
    ):
        through()


def test_a_feed_without_the_secret_gets_no_data(named, answering, secret):
    secret(b"0123456789abcdef")
    port = answering({"dispatcher": 1, "has": {}}, b"0123456789abcdeF")
    named(f"localhost:{port}")
    with pytest.raises(
        ConfigError, match=f"^CPC_TF_FEED: the feed at localhost:{port} has another secret .*need the same"
    ):
        through()


def test_a_feed_says_why_it_refuses(named, answering):
    named(f"localhost:{answering({'refused': 'all ports are taken'}, b'')}")
    with pytest.raises(feeds.LostFeed, match="refuses this run: all ports are taken"):
        through()


@pytest.fixture
def secret(tmp_path, monkeypatch):
    """Writes a secret with a mode, and names its file."""

    def write(content, mode=0o600):
        path = tmp_path / "feed.secret"
        path.write_bytes(content)
        path.chmod(mode)
        monkeypatch.setenv(feed_messages.SECRET, str(path))

    return write


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        (b"0123456789abcdef", 0o640, "others can read it .mode 640, of user [0-9]+.; `chmod 600` it"),
        (b"0123456789abcdef", 0o604, "others can read it .mode 604"),
        (b" 0123456789abcde\n", 0o600, "has 15 bytes, at least 16 are needed; `.umask 077; openssl"),
        (b"", 0o600, "has 0 bytes"),
    ],
)
def test_a_secret_that_is_none_is_refused(content, mode, message, secret):
    secret(content, mode)
    with pytest.raises(ConfigError, match=f"^CPC_TF_FEED_SECRET=.*feed.secret: {message}"):
        feed_messages.read_secret()


def test_a_secret_is_read_without_the_end_of_its_line(secret, monkeypatch):
    secret(b"0123456789abcdef\n")
    assert feed_messages.read_secret() == b"0123456789abcdef"
    monkeypatch.setenv(feed_messages.SECRET, "/nowhere")
    with pytest.raises(ConfigError, match="^CPC_TF_FEED_SECRET=/nowhere: cannot be read .No such file"):
        feed_messages.read_secret()


@pytest.mark.parametrize(
    ("secret_of_sender", "number", "change"),
    [(b"other", "1", {}), (b"", "1", {}), (b"same", "2", {}), (b"same", "1", {"host": "changed"})],
)
def test_what_was_not_signed_with_the_secret_and_the_number_is_refused(secret_of_sender, number, change):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        feed_messages.send_signed(theirs, {"host": "a"}, b"same", "1")
        assert feed_messages.receive_signed(ours, b"same", "1") == {"host": "a"}
        feed_messages.send_signed(theirs, {"host": "a"}, secret_of_sender, number)
        feed_messages.send(theirs, {**feed_messages.receive(ours), **change})
        with pytest.raises(feed_messages.NotSigned):
            feed_messages.receive_signed(ours, b"same", "1")


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
    with pytest.raises(ConfigError, match="--dataset has WebP, TIFF or BMP, which feeds cannot de"):
        read()
