"""What operators have counted, as joins: which actions count, and what is one join."""

from __future__ import annotations

from bsjoin.metrics.join_metrics import JoinLabel, JoinMetrics, OperatorMetrics
from bsjoin.metrics.operators import joins_of


def operator(
    execution: str = "1",
    *,
    rows_in: int = 4,
    label: str | None = None,
    on: str = "k",
    inner: bool = True,
) -> OperatorMetrics:
    known = None
    if label is not None:
        known = JoinLabel(label=label, mode="full", partitioned="none", runtime="jvm")
    return OperatorMetrics(
        batch=0,
        execution=execution,
        inner=inner,
        label=known,
        kind="INNER",
        table="t",
        path="/t",
        on=(on,),
        metrics=JoinMetrics(rows_in=rows_in, version=2),
    )


def rows_in(*operators: OperatorMetrics) -> list[int]:
    return [join.metrics.rows_in for _, join in joins_of("query", operators)]


def test_which_actions_and_which_joins_of_them_count() -> None:
    assert joins_of("query", []) == []
    some, none, all_of_them = (operator(n, rows_in=int(n)) for n in ("2", "0", "5"))
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
        return [label.label for label, _ in found]

    first = numbers("one query")
    assert len(set(first)) == 3
    assert [label.partition(":")[2] for label in first] == ['["k"]', '["x"]', '["k"]']
    assert numbers("one query") == first
    assert set(numbers("another query")).isdisjoint(first)
