"""What travels from the driver to the workers: small, frozen, picklable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from bsjoin.store import Home

__all__ = ["LookupPlan", "Shape"]

Shape = Literal["exists", "row", "rows", "runs"]


@dataclass(frozen=True)
class LookupPlan:
    """A look-up in a stored table, as the workers carry it out.

    Args:
        label: unique name of the join in this application, for its figures.
        home: where the table lives.
        epoch: when the newest version was published as the plan was made; tells a table
            apart from an earlier one at the same path.
        version: the version to use, or ``None`` to choose by the micro-batch's timestamp.
        columns: the stored columns to bring.
        shape: what the answer to one key is: whether it ``exists``; its only ``row`` as a
            struct; its ``rows`` as a list of structs; or where the ``runs`` of its rows lie,
            as first row and count, to be gathered in pieces.
        row_type: Arrow type of the struct that holds one row of the table.
    """

    label: str
    home: Home
    epoch: int
    version: int | None
    columns: tuple[str, ...]
    shape: Shape
    row_type: pa.StructType
