"""What a process holds open of a table, such as a connection to its server."""

from __future__ import annotations

import contextlib
import os
from typing import Any

# A child process must neither use nor close its parent's connections.
_of_the_parent: list[Any] = []


class Session:
    """What a process holds open of a table: a connection, which several tables may share.

    A copy of it in another process, or by pickling, holds nothing.
    """

    def __init__(self) -> None:
        self.held: tuple[int, Any] | None = None
        self.was_open = False

    def current(self) -> Any:
        """The connection; None if there is none of this process."""
        if self.held is not None and self.held[0] != os.getpid():
            self.close()
        return None if self.held is None else self.held[1]

    def hold(self, connection: Any) -> None:
        """Keep a connection that this process has opened."""
        self.held = (os.getpid(), connection)

    def __reduce__(self) -> tuple[type[Session], tuple[()]]:
        return Session, ()

    def close(self) -> None:
        """Close the connection; one of the parent process is only kept from being closed."""
        held, self.held = self.held, None
        if held is None:
            return
        if held[0] != os.getpid():
            _of_the_parent.append(held[1])
            return
        with contextlib.suppress(Exception):  # it may be broken already
            held[1].close()

    def __del__(self, suppress: Any = contextlib.suppress) -> None:
        with suppress(Exception):  # the interpreter may be ending, and have no modules
            self.close()
