"""A job carried out every way: what it found, as figures, tables and a picture."""

from __future__ import annotations

from benchmarks.harness.outcome import Context, Outcome
from benchmarks.rivals.compare import Plan, compare
from benchmarks.rivals.job import Job
from benchmarks.rivals.picture import draw_ways
from benchmarks.rivals.report import figures, tables

__all__ = ["every_way"]


def every_way(
    context: Context, job: Job, plan: Plan, *, name: str, title: str, paper: str
) -> Outcome:
    """Run a job every way: checked first, then in turns.

    Args:
        context: of the benchmark.
        job: what is to be done.
        plan: how much of it.
        name: of the picture's file.
        title: of the picture and the tables.
        paper: what the paper says of its cache against queries per record.
    """
    measured = compare(context, job, plan)
    picture = context.out / f"{name}.png"
    draw_ways(measured, title, picture)
    return Outcome(
        figures=figures(measured, paper),
        tables=tables(measured, f"{title}: every way", job.size[:1].upper() + job.size[1:]),
        pictures=[picture],
        measured=measured,
    )
