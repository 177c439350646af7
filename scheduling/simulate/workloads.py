"""The jobs that the comparisons run: HiBench's Wordcount and Fixwindow, and a join.

What a record takes is chosen: the papers give no such figure. 20 tasks, four a node, shall keep up
with about 48,000 records/s on the five cheapest nodes of Table 4, and with more than 60,000 where
they have room, as Table 5 has it for CETSA and for round robin. How many of the 20 tasks each
operator has is chosen, too.
"""

from __future__ import annotations

from scheduling.simulate.jobs import Job, Operator

__all__ = ["fixwindow", "join_job", "wordcount"]


def wordcount(*, exponent: float = 0.4, seed: int = 3) -> Job:
    """HiBench's Wordcount with 20 tasks: read 4, split 6, count 8 (keyed by word), write 2.

    Args:
        exponent: how skewed the words are, over 10,000 of them.
        seed: of the words' hash.
    """
    return Job(
        "Wordcount",
        (
            Operator(
                name="read",
                parallelism=4,
                cpu_s=36e-6,
                remote_cpu_s=18e-6,
                out_bytes=200,
                max_cores=2,
                memory_mb=700,
            ),
            Operator(
                name="split",
                inputs=("read",),
                parallelism=6,
                cpu_s=56e-6,
                remote_cpu_s=18e-6,
                out=1.0,
                out_bytes=120,
                max_cores=2,
                memory_mb=700,
            ),
            Operator(
                name="count",
                inputs=("split",),
                parallelism=8,
                cpu_s=75e-6,
                remote_cpu_s=18e-6,
                out=0.3,
                out_bytes=60,
                max_cores=2,
                memory_mb=800,
                memory_mb_s=0.02,
                keys=10_000,
                exponent=exponent,
                state_bytes=400e6,
            ),
            Operator(
                name="write",
                inputs=("count",),
                parallelism=2,
                cpu_s=50e-6,
                remote_cpu_s=18e-6,
                max_cores=2,
                memory_mb=600,
            ),
        ),
        seed,
    )


def fixwindow(*, exponent: float = 0.3, seed: int = 5) -> Job:
    """HiBench's Fixwindow with 20 tasks: read 6, window 12 (keyed), write 2; windows hold state.

    Args:
        exponent: how skewed the windows' keys are, over 1,000 of them.
        seed: of the keys' hash.
    """
    return Job(
        "Fixwindow",
        (
            Operator(
                name="read",
                parallelism=6,
                cpu_s=47e-6,
                remote_cpu_s=16e-6,
                out_bytes=200,
                max_cores=2,
                memory_mb=700,
            ),
            Operator(
                name="window",
                inputs=("read",),
                parallelism=12,
                cpu_s=170e-6,
                remote_cpu_s=16e-6,
                out=0.1,
                out_bytes=80,
                max_cores=2,
                memory_mb=900,
                memory_mb_s=0.05,
                keys=1_000,
                exponent=exponent,
                state_bytes=1.2e9,
            ),
            Operator(
                name="write",
                inputs=("window",),
                parallelism=2,
                cpu_s=62e-6,
                remote_cpu_s=16e-6,
                max_cores=2,
                memory_mb=600,
            ),
        ),
        seed,
    )


def join_job(*, exponent: float = 0.8, seed: int = 7, parallelism: int = 12) -> Job:
    """A stream joined with a table's changes: orders 4, changes 2, join (keyed by row), write 2.

    Args:
        exponent: how skewed the keys are, over 100,000 of them.
        seed: of the keys' hash.
        parallelism: of the join.
    """
    return Job(
        "Join",
        (
            Operator(
                name="orders", parallelism=4, cpu_s=40e-6, out_bytes=150, share=0.9, max_cores=2
            ),
            Operator(
                name="changes", parallelism=2, cpu_s=40e-6, out_bytes=300, share=0.1, max_cores=2
            ),
            Operator(
                name="join",
                inputs=("orders", "changes"),
                parallelism=parallelism,
                cpu_s=150e-6,
                remote_cpu_s=4e-6,
                out=0.9,
                out_bytes=300,
                max_cores=2,
                memory_mb=900,
                keys=100_000,
                exponent=exponent,
                state_bytes=4e9,
            ),
            Operator(name="write", inputs=("join",), parallelism=2, cpu_s=40e-6, max_cores=2),
        ),
        seed,
    )
