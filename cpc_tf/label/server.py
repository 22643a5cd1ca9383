"""The page's server: it answers on 127.0.0.1 alone, to who knows the token, and serves images by
their number.
"""

from __future__ import annotations

import hmac
import io
import json
import pathlib
import re
import secrets
import socketserver
import threading
import warnings
from collections.abc import Callable
from typing import Any

from PIL import Image, ImageOps
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler
from werkzeug.wrappers import Request, Response

from cpc_tf.core.files import NotWritten, reason
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.versions import print_bug
from cpc_tf.data import pictures
from cpc_tf.data.labels import MODEL, PERSON
from cpc_tf.drawing.plots import THEME
from cpc_tf.label.session import Session, TakenOver

_PAGE = pathlib.Path(__file__).parent
_FILES = {"": "page.html", "page.css": "page.css", "page.js": "page.js"}
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_SIDES = {"thumb": 192, "picture": 1024}  # px
_MOST = 5000  # bytes of a file name and of a class, images of an answer and of a change
_LARGEST = 2**20  # bytes of a request
# at a time, and seconds that one may be silent
_CONNECTIONS = 64
_PATIENCE = 30
_DECODED = 2  # images at a time, since a single one can take a gigabyte
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF")
_HERE = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Refused(Exception):
    """A request that is not answered.

    Args:
      status: of HTTP.
      message: one line.
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


class Page:
    """The WSGI application.

    Args:
      session: what it shows and changes.

    Attributes:
      token: the first part of the path of all its addresses.
    """

    def __init__(self, session: Session):
        self.session, self.token = session, secrets.token_urlsafe(18)
        self._decoding = threading.BoundedSemaphore(_DECODED)

    def __call__(self, environ: dict[str, Any], start_response: Callable) -> Any:
        request = Request(environ)
        try:
            response = self._answer(request)
        except TakenOver as error:
            response = _json({"error": str(error)}, 409)
        except Refused as error:
            response = _json({"error": str(error)}, error.status)
        except (ConfigError, NotWritten) as error:
            response = _json({"error": str(error)}, 400 if isinstance(error, ConfigError) else 507)
        except Exception as error:  # the page stays, and says that something is wrong
            print_bug()
            response = _json({"error": f"the server failed: {reason(error)}"}, 500)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response(environ, start_response)

    def _answer(self, request: Request) -> Response:
        # Another host would be a page that leads here by DNS rebinding; another origin a page that
        # is open beside this.
        host = request.headers.get("Host", "")
        if not _HERE.fullmatch(host):
            raise Refused(403, "open this page at 127.0.0.1")
        if request.headers.get("Origin", f"http://{host}") != f"http://{host}":
            raise Refused(403, "requests from other pages are refused")
        token, _, path = request.path.lstrip("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            raise Refused(403, "open the address that cpc-tf label printed")
        if request.method == "POST":
            return _json(self._changed(path, _content(request)))
        if request.method != "GET":
            raise Refused(405, "GET or POST")
        if path in _FILES:
            return _file(_FILES[path])
        kind, _, name = path.partition("/")
        if kind in _SIDES and name.endswith(".jpg"):
            index = self._index(name.removesuffix(".jpg"))
            if not self.session.is_there(index):
                raise Refused(404, "this image was deleted from the folder")
            with self._decoding:
                data = self._jpeg(index, _SIDES[kind])
            return Response(
                data, mimetype="image/jpeg", headers={"Cache-Control": "private, max-age=3600"}
            )
        return _json(self._asked(path, request.args))

    def _asked(self, path: str, words: Any) -> dict[str, Any]:
        name = words.get("class", "")
        count = _whole(words.get("count", 24), _MOST, least=1)
        if path == "state":
            return self.session.state(words.get("page", ""))
        if path == "next":
            return self.session.next(count)
        if path.startswith("like/"):
            return self.session.like(self._index(path.removeprefix("like/")), count)
        if path == "all":
            return self.session.all(_whole(words.get("start", 0), 10**9), count, name)
        if path == "surest":
            return self.session.surest(name, count)
        if path in ("slips", "map", "commands"):
            return getattr(self.session, path)()
        raise Refused(404, "there is no such address")

    def _changed(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        page = _text(content, "page")
        name = _text(content, "class").strip()
        if path == "claim":
            return self.session.claim(page, content.get("force") is True)
        if path == "label":
            how = _text(content, "how")
            by = _text(content, "by") or PERSON
            indices = content.get("indices")
            if how not in ("set", "add", "remove", "clear", "none") or by not in (PERSON, MODEL):
                raise Refused(400, "how is set, add, remove, clear or none, by is person or model")
            if not isinstance(indices, list) or len(indices) > _MOST:
                raise Refused(400, f"indices is a list of at most {_MOST:,}")
            return self.session.label(page, [self._index(i) for i in indices], how, name, by)
        if path == "rename":
            return self.session.rename(page, name, _text(content, "to").strip())
        if path in ("undo", "redo"):
            return self.session.step(page, back=path == "undo")
        raise Refused(404, "there is no such address")

    def _index(self, text: Any) -> int:
        return _whole(text, len(self.session.gallery.rows) - 1)

    def _jpeg(self, index: int, side: int) -> bytes:
        """Returns an image of the gallery as JPEG, at most `side` px."""
        of_one = self.session.gallery.pictures.take([index])
        stream = io.BytesIO()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)
                with Image.open(of_one.paths[0], formats=_FORMATS) as image:
                    if image.mode[0] in "IF":  # of more than 8 bits
                        raise OSError(image.mode)
                    image.draft("RGB", (side, side))  # a JPEG is decoded at about this size
                    image.thumbnail((side, side))
                    image = ImageOps.exif_transpose(image).convert("RGBA")
                    white = Image.new("RGBA", image.size, "white")
                    Image.alpha_composite(white, image).convert("RGB").save(
                        stream, "JPEG", quality=85
                    )
        # what Pillow does not read
        except (
            OSError,
            ValueError,
            SyntaxError,
            Image.DecompressionBombError,
        ):
            Image.fromarray(pictures.thumbnails(of_one, side)[0]).save(stream, "JPEG", quality=85)
        return stream.getvalue()


def serve(page: Page, port: int) -> Server:
    """Returns a server on 127.0.0.1 that is not yet started. Raises ConfigError if the port is
    taken.
    """
    try:
        return Server("127.0.0.1", port, page, _Handler)
    except (OSError, SystemExit) as error:  # werkzeug exits where a port is taken
        raise ConfigError(
            "port", port, "is taken by another program; 0 takes a free one"
        ) from error


class Server(ThreadedWSGIServer):
    """A thread for each connection, but no more than `_CONNECTIONS`: who opens many gets no
    answer.
    """

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._free = threading.BoundedSemaphore(_CONNECTIONS)

    def run(self) -> None:
        """Answers until a signal comes, which werkzeug's own `serve_forever` would take for a usual
        end.
        """
        try:
            socketserver.BaseServer.serve_forever(self)
        finally:
            self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers a connection in a thread of its own."""
        if self._free.acquire(timeout=1):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class _Handler(WSGIRequestHandler):
    timeout = _PATIENCE

    def log(self, type: str, message: str, *args: Any) -> None:
        """Requests are not printed."""


def _file(name: str) -> Response:
    text = (_PAGE / name).read_text(encoding="utf-8")
    if name.endswith(".css"):
        text = f":root {{ {THEME.css} }}\n{text}"
    return Response(text, content_type=f"{_TYPES[pathlib.Path(name).suffix]}; charset=utf-8")


def _json(content: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(content), status, content_type="application/json")


def _content(request: Request) -> dict[str, Any]:
    """Returns the JSON of a request. That it says so, no form of another page can make."""
    if request.mimetype != "application/json":
        raise Refused(415, "the content is application/json")
    if request.content_length is None:  # of a request in chunks
        raise Refused(411, "the length of the content is missing")
    if request.content_length > _LARGEST:
        raise Refused(413, f"more than {_LARGEST:,} bytes")
    try:
        content = json.loads(request.get_data())
    except (ValueError, RecursionError) as error:
        raise Refused(400, "no JSON") from error
    if not isinstance(content, dict):
        raise Refused(400, "no JSON object")
    return content


def _text(content: dict[str, Any], name: str) -> str:
    value = content.get(name, "")
    if not isinstance(value, str) or len(value) > _MOST:
        raise Refused(400, f"{name} is a text")
    return value


def _whole(value: Any, most: int, least: int = 0) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise Refused(404, f"a whole number of {least:,} to {most:,}")
    return int(text)
