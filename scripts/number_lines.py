"""The range conditions as number lines, each a function that draws on a canvas."""

from __future__ import annotations

from collections.abc import Sequence

from svg import Canvas

__all__ = ["as_of", "band", "overlaps", "relations", "several", "take", "where", "within"]

_LEFT, _RIGHT = 130, 500
_POINT = 318
"""Where the stream's value is."""


def _panel(colors: dict[str, str], high: int, name: str, told: str, description: str) -> Canvas:
    """A frame with the name of a condition and what it means."""
    c = Canvas(high + 16, colors, f"{name}: {told}", description)
    c.box(4, 8, 512, high)
    c.text(16, 32, name, bold=True, color="ours", anchor="start")
    c.text(506, 32, told, size=13, color="soft", anchor="end")
    return c


def _name(c: Canvas, y: float, name: str, *, code: bool = False) -> None:
    """What is on a line."""
    c.text(16, y + 5, name, size=13 if code else 14, anchor="start", code=code)


def _line(c: Canvas, y: float, name: str, *, code: bool = False) -> None:
    _name(c, y, name, code=code)
    c.path(f"M{_LEFT} {y}H{_RIGHT}")


def _dots(c: Canvas, y: float, places: Sequence[int], matches: Sequence[int]) -> None:
    """Rows of the table: those that match are full."""
    for at in places:
        c.dot(at, y, color="ours" if at in matches else "line", full=at in matches)


def _interval(c: Canvas, x: float, end: float, y: float, color: str, *, closed: bool) -> None:
    """A bar from a start, which belongs to it, to an end."""
    c.path(f"M{x} {y}H{end}", color=color, width=3)
    c.dot(x, y, color=color, radius=5)
    c.dot(end, y, color=color, full=closed, radius=5)


def _point(c: Canvas, y: float, bottom: float) -> None:
    """The stream's point, and a line down to the rows of the table."""
    c.path(f"M{_POINT} {y}V{bottom}", color="other", dashed=True)
    c.dot(_POINT, y, color="other")


def band(colors: dict[str, str]) -> Canvas:
    """All rows within a distance, and what the signs of these pictures mean."""
    c = _panel(
        colors, 156, "Band", "all rows within a distance",
        "The stream's value on a number line, with a band from before to after around it. The "
        "table's rows in the band match, an end included; those outside do not.",
    )  # fmt: skip
    c.bar(238, 46, 150, 78, fill="ours-fill")
    _line(c, 66, "stream")
    _line(c, 106, "table")
    c.dot(_POINT, 66, color="other")
    c.path("M308 66H240", color="ours", arrow=True)
    c.path("M328 66H386", color="ours", arrow=True)
    c.text(272, 58, "before", size=13, color="ours")
    c.text(358, 58, "after", size=13, color="ours")
    _dots(c, 106, (150, 200, 258, 306, 388, 450), (258, 306, 388))
    c.dot(24, 146, color="ours")
    c.text(36, 151, "matches", size=13, anchor="start")
    c.dot(116, 146, full=False)
    c.text(128, 151, "does not", size=13, anchor="start")
    c.dot(218, 146, color="other")
    c.text(230, 151, "the stream's value", size=13, anchor="start")
    c.text(506, 151, "→ greater", size=13, anchor="end", color="soft")
    return c


def where(colors: dict[str, str]) -> Canvas:
    """A further condition on the rows that are found."""
    c = _panel(
        colors, 122, "where", "of the rows that are found those that pass",
        "Five rows of the table with their speeds. Three are within the band around the stream's "
        "value: 88, 40 and 35. With the further condition speed < 50 only 40 and 35 match.",
    )  # fmt: skip
    c.bar(238, 46, 160, 78, fill="ours-fill")
    _line(c, 62, "stream")
    c.dot(_POINT, 62, color="other")
    _line(c, 112, "speed < 50", code=True)
    speeds = {190: 20, 262: 88, 340: 40, 384: 35, 450: 90}
    _dots(c, 112, [*speeds], (340, 384))
    for at, speed in speeds.items():
        c.text(at, 98, str(speed), size=13, color="ours" if at in (340, 384) else "soft")
    return c


def several(colors: dict[str, str]) -> Canvas:
    """Two ranges, which form a box."""
    c = _panel(
        colors, 190, "A list", "all of its conditions hold: here a box",
        "Two number lines at a right angle, longitude and latitude. The stream's point is within "
        "one rectangle of the table, which matches. Another rectangle contains its longitude and "
        "not its latitude, a third its latitude and not its longitude: both do not match.",
    )  # fmt: skip
    c.path(f"M{_LEFT} 172H{_RIGHT}", arrow=True)
    c.path(f"M{_LEFT} 172V50", arrow=True)
    c.text(_RIGHT, 190, "lon", size=13, color="soft", anchor="end", code=True)
    c.text(_LEFT - 8, 62, "lat", size=13, color="soft", anchor="end", code=True)
    c.box(230, 58, 150, 68, color="ours", fill="ours-fill")
    c.box(270, 136, 170, 26)
    c.box(400, 66, 84, 56)
    c.path("M300 92V172", color="other", dashed=True)
    c.path(f"M300 92H{_LEFT}", color="other", dashed=True)
    c.dot(300, 92, color="other")
    c.text(448, 154, "lon only", size=13, color="soft", anchor="start")
    c.text(442, 99, "lat only", size=13, color="soft")
    return c


def within(colors: dict[str, str]) -> Canvas:
    """Intervals that contain a point."""
    c = _panel(
        colors, 142, "Within", "all intervals that contain a point",
        "The stream's point and four intervals of the table. One around the point and one that "
        "begins before it and has no end match. One that ends before the point, and one that ends "
        "at it, do not: the end does not belong to the interval.",
    )  # fmt: skip
    _line(c, 60, "stream")
    _point(c, 60, 142)
    _name(c, 100, "table")
    _interval(c, 140, 240, 86, "line", closed=False)
    _interval(c, 270, 400, 86, "ours", closed=False)
    _interval(c, 200, 313, 110, "line", closed=False)
    c.text(326, 115, "its end is not in it", size=13, color="soft", anchor="start")
    c.path("M230 134H498", color="ours", width=3, arrow=True)
    c.dot(230, 134, color="ours", radius=5)
    c.text(246, 127, "no end", size=13, color="soft", anchor="start")
    return c


def take(colors: dict[str, str]) -> Canvas:
    """One of the intervals that contain a point."""
    c = _panel(
        colors, 156, "Within, take=", "one of those that contain the point",
        "Four intervals of the table contain the stream's point. The one that starts last is "
        "latest_start, the one that ends first is earliest_end, the one with the least length is "
        "shortest, and the one that comes first in order_by is first.",
    )  # fmt: skip
    _line(c, 58, "stream")
    _point(c, 58, 156)
    rows = {
        "latest_start": (300, 480), "earliest_end": (150, 340), "shortest": (270, 370),
    }  # fmt: skip
    for y, (name, ends) in zip((82, 104, 126), rows.items(), strict=True):
        _name(c, y, name, code=True)
        _interval(c, *ends, y, "ours", closed=False)
    _name(c, 148, "first", code=True)
    c.path("M190 148H498", color="ours", width=3, arrow=True)
    c.dot(190, 148, color="ours", radius=5)
    c.text(206, 142, "priority 1", size=13, color="soft", anchor="start")
    return c


def overlaps(colors: dict[str, str]) -> Canvas:
    """Intervals that share a point."""
    c = _panel(
        colors, 124, "Overlaps", "all intervals that share a point",
        "The stream's interval and five of the table. Three have a part in common with it, at its "
        "start, in its middle and at its end, and match; one before it and one behind it do not.",
    )  # fmt: skip
    c.bar(250, 50, 140, 72, fill="other-fill")
    _name(c, 60, "stream")
    _interval(c, 250, 390, 60, "other", closed=True)
    _name(c, 100, "table")
    _interval(c, 140, 210, 88, "line", closed=True)
    _interval(c, 290, 350, 88, "ours", closed=True)
    _interval(c, 420, 490, 88, "line", closed=True)
    _interval(c, 170, 266, 112, "ours", closed=True)
    _interval(c, 374, 470, 112, "ours", closed=True)
    return c


def relations(colors: dict[str, str]) -> Canvas:
    """What else two intervals can have to do with each other."""
    c = _panel(
        colors, 190, "Overlaps, relation=", "which of the table's intervals match",
        "Below the stream's interval one of the table for each relation. contains: it lies inside "
        "the stream's. within: the stream's lies inside it. equals: both ends are the same. meets: "
        "it begins where the stream's ends, or ends where that begins. at_least: the common part "
        "is long enough.",
    )  # fmt: skip
    c.bar(240, 48, 130, 142, fill="other-fill")
    _name(c, 60, "stream")
    _interval(c, 240, 370, 60, "other", closed=True)
    rows = {
        "contains": [(265, 340)], "within": [(190, 420)], "equals": [(240, 370)],
        "meets": [(150, 240), (370, 460)], "at_least": [(300, 470)],
    }  # fmt: skip
    for y, (name, intervals) in zip((86, 110, 134, 158, 182), rows.items(), strict=True):
        _name(c, y, name, code=True)
        for ends in intervals:
            _interval(c, *ends, y, "ours", closed=True)
    c.path("M306 174H366", color="other", arrow=True)
    return c


def as_of(colors: dict[str, str]) -> Canvas:
    """The nearest rows."""
    c = _panel(
        colors, 190, "AsOf", "the nearest row, or n rows",
        "The same five rows of the table around the stream's point, once for each direction. "
        "backward: the last one before the point matches. forward: the first one behind it. "
        "nearest: the one with the least distance. n=2: the last two before it. tolerance: the "
        "last one before it, unless it is further away than that.",
    )  # fmt: skip
    _line(c, 60, "stream")
    c.bar(262, 170, _POINT - 262, 24, fill="ours-fill")
    _point(c, 60, 190)
    rows = {
        "backward": (274,), "forward": (348,), "nearest": (348,), "n=2": (226, 274),
        "tolerance": (274,),
    }  # fmt: skip
    for y, (name, matches) in zip((86, 110, 134, 158, 182), rows.items(), strict=True):
        _line(c, y, name, code=True)
        _dots(c, y, (160, 226, 274, 348, 440), matches)
    return c
