"""The page of `duly web` in a web application, behind the application's own login.

`asgi` and `wsgi` make an application to be mounted; a `Page` is called by a view. Nothing is kept in memory, so any
process may answer any request. A line for each action goes to the logger `duly.web`.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from duly._core import WebEngine
from duly._runs import log_safely

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, MutableMapping
    from typing import TypeAlias

    from duly import Client
    from duly.aio import Client as AsyncClient

    _User: TypeAlias = Callable[[Any], str | None]
    _Message: TypeAlias = MutableMapping[str, Any]
    _Receive: TypeAlias = Callable[[], Awaitable[_Message]]
    _Send: TypeAlias = Callable[[_Message], Awaitable[None]]
    _AsgiApp: TypeAlias = Callable[[_Message, _Receive, _Send], Awaitable[None]]
    _WsgiApp: TypeAlias = Callable[[dict[str, Any], Callable[..., Any]], list[bytes]]

__all__ = ["Answer", "Page", "asgi", "wsgi"]

_log = partial(log_safely, logger=logging.getLogger("duly.web"))

_ACTIONS = ("view", "operate", "admin")
_MOST_BYTES = WebEngine.most_body_bytes()
_MOST_THREADS = 8
_CUT = (400, b"the form is not whole\n")


@dataclass(frozen=True)
class Answer:
    """The response to a request: a name of a header may come more than once."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Page:
    """The page, for a view of an application."""

    def __init__(
        self,
        client: Client | AsyncClient,
        *,
        can: Callable[[str, Any], bool],
        user: _User | None = None,
        hide_data: bool = False,
    ) -> None:
        """Show the queues of a client.

        Args:
            client: a `duly.Client` or a `duly.aio.Client`. The page has connections of its own, and waits for the
                server for 3 s at the most.
            can: tells whether a user has a role: "view"; "operate", which is to pause and resume, to run jobs again or
                at another time, and to set limits; "admin", which is to cancel, purge and delete. Its other argument is
                the `who` of `handle`.
            user: gives the name of the user for the log. Default: none.
            hide_data: hides data, headers and results of jobs from users who have only "view".

        """
        _check(can)
        self._engine = WebEngine(client, hide_data=hide_data)
        self._can = can
        self._user = user

    def handle(
        self,
        method: str,
        uri: str,
        *,
        mount: str = "",
        headers: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        who: Any = None,
        peer: str | None = None,
        secure: bool = False,
    ) -> Answer:
        """Answer one request.

        Args:
            method: such as "GET".
            uri: the path that was asked for, and the query.
            mount: what the path begins with: where the page lies, such as "/duly". Any other path gets status 404.
            headers: those of the request.
            body: that of the request; more than 64 KiB are refused.
            who: the user or the request, for `can` and `user`.
            peer: the address of the browser, for the log. Default: none.
            secure: whether the browser speaks HTTPS: then cookies are for that alone.

        """
        actions = [action for action in _ACTIONS if _sure(action, self._can(action, who))]
        return self._answer(method, uri, mount, headers, body, actions, who, peer or "", secure=secure)

    def _answer(
        self,
        method: str,
        uri: str,
        mount: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        actions: list[str],
        who: Any,
        peer: str,
        *,
        secure: bool,
    ) -> Answer:
        user = self._user(who) if self._user else None
        try:
            status, given, content = self._engine.handle(
                method,
                uri,
                mount=mount,
                headers=list(headers),
                body=body,
                actions=actions,
                user=user,
                peer=peer,
                secure=secure,
            )
        finally:
            for line in self._engine.lines():
                _log(logging.INFO, "%s", line)
        return Answer(status, given, content)


def asgi(
    client: Client | AsyncClient,
    *,
    can: Callable[[str, Any], bool | Awaitable[bool]],
    user: _User | None = None,
    hide_data: bool = False,
) -> _AsgiApp:
    """Make the page as an ASGI application, such as for `app.mount("/duly", ...)` of FastAPI and Starlette.

    The arguments are those of `Page`; `can` and `user` get the scope of the request, and `can` may be a coroutine
    function. The page is made in one of at most 8 threads of its own, so the event loop goes on.
    """
    page = Page(client, can=_check(can), user=user, hide_data=hide_data)
    # No thread before the first request: a web server may still fork.
    threads = ThreadPoolExecutor(_MOST_THREADS, "duly-web")

    async def app(scope: _Message, receive: _Receive, send: _Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        if scope["type"] != "http":
            raise ValueError(f"the page of duly answers HTTP, not {scope['type']}")
        actions = []
        for action in _ACTIONS:
            allowed = can(action, scope)
            if _sure(action, await allowed if inspect.isawaitable(allowed) else allowed):
                actions.append(action)
        body = await _body(receive)
        if body is None:
            return
        mount, path = scope.get("root_path", "").rstrip("/"), scope["path"]
        # In older versions of ASGI the path does not begin with it.
        if path != mount and not path.startswith(f"{mount}/"):
            path = mount + path
        mount, uri = quote(mount), quote(path) + "?" + scope["query_string"].decode("latin-1")
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        peer, secure = ":".join(map(str, scope.get("client") or ())), scope.get("scheme") == "https"
        make = partial(page._answer, scope["method"], uri, mount, headers, body, actions, scope, peer, secure=secure)
        # As `asyncio.to_thread`, which takes the threads of the application: each waits while the server is away.
        in_context = contextvars.copy_context().run
        answer = await asyncio.get_running_loop().run_in_executor(threads, in_context, make)
        given = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": given})
        await send({"type": "http.response.body", "body": answer.body})

    return app


async def _body(receive: _Receive) -> bytes | None:
    """Read a body, or as much as shows that it is too long; nothing if the browser has gone before its end."""
    body = b""
    while len(body) <= _MOST_BYTES:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return body


def wsgi(
    client: Client | AsyncClient,
    *,
    can: Callable[[str, Any], bool],
    user: _User | None = None,
    hide_data: bool = False,
) -> _WsgiApp:
    """Make the page as a WSGI application, which lies at its `SCRIPT_NAME`.

    The arguments are those of `Page`; `can` and `user` get the environment of the request.
    """
    page = Page(client, can=can, user=user, hide_data=hide_data)

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        length = environ.get("CONTENT_LENGTH") or "0"
        wanted = min(int(length), _MOST_BYTES + 1) if length.isdecimal() else 0
        body = environ["wsgi.input"].read(wanted) if wanted else b""
        if len(body) < wanted:
            status, content = _CUT
            start_response(f"{status} {HTTPStatus(status).phrase}", [("Content-Type", "text/plain; charset=utf-8")])
            return [content]
        headers = [(name[5:].replace("_", "-"), value) for name, value in environ.items() if name.startswith("HTTP_")]
        headers.append(("Content-Type", environ.get("CONTENT_TYPE", "")))
        # Both are bytes, each of which PEP 3333 gives as a letter.
        mount, path = (quote(environ.get(name, "").encode("latin-1")) for name in ("SCRIPT_NAME", "PATH_INFO"))
        answer = page.handle(
            environ["REQUEST_METHOD"],
            mount + path + "?" + environ.get("QUERY_STRING", ""),
            mount=mount,
            headers=headers,
            body=body,
            who=environ,
            peer=environ.get("REMOTE_ADDR", ""),
            secure=environ.get("wsgi.url_scheme") == "https",
        )
        start_response(f"{answer.status} {HTTPStatus(answer.status).phrase}", answer.headers)
        return [answer.body]

    return app


def _check(can: Any) -> Any:
    if not callable(can):
        raise TypeError(f"can must be a function that says who may do what, not {type(can).__name__}")
    return can


def _sure(action: str, allowed: object) -> bool:
    """Return it if it is a bool: nothing else, such as a coroutine that nobody awaits, allows anything."""
    if not isinstance(allowed, bool):
        if inspect.iscoroutine(allowed):
            allowed.close()
        raise TypeError(f"can must return True or False for {action!r}, not {type(allowed).__name__}")
    return allowed
