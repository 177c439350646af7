"""Every private member of Spark that bsjoin touches, in one version of Spark, without pytest.

``tests/smoke.py`` runs it with other versions than the installed one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bsjoin.runtimes.jvm.jar import compiled
from bsjoin.spark import compat
from bsjoin.spark.session import is_connect


def missing(*given: object) -> None:
    """An entry whose member is missing."""
    raise compat.MissingMemberError("it was taken away")


def classic(spark: SparkSession) -> dict[str, Callable[[], bool]]:
    """By the name of an entry for classic sessions, whether it works."""
    df = spark.range(3).select((F.col("id") + 1).alias("next"))
    kept = spark.range(7).where("id > 2")
    observation = Observation("compat")

    def observed() -> bool:
        rows = df.observe(observation, F.count(F.lit(1)).alias("rows"))
        assert not compat.is_complete(observation)
        rows.collect()
        return observation.get == {"rows": 3} and compat.is_observed(observation)

    def cached() -> bool:
        name = "InMemoryRelation"
        assert name not in str(compat.with_cached_data(kept))
        kept.cache()
        try:
            return name in str(compat.with_cached_data(kept))
        finally:
            kept.unpersist()

    def catalyst() -> bool:
        found = compat.catalyst(df)
        assert all(one is not None for one in vars(found).values())
        stub = found.project(compat.analyzed(df).projectList(), found.no_rows())
        assert stub.deterministic()
        assert not stub.containsPattern(found.python_function)
        return compat.catalyst(kept) is found

    def since() -> bool:
        stream = spark.readStream.format("rate").load()
        query = stream.writeStream.format("noop").trigger(once=True).start()
        query.awaitTermination()
        done = [one.batchId for one in query.recentProgress]
        return done == [one.batchId for one in compat.progress_since(query, -1)] != []

    return {
        "_progress_since": since,
        "analyzed": lambda: compat.analyzed(df).nodeName() == "Project",
        "with_cached_data": cached,
        "java_session": lambda: compat.java_session(spark).sharedState() is not None,
        "dataframe_of": lambda: compat.dataframe_of(compat.analyzed(df), df).count() == 3,
        "catalyst": catalyst,
        "settings_at_once": lambda: compat.settings_at_once(spark) == spark.conf.getAll,
        "_attached": lambda: compat.attach_jar(spark, compiled(), "bsjoin.jvm.Functions"),
        "java_class": lambda: (
            compat.java_class("bsjoin.jvm.Functions") is not None
            and compat.java_class("bsjoin.jvm.NoSuchClass") is None
        ),
        "active_queries_of_all": lambda: compat.active_queries_of_all(spark).isEmpty(),
        "_first_session": lambda: compat.first_session() is not None,
        "is_observed": observed,
        "deliver_events": lambda: compat.deliver_events(spark, 5.0) is None,
    }


def connect(spark: SparkSession) -> dict[str, Callable[[], bool]]:
    """The same for those for sessions of Spark Connect."""
    df = spark.range(3)
    other = spark.range(4).withColumnRenamed("id", "k")
    plan: Any = compat.connect_plan(df)

    def of(made: DataFrame) -> Any:
        return compat.connect_plan(made)

    def numbered() -> bool:
        given = df.select("*")
        compat.set_plan_id(of(given), compat.plan_id(plan))
        return compat.plan_id(of(given)) == compat.plan_id(plan)

    def of_a_join(how: str) -> bool:
        left, right, lacks = compat.sides_of(of(df.join(other, df.id == other.k, how)), df)
        assert (left.columns, right.columns) == (["id"], ["k"])
        return lacks

    def of_a_query() -> bool:
        stream = spark.readStream.format("rate").load()
        query = stream.writeStream.format("noop").start()
        try:
            return compat.session_of(query) is not None
        finally:
            query.stop()

    computed = df.select("*", df.id, (df.id + 1).alias("next"), F.lit(1), F.expr("id"))
    kinds = ["all", "name", "alias", "other", "name"]
    return {
        # None, or the one of a server that this process has started.
        "_first_session": lambda: isinstance(compat.first_session(), SparkSession | None),
        "_session_of": of_a_query,
        "active_connect_session": lambda: compat.active_connect_session() is not None,
        "connect_plan": lambda: type(plan).__name__ == "Range",
        "plan_id": lambda: compat.plan_id(plan) != compat.plan_id(of(other)),
        "set_plan_id": numbered,
        "inputs_of": lambda: (
            compat.inputs_of(of(df.crossJoin(other))) == [plan, of(other)]
            and compat.inputs_of(of(df.limit(1))) == [plan]
            and compat.inputs_of(plan) == []
        ),
        "plans_in": lambda: compat.plans_in(of(df.crossJoin(other))) == [plan, of(other)],
        "sides_of": lambda: of_a_join("right") and of_a_join("full") and not of_a_join("left"),
        "alias_of": lambda: (
            compat.alias_of(of(df.alias("a"))) == "a" and compat.alias_of(plan) is None
        ),
        "assigned": lambda: (
            compat.assigned(of(df.withColumn("n", df.id))) == ["n"]
            and compat.assigned(of(other)) == ["k"]
        ),
        "selected": lambda: [kind for kind, _ in compat.selected(of(computed))] == kinds,
        "column_of": lambda: df.select(compat.column_of(df, "id")).count() == 3,
        "serialized": lambda: compat.serialized(df).WhichOneof("rel_type") == "range",
        "explained": lambda: "Analyzed Logical Plan" in compat.explained(df),
    }


def check(spark: SparkSession) -> None:
    """Run every entry for a session of this kind."""
    side, checks = "classic", classic
    if is_connect(spark):
        side, checks = "connect", connect
    found = checks(spark)
    entries = {name for name, entry in compat.ENTRIES.items() if entry.side in (side, "both")}
    assert found.keys() == entries, found.keys() ^ entries
    for name, works in found.items():
        assert works(), f"{name}: {compat.ENTRIES[name].touches}"
