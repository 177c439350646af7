"""All benchmarks, in the order in which ``all`` runs them and the report shows them."""

from __future__ import annotations

from benchmarks.harness.outcome import Benchmark

__all__ = ["CATALOGUE"]

CATALOGUE: tuple[Benchmark, ...] = (
    Benchmark(
        "full-latency",
        "engine",
        "What a micro-batch costs, against the size of the table",
        "benchmarks.full.latency",
        55,
        "A stream of 10,000 rows a micro-batch meets a full cache. Beside bsjoin run the same "
        "pipeline without a join, with an identity arrow_udf in its place, and Spark's own join "
        "with AQE on, with AQE off, and as a broadcast of a persisted table. The paper's Fig. 9(b) "
        "shows times per 10,000 rows that do not grow with the table; the table's size must not "
        "show here either.",
    ),
    Benchmark(
        "full-throughput",
        "engine",
        "Millions of stream rows joined in one go",
        "benchmarks.full.throughput",
        25,
        "Rows per second of a full cache with all rows in one go, over an identity arrow_udf that "
        "returns the same types, which is the floor of any join in Python, and over Spark's join.",
    ),
    Benchmark(
        "full-memory",
        "engine",
        "What one more worker process costs in memory",
        "benchmarks.full.memory",
        15,
        "Workers of a host map the same files. Private memory of a process that has looked up "
        "every key, less that of one that has looked up none, over the table's bytes.",
    ),
    Benchmark(
        "full-building",
        "engine",
        "Building a table, against sorting and writing it",
        "benchmarks.full.building",
        15,
        "Seconds to build a BatchTable over those that Spark needs to sort the same rows and "
        "write them as Parquet.",
    ),
    Benchmark(
        "incremental",
        "engine",
        "The incremental cache over PostgreSQL, for Zipf streams",
        "benchmarks.incremental.report",
        60,
        "Zipf and uniform streams over a table in PostgreSQL on the same machine, every run from "
        "an empty cache: everything fits, a tenth fits, one query per record over a kept "
        "connection (what the papers' flat map does), one query per micro-batch with nothing "
        "kept, and Spark's JDBC source. Keys asked by all workers together are held against the "
        "distinct keys. Flink's look-up join was measured once on a machine like that of the "
        "design; its figures are noted in the benchmark and shown with full sizes only.",
    ),
    Benchmark(
        "hotspot",
        "engine",
        "Skewed streams: hash, the paper's rule, hot keys spread",
        "benchmarks.hotspot.report",
        40,
        "The skew measure DS of Formulas 1 to 3 in the first cycle after a new rule, by Zipf "
        "exponent and partitions; cycles until it is even after other keys became hot; the cost "
        "of detection; six hosts with a cache each (simulated, Fig. 11); and routing live in a "
        "Spark stream (Fig. 12).",
    ),
    Benchmark(
        "range-joins",
        "engine",
        "Range joins in Spark: a ready table against Spark's own ways",
        "benchmarks.ranges.joins",
        45,
        "Bands, points in intervals, overlapping intervals and as-of, with and without an "
        "equality key, on rows in memory: bsjoin with a ready table against Spark's join as one "
        "writes it, with the band computed before, in bins, by window, and its as-of join. Cases "
        "in which nearly all pairs match, the worst for an index, are among them.",
    ),
    Benchmark(
        "range-streams",
        "engine",
        "Twenty micro-batches joined by a band, the build counted",
        "benchmarks.ranges.streams",
        30,
        "What a short stream costs when nothing is ready: building the index, or the bins, and "
        "20 micro-batches, against Spark's stream-static join.",
    ),
    Benchmark(
        "range-tables",
        "engine",
        "Ways to search, by workers and size: Tables 6 to 8",
        "benchmarks.ranges.tables",
        30,
        "Throughput and latency of one range query per record (the paper's flat map), a random "
        "skip list, a sorted skip list, a loop over the key's rows, the directory that bsjoin "
        "searches, and bsjoin's join as a whole, as the paper's Tables 6 to 8 have them. Its "
        "workers were 8 to 128, ours are 1 and 2.",
    ),
    Benchmark(
        "planning",
        "scheduling",
        "How long a plan takes, and how far from the optimum it is",
        "benchmarks.placement.planning",
        10,
        "Milliseconds of every placement policy by tasks and workers, and the rent of its plans "
        "over that of the exact optimum on small clusters.",
    ),
    Benchmark(
        "range-index",
        "kernels",
        "The range index alone, against DuckDB and Polars",
        "benchmarks.ranges.kernels",
        15,
        "The index on one core without Spark, against DuckDB and Polars with one thread and two, "
        "on the same rows in memory; the same pairs as Arrow come out of each.",
    ),
    Benchmark(
        "skip-lists",
        "kernels",
        "Reads of a search: fixed against random levels, Fig. 13",
        "benchmarks.ranges.skiplists",
        10,
        "How many stored values a search reads in a skip list whose levels come from positions "
        "(Formula 4) and in one whose levels are thrown, and the variance over ten builds. The "
        "paper: about 25 % fewer, variance 0.",
    ),
)
