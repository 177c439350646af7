"""Cases that failed once, and cases that are hard: an ordinary test runs them.

The generator may change, so a case is kept as what was drawn, not as its seed.
"""

from __future__ import annotations

import math

from bsjoin import AsOf, Band, Overlaps, Within
from tests.fuzz.case import Case, Join, Rows, Table

__all__ = ["KEPT"]

_NAN, _INF = math.nan, math.inf
_FLOATS = (_NAN, -0.0, 0.0, _INF, -_INF, 1.5, None)
_POINTS = Table(
    columns=(("k", "int"), ("at", "double"), ("text", "string")),
    versions=(
        tuple((n % 2, value, f"row {n}") for n, value in enumerate(_FLOATS * 2)),
        tuple((n % 3, value, None) for n, value in enumerate(_FLOATS)),
    ),
    keys=("k",),
    when=AsOf("p", "at", "nearest"),
)
_SPANS = Table(
    columns=(("start", "long"), ("end", "int"), ("v", "decimal(25,3)")),
    versions=(((5, 5, None), (-(2**63), 7, None), (2**63 - 1, None, None), (None, 3, None)),),
    keys=(),
    when=Overlaps(("a", "b"), ("start", "end"), "both"),
)
_STREAM = Rows(
    (("n", "long"), ("k", "long"), ("p", "float")),
    tuple((n, n % 3 if n % 5 else None, value) for n, value in enumerate(_FLOATS * 3)),
)
_NUMBERS = Rows(
    (("n", "long"), ("a", "decimal(18,0)"), ("b", "byte")),
    ((0, 5, 5), (1, 6, None), (2, None, 9), (3, -(10**17), -5), (4, 10**18 - 1, None)),
)  # fmt: skip


def _nearest(runtime: str, exact: bool) -> Join:
    when = AsOf("p", "at", "nearest", None if exact else 2.0, exact)
    return Join(0, (("k", "k"),), "left", when, runtime=runtime)


KEPT: dict[str, Case] = {
    **{
        f"nearest doubles, {runtime}, {exact}": Case(
            (_POINTS,), _STREAM, (_nearest(runtime, exact),), batch_rows=7
        )
        for runtime in ("jvm", "python")
        for exact in (True, False)
    },
    "a replay after a refresh": Case(
        (_POINTS,),
        _STREAM,
        (
            _nearest("jvm", True),
            Join(0, (("k", "k"),), "anti", Band("at", "at", 0.5, _INF, "right"), runtime="python"),
        ),
        cuts=(7, 7, 7),
        events=((1, "refresh"), (1, "replay"), (2, "restart")),
    ),
    **{
        f"overlaps at the limits, {runtime}": Case(
            (_SPANS,),
            _NUMBERS,
            (
                Join(0, (), "left", Overlaps(("a", "b"), ("start", "end"), "both"), runtime="jvm"),
                Join(0, (), "left", Within("b", "start", "end", "both"), (), runtime=runtime),
            ),
        )
        for runtime in ("jvm", "python")
    },
}
