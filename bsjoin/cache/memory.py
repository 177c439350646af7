"""Growing arrays in memory-mapped files, written by one process at a time and read by all."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_SMALLEST_BYTES = 1 << 12
_GROWTH = 1.25


class GrowingArray:
    """A one-dimensional array in a file.

    Space is reserved before it is written, so a full memory file system raises an ``OSError``
    here and not a bus error during a copy. Mappings are never removed: an array that was returned
    stays readable after the file has grown or was removed.
    """

    def __init__(self, path: Path, dtype: DTypeLike):
        self._path = path
        self._dtype = np.dtype(dtype)
        self._mapped: NDArray[Any] = np.zeros(0, self._dtype)

    def __len__(self) -> int:
        """Return the number of elements that this process has mapped."""
        return len(self._mapped)

    def view(self, count: int) -> NDArray[Any]:
        """The first ``count`` elements; writing to them writes to the file."""
        if count > len(self._mapped):
            self._map()
        return self._mapped[:count]

    def refresh(self) -> None:
        """Map the growth of the file, so that it stays readable if the file is removed."""
        try:
            if self._path.stat().st_size > len(self._mapped) * self._dtype.itemsize:
                self._map()
        except FileNotFoundError:
            pass  # nothing has been written yet

    def reserve(self, count: int) -> None:
        """Reserve space for ``count`` elements."""
        if count <= len(self._mapped):
            return
        wanted = count * self._dtype.itemsize
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            there = os.fstat(descriptor).st_size
            if there < wanted:
                _allocate(descriptor, max(_SMALLEST_BYTES, wanted, int(there * _GROWTH)))
        finally:
            os.close(descriptor)
        self._map()

    def write(self, at: int, values: NDArray[Any]) -> None:
        """Write elements from a position on."""
        if len(values):
            self.reserve(at + len(values))
            self._mapped[at : at + len(values)] = values

    def _map(self) -> None:
        descriptor = os.open(self._path, os.O_RDWR)
        try:
            size = os.fstat(descriptor).st_size
            # The array keeps the mapping alive, and the mapping the file.
            mapped = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        self._mapped = np.frombuffer(mapped, self._dtype, size // self._dtype.itemsize)


class Arena:
    """Growing arrays in an existing folder."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._arrays: list[GrowingArray] = []

    def array(self, name: str, dtype: DTypeLike) -> GrowingArray:
        """The array of that name."""
        array = GrowingArray(self._folder / name, dtype)
        self._arrays.append(array)
        return array

    def refresh(self) -> None:
        """Map the growth of all arrays."""
        for array in self._arrays:
            array.refresh()


def _allocate(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:  # macOS: no reservation, so a write may still fail
        os.ftruncate(descriptor, size)
