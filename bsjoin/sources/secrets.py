"""Passwords in URLs: found once, and kept out of every text that leaves the package."""

from __future__ import annotations

import re
from urllib.parse import quote, quote_plus, unquote, unquote_plus

__all__ = ["hidden", "scrubbed", "secrets_of"]

_STARS = "***"
_USERINFO = re.compile(r"(://[^/\s:@'\"]*):[^\s'\"]*@")
_SECRET_NAME = re.compile(r"pass|pwd|secret|token|credential|account_key|sas", re.IGNORECASE)
_PAIR = re.compile(
    r"((?:password|passwd|sslpassword|secret|token)\s*=\s*)('[^']*'|\"[^\"]*\"|[^\s&;]+)",
    re.IGNORECASE,
)


def secrets_of(url: str) -> tuple[str, ...]:
    """Every spelling of the passwords in a URL, the longest first.

    >>> secrets_of("postgresql://me:p%40ss@host/db")
    ('p%40ss', 'p@ss')
    """
    raw: list[str] = []
    head, _, query = url.partition("?")
    userinfo, at, _ = head.partition("://")[2].rpartition("@")
    if at and ":" in userinfo:
        raw.append(userinfo.partition(":")[2])
    plain = [unquote(secret) for secret in raw]
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if _SECRET_NAME.search(unquote(name)):
            raw.append(value)
            plain += [unquote(value), unquote_plus(value)]
    spelt = {
        spelling
        for secret in plain
        for spelling in (
            secret, quote(secret), quote(secret, safe=""), quote_plus(secret),
            repr(secret)[1:-1], secret.replace("\\", "\\\\").replace("'", "\\'"),
        )
    }  # fmt: skip
    return tuple(sorted({s for s in {*spelt, *raw} if len(s) > 2}, key=lambda s: (-len(s), s)))


def scrubbed(text: str, secrets: tuple[str, ...]) -> str:
    """The text with three stars for every password, and for what looks like one in a URL.

    >>> scrubbed("cannot reach x://me:abc@host, abc!", ("abc",))
    'cannot reach x://me:***@host, ***!'
    """
    for secret in secrets:
        text = text.replace(secret, _STARS)
    text = _USERINFO.sub(rf"\1:{_STARS}@", text)
    return _PAIR.sub(rf"\1{_STARS}", text)


def hidden(url: str) -> str:
    """The URL with its passwords starred out, to be shown.

    >>> hidden("postgresql://me:secret@host:5432/db?sslmode=require&sslpassword=x")
    'postgresql://me:***@host:5432/db?sslmode=require&sslpassword=***'
    """
    head, mark, query = url.partition("?")
    scheme, colon, rest = head.partition("://")
    userinfo, at, place = rest.rpartition("@")
    if at and ":" in userinfo:
        userinfo = f"{userinfo.partition(':')[0]}:{_STARS}"
    pairs = [
        f"{pair.partition('=')[0]}={_STARS}"
        if _SECRET_NAME.search(unquote(pair.partition("=")[0]))
        else pair
        for pair in query.split("&")
    ]
    return f"{scheme}{colon}{userinfo}{at}{place}{mark}{'&'.join(pairs)}"
