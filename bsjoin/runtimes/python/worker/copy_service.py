"""Copies files of remote tables for a JVM, which reads local files only; one process per JVM.

``python -m bsjoin.runtimes.python.worker.copy_service`` reads one request a line from the standard
input and writes one answer a line to the standard output, both JSON objects. It ends when its input
ends, so with the JVM. A request has the ``url`` of the table and says ``what`` is wanted:

==========  ===============================  ===================================================
what        arguments                        answer
==========  ===============================  ===================================================
numbers                                      ``numbers`` of the versions that are there, and the
                                             ``stamps`` of the last ones, if the store lists any
manifest    ``number``                       ``content``, a text; null if the version is gone
fresh                                        ``names`` of the marks, ``bsjoin/storage/freshness.py``
file        ``name``, ``size``, ``checksum``  ``path`` of a local copy, there until the next request
keep        ``names`` of files in use        nothing; the copies of older versions are removed
==========  ===============================  ===================================================

The answer to a request that fails has the name of the ``error`` and its ``message``. Copies are
those of :mod:`bsjoin.storage.copies`, which all processes of the host share.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, TextIO

from bsjoin._secrets import hidden, scrubbed, secrets_of
from bsjoin.errors import BSJoinError, StoreError
from bsjoin.host import temporary_folder
from bsjoin.storage import StorageLocation, freshness, versions
from bsjoin.storage.mapped import sound

_STAMPED = 256  # a table may have thousands of versions, and a reader looks at the last ones


class CopyService:
    """Answers requests. The folder is empty, on the file system of the copies."""

    def __init__(self, folder: Path):
        self._link = folder / "copy"

    def answer(self, line: bytes) -> str:
        """The answer to one request, both JSON; an error is an answer, too."""
        request = json.loads(line)
        url = request["url"]
        self._link.unlink(missing_ok=True)
        try:
            found = self._answers[request["what"]](self, StorageLocation(url), request)
        except BSJoinError as error:
            found = {"error": type(error).__name__, "message": str(error)}
        except Exception as error:
            reason = scrubbed(str(error), secrets_of(url))
            message = f"{hidden(url)!r}: {type(error).__name__}: {reason}"
            found = {"error": StoreError.__name__, "message": message}
        return json.dumps(found)

    def _numbers(self, location: StorageLocation, _: dict[str, Any]) -> dict[str, Any]:
        stamps = versions.stamps(location)
        last = [*stamps.items()][-_STAMPED:]
        return {"numbers": [*stamps], "stamps": {number: one for number, one in last if one}}

    def _manifest(self, location: StorageLocation, request: dict[str, Any]) -> dict[str, Any]:
        try:
            content = versions.read(location, request["number"])
        except FileNotFoundError:
            return {"content": None}
        return {"content": content.decode("utf-8", "replace")}

    def _fresh(self, location: StorageLocation, _: dict[str, Any]) -> dict[str, Any]:
        return {"names": freshness.mark_names(location)}

    def _file(self, location: StorageLocation, request: dict[str, Any]) -> dict[str, Any]:
        name = request["name"]
        with sound(location, name):
            location.link(name, request["size"], request["checksum"], self._link)
        return {"path": str(self._link)}

    def _keep(self, location: StorageLocation, request: dict[str, Any]) -> dict[str, Any]:
        versions.remove_copies(location, request["names"])
        return {}

    _answers: dict[str, Callable[..., dict[str, Any]]] = {  # noqa: RUF012
        "numbers": _numbers,
        "manifest": _manifest,
        "fresh": _fresh,
        "file": _file,
        "keep": _keep,
    }


def _serve(requests: SimpleQueue[bytes], answers: TextIO) -> None:
    try:
        service = CopyService(temporary_folder("link").path)
        while True:
            print(service.answer(requests.get()), file=answers, flush=True)
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # the JVM waits for an answer


def main() -> None:
    """Answer the requests on the standard input until it ends, even within a download."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    requests: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_serve, args=(requests, answers), daemon=True).start()
    for line in sys.stdin.buffer:  # UTF-8, whatever the locale
        requests.put(line)


if __name__ == "__main__":
    main()
