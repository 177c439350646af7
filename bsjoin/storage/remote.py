"""A remote file system whose errors do not contain the secrets of its URL."""

from __future__ import annotations

import contextlib
import errno
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from bsjoin._secrets import hidden, scrubbed, secrets_of
from bsjoin.errors import BSJoinError, StoreError
from bsjoin.storage.addresses import opened

T = TypeVar("T")

_PAUSES_S = (0.05, 0.2, 0.0)  # after each exclusive write that has failed
_NUMBERS: dict[type[OSError], int] = {
    FileNotFoundError: errno.ENOENT,
    FileExistsError: errno.EEXIST,
    PermissionError: errno.EACCES,
    NotADirectoryError: errno.ENOTDIR,
    IsADirectoryError: errno.EISDIR,
}


@dataclass(frozen=True)
class RemoteFile:
    """An open file.

    Args:
        read: returns up to the given number of bytes, none at the end.
        close: closes the file.
    """

    read: Callable[[int], bytes]
    close: Callable[[], None]


class RemoteFiles:
    """An fsspec file system with its own methods.

    An error of a method is raised again as an ``OSError`` with its number, or as a
    :class:`StoreError` if it has none. Secrets are removed from its message, and the original error
    is not chained, because a traceback would print it. Listings are not remembered: other processes
    write and remove files.

    Args:
        url: the URL of the files.

    Attributes:
        root: the path of the URL's folder in the file system.
    """

    root: str

    def __init__(self, url: str):
        self._url = url
        self._refuses = False
        self._fs, self.root = self._quietly(lambda: opened(url))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self._fs, name)

        def call(path: str, *args: Any, **options: Any) -> Any:
            self._forget_listings(path)
            return method(path, *args, **options)

        return lambda *args, **options: self._quietly(lambda: call(*args, **options))

    def _forget_listings(self, path: str) -> None:
        """Forget the listings that answer for a file or folder: its own, and of where it is."""
        path = path.rstrip("/")
        for listed in (path, path.rpartition("/")[0]):
            with contextlib.suppress(KeyError):  # another thread forgets it at this moment
                self._fs.invalidate_cache(listed)

    def open(self, path: str) -> RemoteFile:
        """Open a file, to be read in pieces."""
        self._quietly(lambda: self._forget_listings(path))
        file = self._quietly(lambda: self._fs.open(path, "rb"))
        return RemoteFile(lambda size: self._quietly(lambda: file.read(size)), file.close)

    def create(self, path: str, content: bytes) -> bool:
        """Write a file that does not exist; whether it did not.

        Where the store cannot write exclusively, a file that another process has just written is
        replaced. (https://filesystem-spec.readthedocs.io/en/latest/features.html)
        """
        if "mode" in inspect.signature(self._fs.pipe_file).parameters:
            # One that has refused for good is asked once.
            for pause_s in _PAUSES_S[-1:] if self._refuses else _PAUSES_S:
                try:
                    self.pipe_file(path, content, mode="create")
                    self._refuses = False
                    return True
                except FileExistsError:
                    self._refuses = False
                    return self._holds(path, content)
                except (OSError, StoreError):
                    # A store that is busy knows them; not every one of S3's kind, or client, does.
                    if self.exists(path):
                        return self._holds(path, content)
                time.sleep(pause_s)
        self.pipe_file(path, content)
        self._refuses = True
        return True

    def _holds(self, path: str, content: bytes) -> bool:
        """Whether a file is ours: a request whose answer was lost is sent again, and finds it."""
        if not content:
            return not self.size(path)  # some stores have no range of an empty file
        return bytes(self.cat_file(path, start=0, end=len(content) + 1)) == content

    def _quietly(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except Exception as error:
            failure = self._translated(error)
        raise failure

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, BSJoinError):
            return error
        number = getattr(error, "errno", None)
        if number is None:
            kinds = (kind for kind in _NUMBERS if isinstance(error, kind))
            number = next((_NUMBERS[kind] for kind in kinds), None)
        words = getattr(error, "strerror", None) or str(error)
        message = scrubbed(" ".join(words.split()), secrets_of(self._url))
        if isinstance(error, OSError) and isinstance(number, int):
            return OSError(number, message)
        return StoreError(
            f"{hidden(self._url)!r}: {type(error).__name__}: {message}. See the settings and "
            "credentials of fsspec's file system, and whether the service answers"
        )
