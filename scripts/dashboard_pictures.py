"""Take the pictures of the page in the documentation, in a real browser, of made figures.

    python scripts/dashboard_pictures.py

Needs chromium. It writes ``docs/images/dashboard-light.png`` and ``dashboard-dark.png``.
"""

import math
import random
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bsjoin import CycleProgress, PartitionProgress, PlacementProgress, RefreshProgress  # noqa: E402
from bsjoin.monitoring.dashboard import Dashboard  # noqa: E402
from bsjoin.monitoring.totals import MicroBatch, QueryTotals  # noqa: E402
from bsjoin.monitoring.watching import Watched  # noqa: E402
from bsjoin.storage.source_version import SourceVersion  # noqa: E402
from tests.browser import Browser, program  # noqa: E402

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BATCHES, PARTITIONS = 80, 16


class Query:
    """A query that does nothing more."""

    name = id = "orders"
    isActive = True  # noqa: N815
    lastProgress = None  # noqa: N815
    recentProgress = ()  # noqa: N815


def source(commit: int) -> SourceVersion:
    """What the table follows, a commit each minute."""
    at = NOON + timedelta(seconds=60 * commit)
    name = "the Delta table s3a://shop/customers"
    return SourceVersion(name, str(17 + commit), int(at.timestamp() * 1e6))


def batch(number: int, draw: random.Random) -> MicroBatch:
    """A micro-batch of two seconds, in a day's wave."""
    rows = int(20000 + 6000 * math.sin(number / 9) + 2000 * draw.random())
    hits = int(rows * (0.92 if 40 < number < 50 else 0.97))
    began = NOON + timedelta(seconds=2 * number)
    even = rows / PARTITIONS
    partition = PartitionProgress(
        kind="hotspot",
        reason="",
        rows=tuple(int(even * (0.9 + 0.2 * draw.random())) for _ in range(PARTITIONS)),
        skew=0.08 + 0.05 * draw.random(),
        skew_by_hash=1.3 + 0.3 * draw.random(),
        hottest=(("7", 0.21), ("19", 0.04)),
    )
    placement = PlacementProgress(
        action="none",
        reason="kept: another placement would cost more",
        partitions=PARTITIONS,
        requested=PARTITIONS,
        landed=PARTITIONS,
        workers=(("host-a/1", 8), ("host-b/2", 8)),
        rent=0.0123,
    )
    join = CycleProgress(
        join=1,
        on=("customer_id",),
        batch_id=number,
        timestamp=began.isoformat(),
        rows_in=rows,
        rows_out=hits,
        hits=hits,
        misses=rows - hits,
        matches=hits,
        lookup_ms=None,
        mode="full",
        table_version=1 + number // 30,
        cache=None,
        partition=partition,
        runtime="jvm",
        runtime_reason="",
        placement=placement,
        refresh=RefreshProgress(
            last_success=NOON + timedelta(seconds=121),
            source=source(2),
            newest=source(2),
            last_look=NOON + timedelta(seconds=158),
            lag_s=1.2,
            applied=2,
        ),
        source=source(number // 30),
    )
    took = 0.3 + 0.1 * math.sin(number / 5) + 0.15 * draw.random()
    return MicroBatch(number, began.timestamp(), took, rows, [join], [])


def main() -> None:
    """Take both pictures."""
    chromium = program()
    if chromium is None:
        sys.exit("dashboard_pictures: install chromium")
    draw, totals = random.Random(3), QueryTotals("orders")
    for number in range(BATCHES):
        totals.add(batch(number, draw))
    watched = Watched([Query()])
    watched.totals._queries["orders"] = totals
    watched._ids[0] = "orders"
    browser = Browser(chromium)
    try:
        with Dashboard(watched, 0, frozenset()) as page:
            for scheme in ("light", "dark"):
                file = ROOT / "docs" / "images" / f"dashboard-{scheme}.png"
                browser.look(1040, scheme)
                browser.open(page.url, "document.querySelectorAll('figure').length > 2")
                browser.run("document.querySelector('footer').remove()")
                browser.run("document.documentElement.style.overflow = 'hidden'")
                time.sleep(0.5)  # until it is drawn anew
                browser.picture(file)
                few = Image.open(file).convert("RGB").quantize(192, Image.Quantize.MAXCOVERAGE)
                few.save(file, optimize=True)
    finally:
        browser.close()


if __name__ == "__main__":
    main()
