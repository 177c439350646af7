"""The range conditions, and what is made of their rows, as number lines: functions that draw."""

from __future__ import annotations

from collections.abc import Sequence

from svg import Canvas

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


def _values(c: Canvas, y: float, values: dict[int, int], matches: Sequence[int]) -> None:
    """Rows of the table, each below its value in another column."""
    _dots(c, y, [*values], matches)
    for at, value in values.items():
        c.text(at, y - 14, str(value), size=13, color="ours" if at in matches else "soft")


def _result(c: Canvas, y: float, text: str) -> None:
    """The only row of the result, below the rows that it is made of."""
    c.path(f"M{_POINT} {y - 30}V{y - 15}", color="ours", arrow=True)
    _name(c, y, "result")
    c.box(_POINT - 150, y - 14, 300, 28, [text], color="ours", fill="ours-fill", code=True)


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
    _values(c, 112, {190: 20, 262: 88, 340: 40, 384: 35, 450: 90}, (340, 384))
    return c


def aggregates(colors: dict[str, str]) -> Canvas:
    """One row of aggregates instead of the rows in a band."""
    c = _panel(
        colors, 174, "Band, agg=", "aggregates in place of the rows",
        "Six rows of the table with their prices. The three in the band around the stream's value "
        "have the prices 4, 9 and 5. The result is one row: count 3, sum 18, max 9.",
    )  # fmt: skip
    c.bar(238, 46, 160, 82, fill="ours-fill")
    _line(c, 62, "stream")
    c.dot(_POINT, 62, color="other")
    _line(c, 112, "price", code=True)
    _values(c, 112, {160: 7, 210: 8, 258: 4, 306: 9, 374: 5, 450: 6}, (258, 306, 374))
    _result(c, 160, "count 3, sum 18, max 9")
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


def collect(colors: dict[str, str]) -> Canvas:
    """The nearest rows as one array."""
    c = _panel(
        colors, 174, "AsOf, n=2, collect=", "the rows in one array",
        "Five rows of the table with their readings around the stream's point. The two nearest are "
        "one behind it with the reading 6 and one before it with the reading 5. The result is one "
        "row with an array, the nearest first: 6, 5.",
    )  # fmt: skip
    _line(c, 62, "stream")
    _point(c, 62, 128)
    _line(c, 112, "reading", code=True)
    _values(c, 112, {160: 3, 226: 8, 274: 5, 348: 6, 440: 9}, (274, 348))
    _result(c, 160, "readings [6, 5]")
    return c


def networks(colors: dict[str, str]) -> Canvas:
    """Networks as intervals of addresses."""
    c = _panel(
        colors, 142, "Within, networks", "from the first address to the last",
        "Addresses on a number line. The request's address 10.1.7.9 lies in the network 10.0.0.0/8 "
        "and in 10.1.0.0/16, which is inside of that one: both match, first and last addresses "
        "included, and the inner one is the most specific. 10.2.0.0/16 lies behind the address and "
        "does not match.",
    )  # fmt: skip
    _line(c, 64, "stream")
    _point(c, 64, 150)
    c.text(_POINT + 12, 57, "10.1.7.9", size=13, color="other", anchor="start", code=True)
    _name(c, 90, "10.0.0.0/8", code=True)
    _interval(c, 150, 490, 90, "ours", closed=True)
    _name(c, 114, "10.1.0.0/16", code=True)
    _interval(c, 276, 360, 114, "ours", closed=True)
    c.text(372, 119, "the most specific", size=13, color="soft", anchor="start")
    _name(c, 138, "10.2.0.0/16", code=True)
    _interval(c, 374, 458, 138, "line", closed=True)
    return c


def keys(colors: dict[str, str]) -> Canvas:
    """Keys that are equal though their values are not, or are null."""
    c = _panel(
        colors, 168, "Keys", "which values are equal",
        "A key of the stream and two of the table, three times. With nulls_equal null is equal to "
        "null and not to 0. By the expression lower(name) Ann is equal to ann and not to anna. In "
        "a column with the collation UTF8_LCASE Ann is equal to ann and to ANN.",
    )  # fmt: skip
    c.text(234, 58, "stream", size=13, color="soft")
    c.text(410, 58, "table", size=13, color="soft")
    rows = {
        "nulls_equal": ("null", {"null": True, "0": False}),
        "lower(name)": ("Ann", {"ann": True, "anna": False}),
        "UTF8_LCASE": ("Ann", {"ann": True, "ANN": True}),
    }
    for y, (name, (key, there)) in zip((80, 116, 152), rows.items(), strict=True):
        _name(c, y, name, code=True)
        c.box(190, y - 14, 88, 28, [key], color="other", code=True)
        for x, (value, equal) in zip((320, 412), there.items(), strict=True):
            color, fill = ("ours", "ours-fill") if equal else ("line", "plain")
            c.box(x, y - 14, 80, 28, [value], color=color, fill=fill, code=True)
    return c


def latest(colors: dict[str, str]) -> Canvas:
    """Of a history the last rows of each key."""
    c = _panel(
        colors, 150, "latest_by", "of each key the last row is stored",
        "Changes of two keys in the order of time. Of key 7 the last of four is stored, of key 8 "
        "the last of three; with keep=2 the last two of key 8. Earlier ones are left out.",
    )  # fmt: skip
    history = {7: (150, 236, 330, 402), 8: (190, 286, 460)}
    rows = {"id 7": (7, 1), "id 8": (8, 1), "id 8 keep=2": (8, 2)}
    for y, (name, (key, keep)) in zip((62, 90, 118), rows.items(), strict=True):
        _line(c, y, name, code=True)
        _dots(c, y, history[key], history[key][-keep:])
    c.dot(24, 142, color="ours")
    c.text(36, 147, "is stored", size=13, anchor="start")
    c.dot(116, 142, full=False)
    c.text(128, 147, "is left out", size=13, anchor="start")
    c.text(506, 147, "→ later", size=13, anchor="end", color="soft")
    return c
