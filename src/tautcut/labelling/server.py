"""The page's addresses, and who may ask for them. It serves the person at this machine alone: on 127.0.0.1, to whoever
has the token, under its own name and to its own page. It serves the page's files and listed things, and no other path;
it takes no file. What an answer means is known to the session.
"""

from __future__ import annotations

import json
import re
import secrets
import socket
from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tautcut.errors import InputError, TautcutError
from tautcut.labelling import exports
from tautcut.labelling.answers import RefusedError
from tautcut.labelling.session import Session

HOST = "127.0.0.1"
LARGEST_BODY = 1_000_000  # bytes
# Seconds for which a page that can wait is let wait for a better question; an answer never waits. Among few things it
# is chosen within a second or two, unless the machine is busy; among many the choice takes longer than anyone waits.
PATIENCE_AMONG_FEW, PATIENCE = 15.0, 4.0
FEW_THINGS = 10_000
# What the page may do: load its own files and ask this server, and nothing else.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
_TYPES = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}  # fmt: skip
_ONWARDS = '<!doctype html><meta http-equiv="refresh" content="0;url=/"><title>tautcut</title><a href="/">The page</a>'
_SKIPPED = re.compile(r"\d{1,9}(,\d{1,9}){0,999}")


def asset_names() -> dict[str, Any]:
    """The files of the page by their names: its own, and those that it shares with the report's."""
    found: dict[str, Any] = {}
    for room, kinds in (("tautcut.report", (".css", ".js")), ("tautcut.labelling", tuple(_TYPES))):
        folder = files(room) / "assets"
        found |= {one.name: one for one in folder.iterdir() if one.name.endswith(kinds)} if folder.is_dir() else {}
    return found


def application(
    session: Session, *, port: int, token: str, ticket: str | None = None, settings: Mapping[str, Any] | None = None
) -> ASGIApp:
    """The page of a session, as it is served on a port to whoever has the token.

    `ticket` opens it once: what starts a browser shows its arguments to every user of the machine.
    """
    pages = _Pages(session, settings or {})
    routes = [
        Route("/", pages.page, methods=["GET"]),
        Route("/api/state", pages.state, methods=["GET"]),
        Route("/api/question", pages.question, methods=["GET"]),
        Route("/api/things/{index:int}", pages.thing, methods=["GET"]),
        Route("/api/map", pages.map, methods=["GET"]),
        Route("/api/answers", pages.answers, methods=["POST"]),
        Route("/api/undo", pages.undo, methods=["POST"]),
        Route("/api/classes", pages.classes, methods=["POST"]),
        Route("/things/{index:int}/image", pages.image, methods=["GET"]),
        Route("/export/{name}", pages.export, methods=["GET"]),
        Route("/assets/{name}", pages.asset, methods=["GET"]),
    ]
    handlers: Any = {HTTPException: _told, TautcutError: _refused}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Guard(app, port=port, token=token, ticket=ticket)


class Guard:
    """Lets through what comes from the page's own person, and gives every answer its headers."""

    def __init__(self, app: ASGIApp, *, port: int, token: str, ticket: str | None = None) -> None:
        self._app, self._token, self._ticket, self._cookie = app, token, ticket, f"tautcut-{port}"
        self._hosts = {f"{name}:{port}" for name in (HOST, "localhost")}
        if port == 80:
            self._hosts |= {HOST, "localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # there are no sockets
        request = Request(scope, receive)
        answer = self._judged(request)
        if answer is not None:
            await answer(scope, receive, _with_headers(send))
            return
        try:
            body = await _limited(receive, request)
        except _TooLargeError:
            too_large = JSONResponse({"error": f"a request has {LARGEST_BODY:,} bytes at most."}, 413)
            await too_large(scope, receive, _with_headers(send))
            return
        await self._app(scope, body, _with_headers(send))

    def _judged(self, request: Request) -> Response | None:
        """The answer to what is not let through, or only redirected."""
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return JSONResponse({"error": "this server is not known by that name."}, 421)
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() != f"http://{hosts[0].lower()}":
            return JSONResponse({"error": "another page may not ask this server."}, 403)
        is_from_elsewhere = request.headers.get("sec-fetch-site") not in (None, "same-origin", "none")
        given = request.query_params.get("token")
        is_visit = request.method == "GET" and request.scope["path"] == "/" and given is not None
        if is_from_elsewhere and not is_visit:  # a link may open the page, by its token, and nothing else
            return JSONResponse({"error": "another page may not ask this server."}, 403)
        if given is not None:
            is_ticket = is_visit and self._ticket is not None and _same(given, self._ticket)
            if is_ticket:
                self._ticket = None
            elif not _same(given, self._token):
                return JSONResponse({"error": "the token is wrong. Open the address that tautcut label printed."}, 403)
        elif not _same(request.cookies.get(self._cookie, ""), self._token):
            return JSONResponse(
                {"error": "the token is missing. Open the address that tautcut label printed."}, 403
            )  # fmt: skip
        if request.method == "POST":
            if origin is None:
                return JSONResponse({"error": "a request that changes something must say its Origin."}, 403)
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                return JSONResponse({"error": "answers are sent as application/json."}, 415)
        return self._let_in(is_from_elsewhere) if is_visit else None

    def _let_in(self, is_from_elsewhere: bool) -> Response:
        """The cookie, and on to the page; a browser keeps the cookie from where a link elsewhere leads, but once."""
        answer = Response(_ONWARDS, media_type="text/html") if is_from_elsewhere else RedirectResponse("/", 303)
        answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
        return answer


class _TooLargeError(Exception):
    """A body that is longer than any answer."""


async def _limited(receive: Receive, request: Request) -> Receive:
    """What receives the body, which is read here, and is never longer than the limit."""
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > LARGEST_BODY:
        raise _TooLargeError
    body = b""
    while request.method != "GET":
        message = await receive()
        if message["type"] != "http.request":
            break
        body += message.get("body", b"")
        if len(body) > LARGEST_BODY:
            raise _TooLargeError
        if not message.get("more_body"):
            break
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            named = {name for name, _ in message["headers"]}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in named]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sent


def _same(given: str, token: str) -> bool:
    """Whether two texts are the same; how long it takes tells nothing."""
    return secrets.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())


class _Pages:
    """An answer for each address."""

    def __init__(self, session: Session, settings: Mapping[str, Any]) -> None:
        self._session, self._settings, self._assets = session, settings, asset_names()

    async def page(self, request: Request) -> Response:
        return self._asset("label.html")

    async def asset(self, request: Request) -> Response:
        return self._asset(request.path_params["name"])

    def _asset(self, name: str) -> Response:
        if name not in self._assets:
            raise HTTPException(404)
        kind = _TYPES["." + name.rpartition(".")[2]]
        return Response(self._assets[name].read_bytes(), media_type=kind)

    async def state(self, request: Request) -> Response:
        return await _json(self._session.state)

    async def question(self, request: Request) -> Response:
        shown, patience = _shown_already(request), 0.0
        if request.query_params.get("patient") == "1":
            patience = PATIENCE_AMONG_FEW if len(self._session.things.names) <= FEW_THINGS else PATIENCE
        return await _json(partial(self._session.question, shown, patience=patience))

    async def thing(self, request: Request) -> Response:
        return await _json(partial(self._session.looked_at, self._index(request)))

    async def map(self, request: Request) -> Response:
        found = await run_in_threadpool(self._session.map)
        return JSONResponse({"x": [], "y": [], "index": [], "class": [], "is_labelled": []} if found is None else found)

    async def image(self, request: Request) -> Response:
        index = self._index(request)
        found = await run_in_threadpool(self._session.things.image, index)
        if found is None:
            raise HTTPException(404)
        content, kind = found
        headers = {"cache-control": "private, max-age=600", "content-disposition": "inline"}
        return Response(content, media_type=kind, headers=headers)

    def _index(self, request: Request) -> int:
        index: int = request.path_params["index"]
        if not 0 <= index < len(self._session.things.names):
            raise HTTPException(404)
        return index

    async def answers(self, request: Request) -> Response:
        shown = _shown_already(request)
        given = await _body(request, {"id", "things", "label", "is_check", "skip"})
        skip, is_check = given.get("skip", False), given.get("is_check", False)
        if not isinstance(skip, bool) or not isinstance(is_check, bool):
            raise RefusedError("skip and is_check are true or false.")

        def take() -> dict[str, Any]:
            revision = self._session.answer(
                given.get("id"), given.get("things"), given.get("label"), skip=skip, is_check=is_check  # type: ignore[arg-type]
            )  # fmt: skip
            return {"revision": revision, "question": self._session.question(shown)}

        return await _json(take)

    async def undo(self, request: Request) -> Response:
        given = await _body(request, {"id"})

        def take() -> dict[str, Any]:
            revision, index = self._session.undo(given.get("id"))  # type: ignore[arg-type]
            question = self._session.question() if index is None else self._session.asked_again(index)
            return {"revision": revision, "question": question}

        return await _json(take)

    async def classes(self, request: Request) -> Response:
        given = await _body(request, {"id", "name"})

        def take() -> dict[str, Any]:
            return {"revision": self._session.add_class(given.get("id"), given.get("name"))}  # type: ignore[arg-type]

        return await _json(take)

    async def export(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in exports.NAMES:
            raise HTTPException(404)
        content = await run_in_threadpool(exports.export, self._session, name, self._settings)
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type=exports.NAMES[name], headers=headers)


def _shown_already(request: Request) -> frozenset[int]:
    """The things that a page has on show or ready, and need not be asked about again."""
    text = request.query_params.get("skip", "")
    if text and not _SKIPPED.fullmatch(text):
        raise RefusedError("skip must be numbers of things, as 17,18.")
    return frozenset(int(one) for one in text.split(",")) if text else frozenset()


async def _json(work: Callable[[], Any]) -> Response:
    """What work() says, done beside the loop: a disk may take its time."""
    return JSONResponse(await run_in_threadpool(work))


async def _body(request: Request, names: set[str]) -> dict[str, Any]:
    """The object that was sent, if it has no other names than these."""
    try:
        given = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise RefusedError("the request is not JSON.") from None
    if not isinstance(given, dict) or not names.issuperset(given):
        raise RefusedError(f"the request must be an object of {', '.join(sorted(names))}.")
    return given


async def _told(request: Request, error: Exception) -> Response:
    """The sentence for what there is not."""
    assert isinstance(error, HTTPException)
    sentence = {404: "there is no such thing here.", 405: "that cannot be done with this address."}
    return JSONResponse({"error": sentence.get(error.status_code, error.detail)}, error.status_code)


async def _refused(request: Request, error: Exception) -> Response:
    """The sentence for what cannot be done: 400, or 409 where nothing is wrong with the request but the moment."""
    return JSONResponse({"error": str(error)}, 400 if isinstance(error, RefusedError) else 409)


# ---------------------------------------------------------------- serving


def bound(port: int) -> socket.socket:
    """A socket on this machine's own address; port 0 is one that is free."""
    # Named as TCP, or asyncio would leave answers waiting for 40 ms, to be sent in fewer packets.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(64)
    except (OSError, OverflowError) as error:
        listening.close()
        raise InputError(
            f"port {port} cannot be used: {getattr(error, 'strerror', None) or error}. Choose another by --port, or "
            "leave it out for one that is free."
        ) from error
    return listening


def server_of(app: ASGIApp) -> uvicorn.Server:
    """The server of an application: it is run on a socket, and ends soon after its `should_exit` is set."""
    config = uvicorn.Config(
        app, log_level="error", access_log=False, server_header=False, lifespan="off", timeout_graceful_shutdown=1,
        timeout_keep_alive=120, limit_concurrency=200, ws="none", http="h11", loop="asyncio",
    )  # fmt: skip
    return uvicorn.Server(config)
