"""Run two streams while everything fails: ``python -m tests.chaos --minutes 60``.

SIGINT ends the faults early: what the streams have written is verified.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys

from tests.chaos.run import Run, impossible_here
from tests.chaos.schedule import schedule


def main() -> int:
    """Run, and print the schedule and what came of it; 1 if a row is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1, help="how long; default 1")
    parser.add_argument("--least", type=int, default=40, help="micro-batches at least")
    parser.add_argument("--seed", type=int, help="draws the faults; default: a random one")
    parser.add_argument("--runtime", choices=("jvm", "python"), help="default: by the seed")
    parser.add_argument("--without", nargs="*", default=[], help="faults to leave out")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if arguments.seed is None else arguments.seed
    runtime = arguments.runtime or ("jvm", "python")[seed % 2]
    without = impossible_here()
    if without:
        print(f"not possible here, for mounting is not allowed: {', '.join(without)}")
    events = schedule(seed, 60 * arguments.minutes, [*without, *arguments.without])
    print(f"seed {seed}, runtime {runtime}, {len(events)} faults:")
    for event in events:
        print(
            f"  {event.at_s:7.1f} s  {event.what}"
            + (f", {event.lasts_s} s" if event.lasts_s else "")
        )
    seconds = 60 * arguments.minutes

    def tell(text: str) -> None:
        print(text, flush=True)

    run = Run(seconds, events, tell, runtime, arguments.least)

    def interrupt(*_: object) -> None:
        run.interrupted = True

    signal.signal(signal.SIGINT, interrupt)
    wrong = run.run()
    made = sum(run.counts[what] for what in {event.what for event in events})
    print(f"{run.files} micro-batches, {len(run.stream)} rows, {made} faults; " + ", ".join(
        f"{what}: {count}" for what, count in sorted(run.counts.items())
    ))  # fmt: skip
    for text in wrong:
        print(f"WRONG: {text}")
    print("wrong" if wrong else "not a row is lost or doubled; every row is of one valid version")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
