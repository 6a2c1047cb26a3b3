"""A client that calls an ASGI application as a server would, byte for byte: paths are sent as they are written, and
headers can be wrong, missing or there twice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import unquote, urlencode


@dataclass(frozen=True)
class Answer:
    status_code: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


@dataclass
class Client:
    """Asks an application; `headers` are sent with every request, where it brings none of that name."""

    app: Any
    host: str
    headers: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **options: Any) -> Answer:
        return self.request("GET", path, **options)

    def post(self, path: str, content: Any, **headers: str) -> Answer:
        """Send JSON, or bytes as they are, from the server's own page unless the headers say otherwise."""
        body = content if isinstance(content, bytes | str) else json.dumps(content)
        own = {"origin": f"http://{self.host}", "content-type": "application/json"}
        return self.request("POST", path, body=body, headers=own | headers)

    def request(
        self, method: str, path: str, *, params: dict[str, str] | None = None, headers: dict[str, str] | None = None,
        body: bytes | str | Iterable[bytes] = b"",
    ) -> Answer:  # fmt: skip
        raw, _, query = path.partition("?")
        query = urlencode(params) if params else query
        sent = (
            {"host": self.host} | self.headers | {name.replace("_", "-"): one for name, one in (headers or {}).items()}
        )
        parts = [body.encode() if isinstance(body, str) else body] if isinstance(body, bytes | str) else list(body)
        if isinstance(body, bytes | str) and method != "GET":
            sent.setdefault("content-length", str(len(parts[0])))
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": unquote(raw), "raw_path": raw.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(name.encode(), value.encode("utf-8")) for name, value in sent.items() if value is not None],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
        }  # fmt: skip
        answer = asyncio.run(_asked(self.app, scope, parts))
        cookie = SimpleCookie(answer.headers.get("set-cookie", ""))
        if cookie:
            self.headers["cookie"] = "; ".join(f"{name}={one.value}" for name, one in cookie.items())
        return answer


async def _asked(app: Any, scope: dict[str, Any], parts: list[bytes]) -> Answer:
    messages: list[dict[str, Any]] = []
    waiting = [
        {"type": "http.request", "body": part, "more_body": number < len(parts)} for number, part in enumerate(parts, 1)
    ]

    async def receive() -> dict[str, Any]:
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    await app(scope, receive, send)
    start = next(one for one in messages if one["type"] == "http.response.start")
    headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    content = b"".join(one.get("body", b"") for one in messages if one["type"] == "http.response.body")
    return Answer(start["status"], headers, content)
