"""``bsjoin.dashboard``: a local page that shows what queries do."""

from __future__ import annotations

import base64
import hashlib
import html
import ipaddress
import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bsjoin._version import __version__
from bsjoin.errors import ArgumentError
from bsjoin.metrics.refreshes import error_text
from bsjoin.monitoring import openmetrics
from bsjoin.monitoring.watching import Watched

_log = logging.getLogger("bsjoin")

_LOOPBACK = "127.0.0.1"
_LINGERS_S = 600.0
"""How long a page stays when nobody looks and nothing happens any more."""
_FORGOTTEN_S = 86_400.0
"""The same while queries run: a page that was opened and never closed."""
_CONNECTIONS = 32
"""How many requests are served at a time: each has a descriptor of the driver's process."""
_LOOKS_S = 10.0
"""The pause between two looks at the queries while nobody looks at the page."""
_WAITS_S = 8.0
"""How long a request waits for a look: Prometheus waits ten seconds for an answer."""


class Dashboard:
    """A page that :func:`bsjoin.dashboard` serves. Not to be constructed.

    It is a context manager, which closes the page at the end. A notebook shows it as a link.
    """

    def __init__(self, watched: Watched, port: int, hosts: frozenset[str]):
        self._server = _Server((_LOOPBACK, port), watched, hosts)
        self._closed = threading.Event()
        for target in (self._serve, self._look):
            threading.Thread(target=target, name="bsjoin-dashboard", daemon=True).start()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{_LOOPBACK}:{self._server.server_port}/"

    @property
    def is_open(self) -> bool:
        """Whether the page is still served."""
        return not self._closed.is_set()

    def close(self) -> None:
        """Serve the page no more; the queries go on. Once more does nothing."""
        if not self._closed.is_set():
            self._closed.set()
            self._server.wanted.set()
            self._server.shutdown()
            self._server.server_close()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=0.25)

    def _look(self) -> None:
        """Look at the queries, and close the page in the end, if nobody does."""
        server = self._server
        while True:
            server.wanted.wait(_LOOKS_S)
            server.wanted.clear()
            if self._closed.is_set():
                return
            server.watched.look()
            server.looked.set()
            unused_s = time.monotonic() - server.asked
            if server.watched.is_over:
                unused_s, longest_s = min(unused_s, server.watched.quiet_s), _LINGERS_S
            else:
                longest_s = _FORGOTTEN_S
            if unused_s > longest_s:
                self.close()

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Dashboard({self.url!r})" if self.is_open else "Dashboard(closed)"

    def _repr_html_(self) -> str:
        if not self.is_open:
            return "<p>This page is closed.</p>"
        return f'<a href="{html.escape(self.url)}" target="_blank" rel="noopener">{self.url}</a>'


def dashboard(*queries: Any, port: int = 0, hosts: Sequence[str] = ()) -> Dashboard:
    """Serve a page that shows what queries do, live: on this machine only, ``127.0.0.1``.

    Rows per second, how long micro-batches take, hit rates, caches, skew before and after, the
    partitions, where tasks run, versions of tables, and rows that wait. ``/metrics`` of the page
    has the metrics as OpenMetrics text. The page needs no network, works behind a proxy under any
    path, and costs about one percent of a core.

    Args:
        queries: streaming queries, and what :func:`bsjoin.cycles` returned.
        port: of the page; 0 (default) for any that is free.
        hosts: names by which a proxy in front of the page passes requests on, for example
            ``["notebooks.example.org"]``; none by default. Requests for any other name than
            ``localhost`` are refused: another web site could read the page otherwise.

    Returns:
        A :class:`Dashboard` with the address in ``url``. The page ends by ``close()``, at the end
        of a ``with`` block, with the process, and when nobody has asked for it for a day, or for
        ten minutes if the last query has ended that long ago, too.

    Raises:
        ArgumentError: there is no query, one is something else, or the port cannot be had.

    Example:
        >>> with bsjoin.dashboard(query) as page:
        ...     page.url
        'http://127.0.0.1:.../'
    """
    if not queries:
        raise ArgumentError("dashboard() shows queries: give what start() returned")
    for query in queries:
        if not hasattr(type(query), "recentProgress"):
            raise ArgumentError(
                f"dashboard() of a {type(query).__name__}: give streaming queries (what start() "
                "returned), or what bsjoin.cycles returned"
            )
    if type(port) is not int or not 0 <= port < 1 << 16:
        raise ArgumentError(f"port={port!r}: give a number from 1 to 65535, or 0 for any free one")
    if isinstance(hosts, str) or not all(map(_is_host, names := [*hosts])):
        raise ArgumentError(
            f"hosts={hosts!r}: give a list of names in ASCII, as ['notebooks.example.org'], "
            "without https:// and ports"
        )
    try:
        return Dashboard(Watched(queries), port, frozenset(one.lower() for one in names))
    except OSError as error:
        raise ArgumentError(
            f"port={port}: the page cannot be served there ({error.strerror}). Close what has the "
            "port, or give another one; port=0 takes any that is free"
        ) from error


def _is_host(name: object) -> bool:
    """Whether a request may ask for this name."""
    if not isinstance(name, str) or not name.isascii():
        return False
    return _host(f"[{name}]" if ":" in name else name) == name.lower() != ""


def _host(asked: str) -> str:
    """The name that a header ``Host`` has, in small letters; empty for none."""
    try:
        return (urlsplit(f"//{asked}").hostname or "").lower()
    except ValueError:
        return ""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = os.name == "posix"  # elsewhere it takes a port that is in use
    allow_reuse_port = False  # as later versions of Python would

    def __init__(self, address: tuple[str, int], watched: Watched, hosts: frozenset[str]):
        super().__init__(address, _Handler)
        self.watched = watched
        self.hosts = hosts
        self.asked = time.monotonic()
        """When a request came last."""
        self.wanted, self.looked = threading.Event(), threading.Event()
        """A look is asked for, and has ended."""
        self._free = threading.Semaphore(_CONNECTIONS)

    def look(self) -> None:
        """Have the queries looked at, unless they are; one that takes long is not waited for."""
        if not self.watched.is_looking():
            self.looked.clear()
            self.wanted.set()
            self.looked.wait(_WAITS_S)

    def process_request(self, request: Any, client_address: Any) -> None:
        """As of the base, a thread for each, but for no more than so many at a time."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread can be started now
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """As of the base."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def server_bind(self) -> None:
        """As of the base, without asking a name server who this machine is."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = _LOOPBACK, self.socket.getsockname()[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that goes away: that is no fault."""
        error = sys.exception()
        if isinstance(error, Exception) and not isinstance(error, OSError):
            _log.warning("bsjoin: dashboard: a request has failed: %s", error_text(error))

    def serves(self, host: str | None) -> bool:
        """Whether a request is for this page, by the name that it asks for."""
        name = _host(host or "")
        if name == "localhost" or name.endswith(".localhost") or name in self.hosts:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = f"bsjoin/{__version__}"
    sys_version = ""
    timeout = 10.0

    def do_GET(self) -> None:
        """Answer with the page, its data, or the metrics."""
        if not self.server.serves(self.headers.get("Host")):
            self._answer(403, "text/plain", _NOT_OURS)
        elif self.headers.get("Sec-Fetch-Site", "none") not in _OWN and not self._navigates():
            self._answer(403, "text/plain", b"Another web site asks for this page.\n")
        else:
            self.server.asked = time.monotonic()
            self._found()

    def do_HEAD(self) -> None:
        """The same without the content."""
        self.do_GET()

    def _navigates(self) -> bool:
        """Whether it is a link to the page, which another site may have, and no frame."""
        return self.headers.get("Sec-Fetch-Dest") == "document"

    def _found(self) -> None:
        try:
            address = urlsplit(self.path)
        except ValueError:
            self._answer(400, "text/plain", b"This is no address of the page.\n")
            return
        place = address.path.rstrip("/").rpartition("/")[2]
        watched = self.server.watched
        if place == "data.json":
            self.server.look()
            if parse_qs(address.query).get("seen") == [str(watched.number)]:
                self._answer(204, "application/json", b"")
            else:
                self._answer(200, "application/json", watched.as_json())
        elif place == "metrics":
            self.server.look()
            text = openmetrics.text(watched.totals.samples())
            self._answer(200, openmetrics.CONTENT_TYPE, text.encode())
        else:
            content, policy = page()
            self._answer(200, "text/html; charset=utf-8", content, policy)

    def _answer(self, status: int, kind: str, content: bytes, policy: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", policy or "default-src 'none'")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the page asks every two seconds."""


_OWN = ("none", "same-origin")
_NOT_OURS = (
    b"This page is for this machine. Behind a proxy, name the proxy's host: "
    b"bsjoin.dashboard(query, hosts=[...]).\n"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@cache
def page() -> tuple[bytes, str]:
    """The page in one file, and what a browser may do with it."""
    folder = files("bsjoin.monitoring") / "page"
    style, script, text = (
        (folder / name).read_text("utf-8") for name in ("page.css", "page.js", "page.html")
    )
    text = text.replace("{style}", style).replace("{script}", script)
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'"
    )
    return text.encode(), policy


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
