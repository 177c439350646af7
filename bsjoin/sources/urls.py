"""A strict parser of database URLs; its errors do not show a password."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from bsjoin._secrets import hidden, secrets_of
from bsjoin.errors import ArgumentError


@dataclass(frozen=True)
class Address:
    """The parts of a URL, decoded; ``str`` hides the password.

    Attributes:
        scheme: without the driver: ``"mysql"`` for ``mysql+pymysql://``.
        driver: the part after the plus sign, or an empty text.
        path: for a server, the path without the leading slash; otherwise the path of a file.
        secrets: every spelling of the passwords in the URL.
    """

    scheme: str
    driver: str
    user: str | None
    password: str | None = field(repr=False)
    host: str | None
    port: int | None
    path: str
    options: dict[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    shown: str

    def __str__(self) -> str:
        return self.shown


def address_of(url: object, files: tuple[str, ...], servers: tuple[str, ...]) -> Address:
    """Parse a URL of one of these schemes; an error shows no more of it than the scheme."""
    if not isinstance(url, str):
        raise ArgumentError(f"url: give a text, not a {type(url).__name__}")
    known = ", ".join(f"{name}://" for name in (*files, *servers))
    scheme, colon, rest = url.partition("://")
    name, _, driver = scheme.lower().partition("+")
    if not colon:
        raise ArgumentError(f"url: it starts with its kind, one of {known}, as sqlite:///shop.db")
    if name not in (*files, *servers):
        raise ArgumentError(f"url: {name + '://'!r} is not known; there are {known}")
    if name in files:
        return _file(url, name, driver, rest)
    return _server(url, name, driver)


def _file(url: str, name: str, driver: str, rest: str) -> Address:
    path, mark, _ = rest.partition("?")
    if mark:
        raise ArgumentError(
            f"url={hidden(url)!r}: the URL of a file has no options, so nothing would follow what "
            "is after the question mark: leave it out, or write a path's question mark as %3F"
        )
    if path and not path.startswith("/"):
        raise ArgumentError(
            f"url={hidden(url)!r}: three slashes come before a relative path "
            f"({name}:///data.db) and four before an absolute one ({name}:////srv/data.db)"
        )
    return Address(
        scheme=name, driver=driver, user=None, password=None, host=None, port=None,
        path=unquote(path[1:]), options={}, secrets=secrets_of(url), shown=hidden(url),
    )  # fmt: skip


def _server(url: str, name: str, driver: str) -> Address:
    # A raw / ? # or @ in a password would be parsed as part of the host, path or query.
    try:
        parts = urlsplit(url)
        port = parts.port
        clean = not parts.fragment and "@" not in parts.path + parts.query
        clean = clean and parts.netloc.count("@") <= 1
    except ValueError:
        clean, port = False, None
    if not clean:
        raise ArgumentError(
            f"url: this {name}:// URL cannot be read (it is not shown, it may hold a password): "
            "write user:password@host:port/database, with / ? # @ : % and spaces in the user, "
            "the password and the names percent-encoded (urllib.parse.quote(text, safe=''))"
        )
    return Address(
        scheme=name, driver=driver,
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        host=parts.hostname and unquote(parts.hostname), port=port,
        path=unquote(parts.path.removeprefix("/")),
        options=_options(parts.query),
        secrets=secrets_of(url), shown=hidden(url),
    )  # fmt: skip


def _options(query: str) -> dict[str, str]:
    """The parameters of a URL; a plus sign is one, as libpq has it.

    >>> _options("password=a+b%2B&x")
    {'password': 'a+b+', 'x': ''}
    """
    pairs = (part.partition("=") for part in query.split("&") if part)
    return {unquote(name): unquote(value) for name, _, value in pairs}
