"""``python -m bsjoin``: what a shell, a cron job or an operator does with stored tables.

``versions``, ``stats``, ``verify``, ``vacuum`` and ``sample`` read a table's folder or URL and
start no Spark. ``build`` and ``estimate`` start a session, and so does ``doctor``, which
checks one.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NoReturn

from bsjoin._secrets import scrubbed
from bsjoin._show import printable
from bsjoin.commands import doctor
from bsjoin.commands.answer import Answer
from bsjoin.commands.starting import secrets_in_words
from bsjoin.errors import BSJoinError

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> int:
    """Run a command and print its answer.

    Args:
        args: the words after ``python -m bsjoin``; None (default): those of the process.

    Returns:
        0; 1 when ``verify`` or ``doctor`` finds a fault, or the command fails; 2 (by ``argparse``)
        when the words cannot be understood; 130 after Ctrl-C.
    """
    words = sys.argv[1:] if args is None else [*args]
    as_json = "--json" in words
    try:
        options = _parser(needs_all=words[:1] != ["doctor"]).parse_args(words)
        as_json = options.json
        answer: Answer = options.run(options)
    except (BSJoinError, ImportError) as error:
        _print_error(error, as_json=as_json)
        return 1
    except KeyboardInterrupt:
        return 130  # as shells say it
    _print(_as_json(answer.data) if as_json else answer.text)
    return 0 if answer.sound else 1


def _print(text: str) -> None:
    """Print to the standard output; who reads it may have seen enough, as ``head`` has."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Python flushes once more as it ends, and would say that it could not.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """Its errors repeat words, which may have secrets."""

    _words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._words = args
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        super().error(scrubbed(message, secrets_in_words(self._words)))


def _parser(*, needs_all: bool) -> argparse.ArgumentParser:
    """The commands; ``doctor`` alone where a package is missing, unless all are needed."""
    parser = _Parser(
        prog="python -m bsjoin", description="Stored tables of bsjoin: look, check, clean, build."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print one JSON document")
    try:
        from bsjoin.commands import tables

        tables.add_to(commands, shared)
    except ModuleNotFoundError as error:
        if needs_all:
            told = f"{error}: python -m bsjoin doctor says what to install"
            raise ModuleNotFoundError(told, name=error.name) from None
    doctor.add_to(commands, shared)
    return parser


def _print_error(error: Exception, *, as_json: bool) -> None:
    if as_json:
        _print(_as_json({"error": type(error).__name__, "message": str(error)}))
    else:
        lines = map(printable, f"python -m bsjoin: {error}".split("\n"))
        print(*lines, sep="\n", file=sys.stderr)


def _as_json(data: object) -> str:
    return json.dumps(_finite(data), indent=1, default=_plain)


def _finite(thing: object) -> object:
    """The same, the numbers for which JSON has no form as the texts that Spark's JSON has."""
    if isinstance(thing, float) and not math.isfinite(thing):
        return "NaN" if math.isnan(thing) else "Infinity" if thing > 0 else "-Infinity"
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        return _finite(dataclasses.asdict(thing))
    if isinstance(thing, dict):
        return {name: _finite(value) for name, value in thing.items()}
    return [*map(_finite, thing)] if isinstance(thing, list | tuple) else thing


def _plain(thing: object) -> object:
    """What JSON has no form for: times in ISO 8601, bytes in hexadecimal, anything else as text."""
    if isinstance(thing, datetime):
        return thing.isoformat()
    if isinstance(thing, bytes):
        return thing.hex()
    return str(thing)
