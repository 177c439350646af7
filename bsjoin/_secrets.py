"""Secrets in URLs: found in one place, and kept out of every text that leaves the package."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus

_STARS = "***"
_WORD = re.compile(r"[^\s'\"]+")
_USER = re.compile(r"://[^/:@]*:")
_SECRET_NAME = re.compile(
    r"pass|pwd|secret|token|credential|signature|sas|jwt|authorization|"
    r"(?:api|access|account|auth|master|private|shared|storage|subscription)[-_.]?key|"
    # The parts of a signed URL of Azure, and what others call a key or a signature.
    r"^(?:sig|se|sp|sv|key|auth|code)$|^header[.].*(?:auth|key)",
    re.IGNORECASE,
)
_PARAMETER = re.compile(r"[?&;#]([^\s=&;#?'\"]+)=")
_VALUE = re.compile(r"[^&]*")  # of a secret: all up to the next parameter
_VALUE_IN_TEXT = re.compile(r"[^&\s'\"]*")  # where quotes and spaces end a URL
_PAIR = re.compile(
    r"((?:password|passwd|pwd|secret|token|authorization|"
    r"(?:access|account|api|auth|private|secret|shared)[-_.]?(?:access[-_.]?)?key)"
    r"(?:\s*=|['\"]\s*[:=])\s*)"
    r"(b?'[^']*'|b?\"[^\"]*\"|(?:(?:bearer|basic)\s+)?[^\s&;]+)",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"^(?:bearer|basic)\s+", re.IGNORECASE)
_HOST = re.compile(r"(?:\[[^]]*\]|[^:@]*)(?::\d*)?")  # and its port


def secrets_of(url: str) -> tuple[str, ...]:
    """Every spelling of the secrets in a URL, the longest first.

    >>> secrets_of("postgresql://me:p%40ss@host/db")
    ('p%40ss', 'p@ss')
    """
    front, _, query = _parts(url)  # a parameter may be a URL, or another one be chained behind it
    raw = [begun.partition(":")[2] for part in (front, query) for begun in _userinfos(part)]
    plain = [unquote(secret) for secret in raw]
    for value in (found[0] for found in _secret_values(url)):
        for part in {value, value.partition("::")[0]}:  # without the rest of a chained URL
            raw.append(part)
            plain += [unquote(part), unquote_plus(part)]
    spelt = {
        spelling
        for secret in plain
        for spelling in (
            secret, quote(secret), quote(secret, safe=""), quote_plus(secret),
            repr(secret)[1:-1], secret.replace("\\", "\\\\").replace("'", "\\'"),
        )
    }  # fmt: skip
    return tuple(sorted({s for s in {*spelt, *raw} if len(s) > 2}, key=lambda s: (-len(s), s)))


def secrets_in(options: Mapping[str, object]) -> tuple[str, ...]:
    """The secrets among the options of a driver or a catalogue: told by their names, or in URLs.

    >>> secrets_in({"AWS_SECRET_ACCESS_KEY": "abcdef", "region": "eu", "uri": "x://me:ghi@host"})
    ('abcdef', 'ghi')
    """
    found: set[str] = set()
    for name, value in options.items():
        if isinstance(value, Mapping):  # such as pyiceberg's auth
            found.update(secrets_in(value))
        text = str(value)
        if _is_secret(name):
            for secret in (text, _SCHEME.sub("", text)):  # servers show a token without "Bearer"
                found |= {secret, quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1]}
        found.update(secrets_of(text))
        for part in text.split(";"):  # of a connection string
            inside, _, secret = part.partition("=")
            found |= {secret.strip()} if _is_secret(inside) else set()
        found |= {secret.strip("'\"") for _, secret in _PAIR.findall(text)}
    return tuple(sorted({s for s in found if len(s) > 2}, key=lambda s: (-len(s), s)))


def scrubbed(text: str, secrets: tuple[str, ...]) -> str:
    """The text with three stars for every secret, and for what looks like one in a URL.

    >>> scrubbed("cannot reach x://me:abc@host, abc!", ("abc",))
    'cannot reach x://me:***@host, ***!'
    """
    for secret in secrets:
        text = text.replace(secret, _STARS)
    text = _WORD.sub(lambda word: _without_password(word[0]), _without_values(text, _VALUE_IN_TEXT))
    return _PAIR.sub(rf"\1{_STARS}", text)


def hidden(url: str) -> str:
    """The URL with its secrets starred out, to be shown.

    >>> hidden("postgresql://me:secret@host:5432/db?sslmode=require&sslpassword=x")
    'postgresql://me:***@host:5432/db?sslmode=require&sslpassword=***'
    >>> hidden("ftp://me:se?cret@host/table?x=1")
    'ftp://me:***@host/table?x=1'
    >>> hidden("abfss://data@account.dfs.core.windows.net/t?sv=2024-11-04&sig=a%2Fb")
    'abfss://data@account.dfs.core.windows.net/t?sv=***&sig=***'
    """
    head, mark, query = _parts(url)
    scheme, colon, rest = head.partition("://")
    userinfo, at, place = rest.rpartition("@")
    if colon and at and ":" in userinfo:
        userinfo = f"{userinfo.partition(':')[0]}:{_STARS}"
    return _without_values(f"{scheme}{colon}{userinfo}{at}{place}{mark}{_without_password(query)}")


def described(options: Any) -> str:
    """The ``repr`` of a dataclass, secrets of the URLs in its fields starred out."""
    shown = [
        f"{field.name}={_shown(getattr(options, field.name))}"
        for field in dataclasses.fields(options)
        if field.repr
    ]
    return f"{type(options).__qualname__}({', '.join(shown)})"


def _shown(value: object) -> str:
    if isinstance(value, str):
        return repr(hidden(value))
    if isinstance(value, os.PathLike):
        return hidden(repr(value))
    return repr(value)


def _parts(url: str) -> tuple[str, str, str]:
    """What is before the query of a URL, the question mark, and the query without its secrets."""
    front, mark, rest = url.partition("?")
    url = front + _without_values(mark + rest)  # an @ in one ends no userinfo
    begin = front.rfind("://") + 3
    place = url.find("/", begin)
    if place < 0 or not ("@" in url[begin:place] or _HOST.fullmatch(url, begin, place)):
        place = len(url)  # of a password
    at = url.rfind("@", begin, place)  # one in a password begins none
    end = url.find("?", max(at, 0))
    return (url, "", "") if end < 0 else (url[:end], "?", url[end + 1 :])


def _userinfos(front: str) -> Iterator[str]:
    """What may be a user and a password: chained URLs have several, and a path may have an @."""
    whole = front.partition("://")[2].rpartition("@")[0]
    hosts = (piece.partition("/")[0] for piece in front.split("://")[1:])
    found = {whole, whole.rpartition("://")[2], *(host.rpartition("@")[0] for host in hosts)}
    yield from (userinfo for userinfo in found if ":" in userinfo)


def _without_password(text: str) -> str:
    """A word without passwords; in a URL all is one between the first user and the last @."""
    at = text.rfind("@")
    user = _USER.search(text, 0, max(at, 0))
    return text if user is None else f"{text[: user.end()]}{_STARS}{text[at:]}"


def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(unquote_plus(name)) is not None


def _secret_values(text: str, value: re.Pattern[str] = _VALUE) -> Iterator[re.Match[str]]:
    """Where the values of the parameters are that are secrets, as a URL spells them."""
    begin = 0
    while parameter := _PARAMETER.search(text, begin):
        begin = parameter.end()
        # What looks like the value of a harmless parameter may hold one that is not.
        if _is_secret(parameter[1]) and (found := value.match(text, begin)):
            yield found
            begin = found.end()


def _without_values(text: str, value: re.Pattern[str] = _VALUE) -> str:
    shown, begin = [], 0
    for secret in _secret_values(text, value):
        shown += [text[begin : secret.start()], _STARS]
        begin = secret.end()
    return "".join([*shown, text[begin:]])
