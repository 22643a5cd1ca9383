"""Who is answered: this machine's page with the token alone, and for images of the index alone."""

import io
import json
import os
import socket
import threading
import urllib.request

import numpy as np
import pytest
from PIL import Image
from werkzeug.test import Client

from cpc_tf.core.settings import ConfigError
from cpc_tf.label import server
from cpc_tf.label.server import Page, serve
from cpc_tf.label.session import Session


@pytest.fixture
def page(config, opened):
    return Page(Session(config, opened))


def ask(page, path, host="127.0.0.1:99", **more):
    """(status, content) of a request below the token."""
    response = Client(page).open(f"/{page.token}/{path}", base_url=f"http://{host}", **more)
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    return (
        response.status_code,
        response.json if response.mimetype == "application/json" else response.data,
    )


def test_a_label_is_given_and_errors_are_lines(page):
    assert ask(page, "claim", method="POST", json={"page": "p"})[0] == 200
    status, state = ask(
        page,
        "label",
        method="POST",
        json={"page": "p", "indices": [3], "how": "set", "class": " cat "},
    )
    assert (status, state["labelled"], state["classes"][0]["name"]) == (200, 1, "cat")
    assert ask(page, "claim", method="POST", json={"page": "q"})[0] == 409
    bad = {"page": "p", "indices": [3], "how": "set", "class": "a;b"}
    assert ask(page, "label", method="POST", json=bad) == (
        400,
        {"error": "the class a;b: must be text without semicolons and control characters"},
    )
    for wrong in (
        {"indices": [99]},
        {"indices": ["../x"]},
        {"indices": 3},
        {"how": "x"},
        {"by": "me"},
        {"class": 5},
    ):
        assert ask(page, "label", method="POST", json={**bad, **wrong})[0] in (400, 404)
    # what a form of another page can send
    assert ask(page, "label", method="POST", data="{}")[0] == 415
    assert ask(page, "label", method="POST", data="[]", content_type="application/json")[0] == 400
    assert ask(page, "label", method="PUT")[0] == 405


@pytest.mark.parametrize(
    "path",
    ["", "page.css", "page.js", "state", "next", "like/3", "all", "slips", "map", "commands"],
)
def test_every_address_answers_only_the_local_page(page, path):
    assert ask(page, path)[0] == ask(page, path, "localhost:5")[0] == 200
    assert ask(page, path, "evil.example:99")[0] == 403  # a name that was made to lead here
    assert ask(page, path, headers={"Origin": "http://evil.example"})[0] == 403
    assert ask(page, path, headers={"Origin": "http://127.0.0.1:99"})[0] == 200
    other = Client(page).get(f"/{'x' * len(page.token)}/{path}", base_url="http://127.0.0.1:99")
    assert (other.status_code, other.json) == (
        403,
        {"error": "open the address that cpc-tf label printed"},
    )


def test_pictures_are_served_by_number_alone(page, folder, opened):
    for path in ("thumb/0.jpg", "picture/0.jpg"):
        status, data = ask(page, path)
        assert status == 200
        pixels = np.asarray(Image.open(io.BytesIO(data)))
        assert pixels.mean((0, 1)).argmax() == 2  # blue/0.png
    for path in (
        "thumb/99.jpg",
        "thumb/../../etc/passwd",
        "thumb/0",
        "picture/%2e%2e.jpg",
        "label.py",
        "nothing",
    ):
        assert ask(page, path)[0] == 404
    Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000).save(folder / "blue/1.png")
    # of 16 bits
    assert (opened.pictures.names[1], ask(page, "thumb/1.jpg")[0]) == (
        "blue/1.png",
        200,
    )
    (folder / "blue/10.png").unlink()
    os.mkfifo(folder / "blue/10.png")
    assert (opened.pictures.names[2], ask(page, "thumb/2.jpg")[0]) == ("blue/10.png", 404)


@pytest.mark.parametrize(
    ("path", "request_", "status"),
    [
        ("state", {"headers": {"Origin": "http://["}}, 403),
        ("state", {"headers": {"Host": "[:1"}}, 403),
        ("next?count=0", {}, 404),
        (
            "label",
            {"method": "POST", "data": "[" * 100_000, "content_type": "application/json"},
            400,
        ),
        (
            "label",
            {
                "method": "POST",
                "headers": {"Content-Type": "application/json", "Transfer-Encoding": "chunked"},
            },
            411,
        ),
    ],
)
def test_a_strange_request_is_refused_without_a_traceback(page, capsys, path, request_, status):
    assert ask(page, path, **request_)[0] == status
    assert capsys.readouterr().err == ""


def test_silent_connections_time_out_without_blocking_others(page, monkeypatch):
    monkeypatch.setattr(server, "_CONNECTIONS", 2)
    monkeypatch.setattr(server._Handler, "timeout", 0.5)
    running = serve(page, 0)
    threading.Thread(target=running.run, daemon=True).start()
    silent = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(3)]
    assert [each.recv(1) for each in silent] == [b""] * 3  # the server has closed them
    with urllib.request.urlopen(
        f"http://127.0.0.1:{running.port}/{page.token}/state", timeout=20
    ) as answer:
        assert json.load(answer)["pictures"] == 48
    running.shutdown()


def test_a_failure_is_shown_and_the_page_stays(page, monkeypatch, capsys):
    monkeypatch.setattr(page.session, "map", lambda: 1 / 0)
    assert ask(page, "map") == (500, {"error": "the server failed: division by zero"})
    assert "ZeroDivisionError" in capsys.readouterr().err
    json.dumps(ask(page, "state")[1])


def test_a_taken_port_is_refused(page):
    first = serve(page, 0)
    with pytest.raises(ConfigError, match=f"^--port={first.port}: is taken by another program"):
        serve(page, first.port)
    first.server_close()
