"""What operators have counted, as joins: which actions count, and what is one join."""

from __future__ import annotations

from typing import Any

from bsjoin.metrics.operators import joins_of


def operator(
    execution: str = "1",
    *,
    rows: tuple[int, int, int] = (4, 3, 5),
    kind: str = "INNER",
    label: str | None = None,
    on: str = "k",
    inner: bool = True,
) -> dict[str, Any]:
    return {
        "batch": 0,
        "execution": execution,
        "inner": inner,
        "label": None if label is None else {"label": label, "how": "inner"},
        "kind": kind,
        "table": "t",
        "path": "/t",
        "version": 2,
        "on": [on],
        **dict(zip(("rowsIn", "matchedRows", "rowsOut"), rows, strict=True)),
        "openTime": 7,
    }


def rows_in(*operators: dict[str, Any]) -> list[int]:
    return [join.figures["rows_in"] for join in joins_of("query", operators)]


def test_figures_of_each_kind() -> None:
    for kind, rows_out, matches in (
        ("INNER", 5, 5),
        ("OUTER", 6, 5),
        ("SEMI", 3, 3),
        ("ANTI", 1, 3),
        ("NULL_AWARE_ANTI", 1, 3),
        ("EXISTENCE", 4, 3),
    ):
        (join,) = joins_of("query", [operator(kind=kind, rows=(4, 3, rows_out))])
        counts = {"rows_in": 4, "hits": 3, "matches": matches, "rows_out": rows_out}
        assert join.figures == {**counts, "open_ns": 7, "version": 2}, kind
        assert (join.table, join.path) == ("t", "/t")
    assert joins_of("query", []) == []


def test_which_actions_and_which_joins_of_them_count() -> None:
    some, none, all_of_them = (operator(n, rows=(int(n), 0, 0)) for n in ("2", "0", "5"))
    assert rows_in(some, none, all_of_them) == [5]  # the action with most rows
    assert rows_in(operator("1", label="a"), operator("2", label="a")) == [4]
    # Actions with other joins come in addition.
    assert rows_in(operator("1"), operator("2"), operator("2", on="x")) == [8, 4]
    alone, both = operator("1", label="a"), [operator("2", label="a"), operator("2", label="b")]
    assert rows_in(alone, *both, *both) == [8 + 4, 4 + 4]
    # Parts of one plan are told apart, unless they are one join.
    assert rows_in(operator(), operator()) == [4, 4]
    assert rows_in(operator(label="a"), operator(label="a")) == [8]
    # The plan of a stream counts beside those of its function.
    assert rows_in(operator("1", inner=False), operator("2")) == [4, 4]


def test_a_plain_join_keeps_its_number_within_a_query() -> None:
    def numbers(query: str) -> list[str]:
        found = joins_of(query, [operator(), operator(on="x"), operator()])
        return [join.join["label"] for join in found]

    first = numbers("one query")
    assert len(set(first)) == 3
    assert [label.partition(":")[2] for label in first] == ['["k"]', '["x"]', '["k"]']
    assert numbers("one query") == first
    assert set(numbers("another query")).isdisjoint(first)
