"""Ratios as dots on a logarithmic axis: a small SVG for each figure, as wide as its table's cell.

Places along the axis are percentages, so that a chart fits a phone and a sheet of paper alike;
colours come from the page's style, light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.report.digits import bound as bound_text
from benchmarks.report.digits import number, spread
from benchmarks.report.markup import Markup, tag
from benchmarks.report.verdicts import Record, margin, spread_of, verdict

__all__ = ["Scale", "axis", "interval", "legend", "multiple", "multiples"]

_HEIGHT = 26
_MIDDLE = _HEIGHT / 2
_EDGE = 5.0  # per cent that stay free on either side
_MOST_TICKS = 6


@dataclass(frozen=True)
class Scale:
    """A logarithmic axis.

    Args:
        low: its smallest value, above 0.
        high: its largest.
    """

    low: float
    high: float

    @classmethod
    def over(cls, values: Iterable[float], ratios: bool = True) -> Scale:
        """An axis with room for all values, of ratios for 1 too; it spans a factor of 4 at least.

        Values that have no logarithm are left out: they are drawn at its ends.
        """
        drawn = [v for v in values if 0 < v < math.inf]
        drawn += [1.0] if ratios or not drawn else []
        low, high = min(drawn), max(drawn)
        room = max(1.15, math.sqrt(4 / (high / low)))
        return cls(low / room, high * room)

    def place(self, value: float) -> float:
        """Per cent from the left."""
        if value <= self.low:
            share = 0.0
        elif value >= self.high:
            share = 1.0
        else:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(_EDGE + (100 - 2 * _EDGE) * share, 2)

    def ticks(self) -> list[float]:
        """Round numbers inside the axis, few enough to stand side by side on a phone."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for parts in ((1, 2, 5), (1, 3)):
            ticks = [part * 10.0**e for e in range(first, last + 1) for part in parts]
            ticks = [tick for tick in ticks if self.low <= tick <= self.high]
            if len(ticks) <= _MOST_TICKS:
                return ticks
        step = math.ceil((last - first) / _MOST_TICKS)
        ticks = [10.0**e for e in range(first, last + 1) if e % step == 0]
        return [tick for tick in ticks if self.low <= tick <= self.high]


def axis(scale: Scale, label: str) -> Markup:
    """The numbers above a column of charts.

    Args:
        scale: the axis of all charts below.
        label: what the axis says, for those who do not see it.
    """
    marks = [
        tag("text", f"{tick:,.10g}", x=_at(scale.place(tick)), y="15", text_anchor="middle")
        for tick in scale.ticks()
    ]
    return _svg(marks, label, "axis", 20)


def interval(figure: Record, scale: Scale) -> Markup:
    """A figure with its spread and its bound; the side to be on is tinted."""
    if math.isnan(figure["value"]):
        return Markup("")
    bound, ends = figure.get("bound"), spread_of(figure)
    drawn: list[Markup] = []
    said = number(figure["value"])
    if bound is not None and not math.isnan(bound):
        at = scale.place(bound)
        left, right = (0.0, at) if figure.get("at_most") else (at, 100.0)
        drawn.append(_good(left, right))
    drawn += _grid(scale)
    if bound is not None and not math.isnan(bound):
        drawn.append(_upright(scale.place(bound), "bound", 2))
        said += f", to be {bound_text(bound, bool(figure.get('at_most')))}"
    if ends is not None:
        left, right = scale.place(ends[0]), scale.place(ends[1])
        drawn.append(_line(left, right, verdict(figure)))
        said += f", from {spread(ends)} round by round"
    drawn.append(_mark(figure, scale.place(figure["value"])))
    return _svg(drawn, said, "chart")


def multiple(figure: Record, scale: Scale) -> Markup:
    """A figure and its spread in multiples of its bound, better to the right; else nothing."""
    if figure.get("bound") is None or math.isnan(margin(figure)):
        return Markup("")
    times, *ends = multiples(figure)
    start = scale.place(1)
    drawn = [_good(start, 100.0), *_grid(scale), _upright(start, "bound", 2)]
    if ends:
        left, right = sorted(map(scale.place, ends))
        drawn.append(_line(left, right, verdict(figure)))
    drawn.append(_mark(figure, scale.place(times)))
    return _svg(drawn, f"{number(times, apart_from=1)} times its bound", "chart")


def multiples(figure: Record) -> list[float]:
    """A figure, and the ends of its spread if it has one, as multiples of its bound."""
    values = [figure["value"], *(spread_of(figure) or ())]
    return [margin({**figure, "value": value}) for value in values]


def legend(simulated: bool) -> Markup:
    """What the marks mean."""
    samples = [(_mark({"bound": None}, 50, of=of), of) for of in ("reached", "missed", "no bound")]
    if simulated:
        samples.append((_mark({"simulated": True, "bound": None}, 50), "hollow: from a simulator"))
    samples.append((_upright(50, "bound", 2), "to be: on the tinted side of this line"))
    samples.append((_line(10, 90, "no bound"), "smallest to largest round"))
    shown = [tag("span", _sample(drawn), f" {text}") for drawn, text in samples]
    return tag("p", shown, class_="legend")


def _sample(drawn: Markup) -> Markup:
    return tag("svg", drawn, width="22", height=_HEIGHT, aria_hidden="true", class_="sample")


def _svg(drawn: Iterable[Markup], said: str, kind: str, height: float = _HEIGHT) -> Markup:
    return tag("svg", drawn, width="100%", height=height, role="img", aria_label=said, class_=kind)


def _at(per_cent: float) -> str:
    return f"{per_cent:g}%"


def _grid(scale: Scale) -> list[Markup]:
    return [
        _upright(scale.place(tick), "one" if tick == 1 else "tick", 0) for tick in scale.ticks()
    ]


def _good(left: float, right: float) -> Markup:
    width = _at(round(right - left, 2))
    return tag("rect", x=_at(left), y="2", width=width, height=_HEIGHT - 4, class_="good")


def _upright(at: float, kind: str, inset: float) -> Markup:
    place = _at(at)
    return tag("line", x1=place, x2=place, y1=inset, y2=_HEIGHT - inset, class_=kind)


def _line(left: float, right: float, of: str) -> Markup:
    kind = f"line {of.replace(' ', '-')}"
    return tag("line", x1=_at(left), x2=_at(right), y1=_MIDDLE, y2=_MIDDLE, class_=kind)


def _mark(figure: Record, at: float, of: str | None = None) -> Markup:
    """A disc, or a diamond where the figure is missed, so that it needs no colour to be seen."""
    of = of or verdict(figure)
    kind = f"mark {of.replace(' ', '-')}" + (" simulated" if figure.get("simulated") else "")
    if of == "missed":
        shape = tag("path", d="M0-7L7 0 0 7-7 0Z", class_=kind)
        return tag("svg", shape, x=_at(at), y=_MIDDLE, overflow="visible")
    return tag("circle", cx=_at(at), cy=_MIDDLE, r=5.5, class_=kind)
