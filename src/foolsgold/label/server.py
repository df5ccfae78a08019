"""The local web server of a labelling session: 127.0.0.1 only, and nothing without the session's token.

The address that the command prints carries the token once; it is then a cookie that scripts cannot read, and machines
may send it as `Authorization: Bearer`. The Host header is checked, so that no other name can be made to point here (DNS
rebinding), and so is Origin, so that no other page can post with the cookie.
"""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Awaitable, Callable
from importlib.resources import files

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from foolsgold.calibration.labels import VERDICTS
from foolsgold.errors import CollectionError
from foolsgold.label.session import Session, UnknownPair

_PAGE = {"": "text/html", "page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_MAX_BODY = 16_384  # bytes of a request; ids are short

Next = Callable[[Request], Awaitable[Response]]


def listen(port: int) -> socket.socket:
    """A socket on 127.0.0.1; port 0 takes a free one.

    Raises:
        OSError: the port is taken, or not the user's to take.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a killed server's port is free at once
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()  # the page may be opened before the server has started
    except OSError:
        listener.close()
        raise
    return listener


def serve(app: Starlette, listener: socket.socket) -> None:
    """Answer requests until the process is interrupted (KeyboardInterrupt)."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # it would show the token
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run(sockets=[listener])


def application(session: Session, token: str, port: int) -> Starlette:
    """The web application. Handlers are coroutines without an await inside, so that one is done before the next."""
    return Starlette(
        routes=[
            *(Route(f"/{name}", _file(name, kind)) for name, kind in _PAGE.items()),
            Route("/next", _asked(session), methods=["POST"]),
            Route("/answer", _answered(session), methods=["POST"]),
            Route("/undo", _undone(session), methods=["POST"]),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"], www_redirect=False),
            Middleware(BaseHTTPMiddleware, dispatch=_guard(token, f"foolsgold_label_{port}")),
        ],
        exception_handlers={
            _BadRequest: _said(400),
            UnknownPair: _said(400),
            OSError: _said(500),
            CollectionError: _said(500),
        },
    )


def _guard(token: str, cookie: str) -> Callable[[Request, Next], Awaitable[Response]]:
    """Let through what has the token. The cookie's name has the port: cookies of one host are shared by its ports."""

    def known(given: str) -> bool:
        return secrets.compare_digest(given.encode(), token.encode())

    async def dispatch(request: Request, go_on: Next) -> Response:
        origin = request.headers.get("origin")
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if origin is not None and origin != f"http://{request.headers.get('host')}":
            response: Response = PlainTextResponse("this request comes from another page", 403)
        elif request.url.path == "/" and known(request.query_params.get("token", "")):
            response = RedirectResponse("/", 303)  # the token leaves the address bar and the history
            # not strict: a link in a terminal that is itself a web page is followed with lax cookies only
            response.set_cookie(cookie, token, httponly=True, samesite="lax")
        elif known(request.cookies.get(cookie, "")) or (scheme.lower() == "bearer" and known(bearer)):
            response = await go_on(request)
        else:
            response = PlainTextResponse("open the address that `foolsgold label` printed; it carries a token", 403)
        response.headers.update(_HEADERS)
        return response

    return dispatch


def _file(name: str, kind: str) -> Next:
    content = files("foolsgold.label").joinpath("page", name or "index.html").read_bytes()

    async def send(request: Request) -> Response:
        del request
        return Response(content, media_type=kind)

    return send


def _asked(session: Session) -> Next:
    async def ask(request: Request) -> Response:
        (tab,) = await _texts(request, "tab")
        return JSONResponse(session.ask(tab))

    return ask


def _answered(session: Session) -> Next:
    async def answer(request: Request) -> Response:
        tab, query_id, doc_id, said = await _texts(request, "tab", "query_id", "doc_id", "label")
        label = next((label for label in VERDICTS if label == said), None)
        if label is None:
            raise _BadRequest(f"label is {said!r}; it is one of {', '.join(VERDICTS)}")
        return JSONResponse(session.answer(tab, (query_id, doc_id), label))

    return answer


def _undone(session: Session) -> Next:
    async def undo(request: Request) -> Response:
        (tab,) = await _texts(request, "tab")
        return JSONResponse(session.undo(tab))

    return undo


class _BadRequest(ValueError):
    pass


async def _texts(request: Request, *names: str) -> list[str]:
    """The named fields of a JSON body, each a text."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BODY:
            raise _BadRequest("the request is too long")
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        raise _BadRequest("the body is not JSON") from None
    if not isinstance(values, dict) or not all(isinstance(values.get(name), str) for name in names):
        raise _BadRequest(f"the body is an object with the texts {', '.join(names)}")
    return [values[name] for name in names]


def _said(status: int) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def say(request: Request, error: Exception) -> Response:
        del request
        return JSONResponse({"error": str(error)}, status)

    return say
