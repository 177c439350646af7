"""Run random joins: ``python -m tests.fuzz --minutes 10``, or one of them with ``--seed``."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import sessions
from tests.fuzz.case import Case
from tests.fuzz.draw import SEEDS_A_ROUND, case_of, draw_round
from tests.fuzz.engine import Engine
from tests.fuzz.shrink import as_test, shrunk
from tests.fuzz.spark_join import disagreement
from tests.fuzz.summary import Summary

_ROOT = Path(__file__).parent.parent.parent
_LONG_MINUTES = 5
_LONGEST_ROUND_S = 600
"""A round takes some ten seconds; one whose thread in the JVM has failed never ends."""


def main() -> int:
    """Run cases; 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long; default 10")
    parser.add_argument("--seed", type=int, help="run this case alone")
    parser.add_argument("--round", type=int, help="the first round; default: a random one")
    parser.add_argument("--step", type=int, default=1, help="from a round to the next; default 1")
    parser.add_argument("--processes", type=int, default=1, help="that share rounds; default 1")
    parser.add_argument("--summary", type=Path, help="a file that counts what is run; its next")
    parser.add_argument("--first", action="store_true", help="stop at the first failure")
    parser.add_argument("--as-is", action="store_true", help="do not make failing cases smaller")
    arguments = parser.parse_args()
    if arguments.processes > 1 and arguments.seed is None:
        return _processes(arguments)

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = str(_ROOT)  # what the workers import
    long = arguments.seed is None and arguments.minutes >= _LONG_MINUTES
    spark = sessions.session("local[2]", sessions.LONG if long else sessions.SETTINGS)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="bsjoin-fuzz-") as folder:
        engine = Engine(spark, Path(folder), arguments.first)
        begun = time.monotonic()
        if arguments.seed is not None:
            rounds = [(0, {arguments.seed: case_of(arguments.seed)})]
            failed = _run(engine, rounds[0][1], arguments)[0]
            print(f"seed {arguments.seed}: {'fails' if failed else 'holds'}")
        else:
            summary = Summary(arguments.summary)
            number = _first_round(arguments, summary)
            done, spent = 0, 0.0
            while (spent := time.monotonic() - begun) < 60 * arguments.minutes:
                with _ending(number):
                    drawn = draw_round(number).cases
                    many, seeds, checked = _run(engine, drawn, arguments)
                done, failed = done + len(drawn), failed + many
                took = time.monotonic() - begun - spent
                summary.add(number, drawn, seeds, took, checked)
                number += arguments.step
                if failed and arguments.first:
                    break
            spent = time.monotonic() - begun
            print(
                f"{done} cases in {spent:.0f} s, {60 * done / max(spent, 1):.0f} a minute; the "
                f"last seed is below {number * SEEDS_A_ROUND}; {failed} failed",
                flush=True,
            )
    spark.stop()
    return 1 if failed else 0


def _first_round(arguments: argparse.Namespace, summary: Summary) -> int:
    if arguments.round is not None:
        return int(arguments.round)
    if arguments.summary is not None:
        return summary.next_round()
    return random.SystemRandom().randrange(1 << 40)


def _processes(arguments: argparse.Namespace) -> int:
    """Several processes, each with every so many-th round; 1 if a case of one of them failed."""
    many, summary = arguments.processes, Summary(arguments.summary)
    first = _first_round(arguments, summary)
    flags = [f"--{name.replace('_', '-')}" for name in ("first", "as_is") if vars(arguments)[name]]
    with tempfile.TemporaryDirectory(prefix="bsjoin-fuzz-") as folder:
        counts = [Path(folder, f"{i}.json") for i in range(many)]
        command = [sys.executable, "-m", "tests.fuzz", *flags]
        command += ["--minutes", str(arguments.minutes), "--step", str(many)]
        running = [
            subprocess.Popen(
                [*command, "--round", str(first + i), "--summary", str(path)],
                cwd=_ROOT,
            )
            for i, path in enumerate(counts)
        ]
        try:
            codes = [process.wait() for process in running]
        finally:
            for process in running:
                process.terminate()
            summary.merge([Summary(path) for path in counts])
    return 1 if any(codes) else 0


@contextmanager
def _ending(number: int) -> Iterator[None]:
    """End this process, and say so, if a round does not end."""

    def give_up() -> None:
        print(
            f"\nround {number} does not end: its first seed is {number * SEEDS_A_ROUND}", flush=True
        )
        os._exit(2)

    timer = threading.Timer(_LONGEST_ROUND_S, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _run(
    engine: Engine, cases: dict[int, Case], arguments: argparse.Namespace
) -> tuple[int, list[int], int]:
    """Run the cases of a round: how many failed, which, and how many Spark has checked."""
    if not cases:
        return 0, [], 0
    found = engine.failures(cases)
    for seed, wrong in list(found.items())[: 1 if arguments.first else 3]:
        print(f"\nseed {seed} fails: {wrong}", flush=True)
        if arguments.as_is:
            continue
        kind = wrong.split(":")[0]

        def fails(case: Case, kind: str = kind) -> bool:
            again = engine.failures({0: case})
            return any(text.split(":")[0] == kind for text in again.values())

        small = shrunk(cases[seed], fails) if fails(cases[seed]) else cases[seed]
        print(as_test(seed, small, "; ".join(engine.failures({0: small}).values()) or wrong))
    for seed in list(found)[1 if arguments.first else 3 :]:
        print(f"seed {seed} fails: {found[seed].splitlines()[0]}", flush=True)
    sample = next(iter(cases))
    wrong_oracle = disagreement(engine.spark, cases[sample])
    if wrong_oracle:
        print(f"\nseed {sample}: the oracle differs from Spark: {wrong_oracle}", flush=True)
        found[sample] = "the oracle"
    return len(found), sorted(found), 1 if wrong_oracle is None else 0


if __name__ == "__main__":
    sys.exit(main())
