"""What an error says."""

from __future__ import annotations

import pytest

from bsjoin.errors import BSJoinError


def says(error: pytest.ExceptionInfo[BaseException], *parts: str) -> None:
    """It is one of bsjoin's, and its message has these parts."""
    message = str(error.value)
    assert isinstance(error.value, BSJoinError)
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"
