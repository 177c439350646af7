"""Commands from the driver to all workers: which keys of a source are to be forgotten.

A command is a small numbered file in a folder that the driver and all workers reach. It says
once for every host what to do; each host notes the last number it has carried out.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from bsjoin.store.home import Home

__all__ = ["Control"]


@dataclass(frozen=True)
class Control:
    """The commands of one join.

    Args:
        home: the folder.
        keys: the key columns, in the order of the join.
    """

    home: Home
    keys: pa.Schema

    def forget(self, keys: pa.Table | None) -> int:
        """Give the command to forget some keys, or all; the number of the command."""
        content = b""
        if keys is not None:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, keys.schema) as writer:
                writer.write_table(keys)
            content = sink.getvalue().to_pybytes()
        number = self.last() + 1
        while not self.home.create(_name(number), content):
            number += 1
        return number

    def last(self) -> int:
        """The number of the last command; 0 without one."""
        return max(self._numbers(), default=0)

    def since(self, number: int) -> list[tuple[int, pa.Table | None]]:
        """The commands after some number, in order."""
        found = []
        for later in sorted(n for n in self._numbers() if n > number):
            content = self.home.read(_name(later))
            found.append((later, pa.ipc.open_stream(content).read_all() if content else None))
        return found

    def _numbers(self) -> list[int]:
        stems = (name.removesuffix(".forget") for name in self.home.names(""))
        return [int(stem) for stem in stems if stem.isdigit()]


def _name(number: int) -> str:
    return f"{number:08d}.forget"
