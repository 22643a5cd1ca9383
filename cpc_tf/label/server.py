"""The page's server: it answers on 127.0.0.1 alone, to who knows the token, and serves pictures by their number."""

from __future__ import annotations

import hmac
import io
import json
import pathlib
import secrets
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from PIL import Image, ImageOps
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

from cpc_tf import pictures
from cpc_tf.data.labels import MODEL, PERSON
from cpc_tf.drawing.plots import THEME
from cpc_tf.files import NotWritten, reason
from cpc_tf.label.session import Session, TakenOver
from cpc_tf.settings import ConfigError

_PAGE = pathlib.Path(__file__).parent
_FILES = {"": "page.html", "page.css": "page.css", "page.js": "page.js"}
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_SIDES = {"thumb": 192, "picture": 1024}  # px
_MOST = 5000  # bytes of a file name and of a class, pictures of an answer and of a change
_LARGEST = 2**20  # bytes of a request
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
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
            traceback.print_exc(file=sys.stderr)
            response = _json({"error": f"the server failed: {reason(error)}"}, 500)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response(environ, start_response)

    def _answer(self, request: Request) -> Response:
        # Another host would be a page that leads here by DNS rebinding; another origin a page that is open beside this.
        if urlsplit(f"//{request.host}").hostname not in ("127.0.0.1", "localhost", "::1"):
            raise Refused(403, "this page is at 127.0.0.1")
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            raise Refused(403, "a request from another page")
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
            return Response(
                self._jpeg(index, _SIDES[kind]),
                mimetype="image/jpeg",
                headers={"Cache-Control": "private, max-age=3600"},
            )
        return _json(self._asked(path, request.args))

    def _asked(self, path: str, words: Any) -> dict[str, Any]:
        def number(name: str, default: int) -> int:
            return _whole(words.get(name, default), _MOST if name == "count" else 10**9)

        name = words.get("class", "")
        if path == "state":
            return self.session.state(words.get("page", ""))
        if path == "next":
            return self.session.next(number("count", 24))
        if path.startswith("like/"):
            return self.session.like(self._index(path.removeprefix("like/")), number("count", 24))
        if path == "all":
            return self.session.all(number("start", 0), number("count", 200), name)
        if path == "surest":
            return self.session.surest(name, number("count", 24))
        if path in ("slips", "map", "commands"):
            return getattr(self.session, path)()
        raise Refused(404, "there is no such address")

    def _changed(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        page, name = _text(content, "page"), _text(content, "class").strip()
        if path == "claim":
            return self.session.claim(page, content.get("force") is True)
        if path == "label":
            how, by = _text(content, "how"), _text(content, "by") or PERSON
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
        """Returns a picture of the gallery as JPEG, at most `side` px."""
        of_one, stream = self.session.gallery.pictures.take([index]), io.BytesIO()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)
                with Image.open(of_one.paths[0]) as image:
                    if image.mode[0] in "IF":  # of more than 8 bits
                        raise OSError(image.mode)
                    image.draft("RGB", (side, side))  # a JPEG is decoded at about this size
                    image.thumbnail((side, side))
                    image = ImageOps.exif_transpose(image).convert("RGBA")
                    white = Image.new("RGBA", image.size, "white")
                    Image.alpha_composite(white, image).convert("RGB").save(stream, "JPEG", quality=85)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):  # what Pillow does not read
            Image.fromarray(pictures.thumbnails(of_one, side)[0]).save(stream, "JPEG", quality=85)
        return stream.getvalue()


def serve(page: Page, port: int) -> BaseWSGIServer:
    """Returns a server on 127.0.0.1 that is not yet started. Raises ConfigError if the port is taken."""
    try:
        return make_server("127.0.0.1", port, page, threaded=True, request_handler=_Quiet)
    except (OSError, SystemExit) as error:  # werkzeug exits where a port is taken
        raise ConfigError("port", port, "is taken by another program; 0 takes a free one") from error


class _Quiet(WSGIRequestHandler):
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
    if (request.content_length or 0) > _LARGEST:
        raise Refused(413, f"more than {_LARGEST:,} bytes")
    try:
        content = json.loads(request.get_data())
    except ValueError as error:
        raise Refused(400, "no JSON") from error
    if not isinstance(content, dict):
        raise Refused(400, "no JSON object")
    return content


def _text(content: dict[str, Any], name: str) -> str:
    value = content.get(name, "")
    if not isinstance(value, str) or len(value) > _MOST:
        raise Refused(400, f"{name} is a text")
    return value


def _whole(value: Any, most: int) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= most):
        raise Refused(404, f"a whole number of at most {most:,}")
    return int(text)
