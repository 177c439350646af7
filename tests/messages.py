"""What an error says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bsjoin.errors import BSJoinError


@contextmanager
def saying(kind: type[BSJoinError], *parts: str) -> Iterator[pytest.ExceptionInfo[BSJoinError]]:
    """What raises an error of this kind, whose message has these parts."""
    with pytest.raises(kind) as error:
        yield error
    assert isinstance(error.value, BSJoinError)
    message = str(error.value)
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"
