"""The diagrams of the documentation, each a function that draws on a canvas."""

from __future__ import annotations

from svg import WIDTH, Canvas

_MIDDLE = WIDTH / 2


def build(colors: dict[str, str]) -> Canvas:
    """From a table to files that every process of a machine maps."""
    c = Canvas(
        590,
        colors,
        "From a table to the executors",
        "One Spark job without a shuffle sorts the table and writes files: an index, a file for "
        "each column, and a manifest for the version. On each machine the files are mapped into "
        "memory once, for the executor's JVM and for all Python workers. Each row of a micro-batch "
        "is looked up there.",
    )
    c.box(110, 8, 300, 52, ["a DataFrame, or a source read whole"], head="Your table")
    c.path(f"M{_MIDDLE} 60V92", arrow=True)
    c.box(
        60,
        94,
        400,
        72,
        ["each task sorts its rows by the hash of their key,", "then the sorted files are merged"],
        head="Build: one Spark job, no shuffle",
        color="ours",
        fill="ours-fill",
    )
    c.path(f"M{_MIDDLE} 166V200", color="ours", arrow=True)
    c.text(_MIDDLE + 12, 187, "publishes a version", size=14, color="soft", anchor="start")
    c.box(20, 202, 480, 120, head="Files, in a folder or behind a URL", top=True)
    c.box(34, 238, 140, 70, ["finds the rows", "of a key"], head="Index", color="third",
          fill="third-fill")  # fmt: skip
    c.box(190, 238, 140, 70, ["a file of Arrow", "for each"], head="Columns", color="third",
          fill="third-fill")  # fmt: skip
    c.box(346, 238, 140, 70, ["what belongs", "to a version"], head="Manifest", color="third",
          fill="third-fill")  # fmt: skip
    for left in (20, 270):
        middle = left + 115
        c.path(f"M{middle} 322V362", color="third", arrow=True)
        c.box(left, 364, 230, 138, dashed=True)
        c.text(middle, 387, "Machine 1" if left == 20 else "Machine 2", bold=True)
        c.box(left + 12, 398, 206, 32, ["pages in memory, once"], color="third", fill="third-fill")
        c.box(left + 12, 444, 97, 46, ["Executor's", "JVM"], color="ours", fill="ours-fill")
        c.box(left + 121, 444, 97, 46, ["Python", "workers"], color="ours", fill="ours-fill")
        c.path(f"M{left + 60} 444V432", color="ours", arrow=True)
        c.path(f"M{left + 170} 444V432", color="ours", arrow=True)
        c.path(f"M{middle} 546V504", arrow=True)
    c.text(147, 347, "mapped, not loaded", size=14, color="soft", anchor="start")
    c.box(20, 548, 480, 34, ["rows of a micro-batch: keys are looked up in their tasks"])
    return c


def versions(colors: dict[str, str]) -> Canvas:
    """Which version of the table a micro-batch uses, also when it runs again."""
    c = Canvas(
        366,
        colors,
        "Versions, micro-batches and replay",
        "A version becomes active a moment after it was published. A micro-batch uses the version "
        "that was active at its timestamp. One that runs again after a crash keeps its timestamp, "
        "and so its version, although a newer one is active by then.",
    )
    c.text(14, 26, "Which version is active", anchor="start", bold=True)
    for number, (left, right) in enumerate(((14, 196), (196, 372), (372, 506)), 1):
        color, fill = ("line", "plain") if number == 3 else ("ours", "ours-fill")
        c.box(left, 66, right - left - 4, 40, [f"version {number}"], color=color, fill=fill)
    for at in (168, 344):
        c.path(f"M{at} 58V112", color="third", dashed=True)
        c.text(at, 50, "published", size=13, color="third")
    c.text(40, 184, "Micro-batches", anchor="start", bold=True)
    for left, name in ((14, "0"), (172, "1"), (220, "2")):
        wide = 44 if name != "0" else 74
        c.box(left, 200, wide, 40, [name])
        c.path(f"M{left + 10} 200V108", color="ours", arrow=True)
    c.box(282, 200, 56, 40, ["3"], color="other", fill="other-fill")
    c.path("M292 200V108", color="ours", arrow=True)
    c.text(338, 258, "crash", size=13, color="other")
    c.path("M334 194L344 246M344 194L334 246", color="other", width=2.2)
    c.box(392, 200, 66, 40, ["3 again"], color="other", fill="other-fill")
    c.path("M402 200C396 150 330 170 318 110", color="ours", arrow=True, width=2.2)
    c.box(466, 200, 40, 40, ["4"])
    c.path("M476 200V108", color="ours", arrow=True)
    c.path("M14 276H504", arrow=True)
    c.text(504, 294, "time", size=13, color="soft", anchor="end")
    c.text(14, 306, "1 began when version 2 was published, but not active yet: version 1.",
           size=13, anchor="start", color="soft")  # fmt: skip
    c.text(14, 328, "3 runs again: its timestamp is in the checkpoint, so it uses version 2",
           size=13, anchor="start", color="soft")  # fmt: skip
    c.text(14, 348, "once more. 4 uses version 3.", size=13, anchor="start", color="soft")
    return c


_QUESTIONS = (
    (
        ("A join of two streams, or a", "full outer join?"),
        "Spark's own join",
        ("stream.join(other, …)",),
    ),
    (
        ("Too large to copy, or changed", "every second, in a database?"),
        "Queried by key, cached",
        ("join(stream, sources.sql(…),", "cache=Incremental(…))"),
    ),
    (
        ("Shared by queries, kept over", "restarts, or used in SQL?"),
        "A stored table",
        ("BatchTable.build(df, on=…,", "path=…).join(stream)"),
    ),
    (
        ("Does it change while the", "stream runs?"),
        "Followed, or on a timer",
        ("join(stream, df, on=…, cache=", 'Full(refresh="on_commit"))'),
    ),
)


def which_call(colors: dict[str, str]) -> Canvas:
    """A decision tree: which call for which table."""
    c = Canvas(
        560,
        colors,
        "Which call for my table",
        "Two streams or a full outer join: Spark's own join. Too large to copy or changed every "
        "second: join with a source and an incremental cache. Shared, kept over restarts or used "
        "in SQL: a BatchTable. Changed while the stream runs: a full cache with a refresh. Any "
        "other: join with the DataFrame.",
    )
    y = 8
    for lines, head, code in _QUESTIONS:
        c.box(8, y, 226, 58, lines)
        c.path(f"M234 {y + 29}H264", color="ours", arrow=True)
        c.text(249, y + 22, "yes", size=13, color="ours")
        color = "other" if head.startswith("Spark") else "ours"
        high = 24 + 19 * len(code) + 12
        top = y + 29 - high / 2
        c.box(266, top, 246, high, code, head=head, code=True, color=color, fill=f"{color}-fill")
        c.path(f"M120 {y + 58}V{y + 96}", arrow=True)
        c.text(130, y + 82, "no", size=13, color="soft", anchor="start")
        y += 98
    c.box(8, y, 226, 58, ["join(stream, df, on=…)"], head="Read and indexed once", code=True,
          color="ours", fill="ours-fill")  # fmt: skip
    c.box(8, y + 82, 504, 72, [
        "Within five minutes, in an interval, overlapping, the nearest row:",
        "add when=Band(…), Within(…), Overlaps(…) or AsOf(…)",
    ], head="Ranges: to each of these", color="third", fill="third-fill")  # fmt: skip
    return c


def shared_cache(colors: dict[str, str]) -> Canvas:
    """The incremental cache of a host, and how a batch of keys passes it."""
    c = Canvas(
        560,
        colors,
        "The incremental cache on a host",
        "All Python workers of a host share one cache in shared memory: a hash table, entries and "
        "rows. A worker finds the keys of a batch there; one worker claims each key that is "
        "missing and asks the database once for all that it has claimed; the others wait for it. "
        "Rows and absent keys stay in the cache, and the least recently used key goes first.",
    )
    c.box(8, 8, 504, 408, dashed=True)
    c.text(22, 32, "One host", anchor="start", bold=True)
    for number in range(3):
        left = 22 + 162 * number
        c.box(left, 46, 152, 56, ["a batch of keys"], head=f"Python worker {number + 1}",
              color="ours", fill="ours-fill")  # fmt: skip
        c.path(f"M{left + 76} 102V164", color="ours", arrow=True)
    c.text(108, 128, "1  finds its keys;", size=13, color="soft", anchor="start")
    c.text(108, 146, "no lock to read", size=13, color="soft", anchor="start")
    c.text(270, 128, "2  claims those", size=13, color="soft", anchor="start")
    c.text(270, 146, "that are missing", size=13, color="soft", anchor="start")
    c.text(432, 128, "waits for", size=13, color="soft", anchor="start")
    c.text(432, 146, "a claim", size=13, color="soft", anchor="start")
    c.box(22, 166, 476, 236, head="Cache in shared memory (/dev/shm)", top=True, color="third",
          fill="third-fill")  # fmt: skip
    c.box(36, 204, 132, 74, ["from the hash", "to an entry"], head="Slots")
    c.box(190, 204, 140, 74, ["age, last use,", "first row, count"], head="Entries")
    c.box(352, 204, 132, 74, ["Arrow columns,", "appended only"], head="Rows")
    c.path("M168 241H188", arrow=True)
    c.path("M330 241H350", arrow=True)
    c.text(260, 308, "A key without rows has an entry, too.", size=14)
    c.text(260, 332, "When it is full, the least recently used key goes.", size=14)
    c.text(260, 356, "A worker that dies loses nothing; another takes over", size=14)
    c.text(260, 376, "its claims.", size=14)
    c.path("M150 402V480", color="other", arrow=True)
    c.text(164, 440, "3  one query for all", size=13, color="soft", anchor="start")
    c.text(164, 458, "keys claimed", size=13, color="soft", anchor="start")
    c.path("M340 480V404", color="other", arrow=True)
    c.text(354, 440, "4  their rows stay", size=13, color="soft", anchor="start")
    c.box(60, 482, 400, 56, ["each distinct key is asked for once per host"], head="Database",
          color="other", fill="other-fill")  # fmt: skip
    return c


_LEFT, _RIGHT = 128, 500
