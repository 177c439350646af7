"""A small canvas for diagrams: SVG that is legible on a telephone, and refuses text that overflows.

Everything is drawn 520 units wide, so that a screen of 400 pixels shows it at three quarters. The
background is transparent; each drawing exists in the colours of a light and of a dark page.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH = 520
PALETTES = {
    "light": {
        "ink": "#1f2933",
        "soft": "#52606d",
        "line": "#8a96a3",
        "plain": "#f1f4f6",
        "ours": "#00796b",
        "ours-fill": "#dff2ef",
        "other": "#b4451f",
        "other-fill": "#fde9e0",
        "third": "#1f5fa8",
        "third-fill": "#e3effb",
    },
    "dark": {
        "ink": "#e6eaee",
        "soft": "#aeb8c2",
        "line": "#76828f",
        "plain": "#2b323b",
        "ours": "#5ec9bb",
        "ours-fill": "#16413b",
        "other": "#f29a75",
        "other-fill": "#4a2a1d",
        "third": "#86b8f0",
        "third-fill": "#1d3552",
    },
}
_FONTS = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif"
_CODE = "ui-monospace, 'SF Mono', Consolas, 'DejaVu Sans Mono', monospace"
# Widths of characters over the font's size, as in DejaVu Sans, the widest of these fonts.
_WIDTHS = dict.fromkeys("ijl|'.,:;! ", 0.33) | dict.fromkeys('ftr()[]/-"', 0.41)
_WIDTHS |= dict.fromkeys("mwMW@%", 0.98) | dict.fromkeys("ABCDEGHKNOPQRUVXY", 0.73)
_OTHERS, _MONOSPACED, _BOLD = 0.63, 0.61, 1.1


def width_of(text: str, size: float, *, bold: bool = False, code: bool = False) -> float:
    """How wide a text is at most, in the units of the canvas."""
    if code:
        return len(text) * _MONOSPACED * size
    wide = sum(_WIDTHS.get(letter, _OTHERS) for letter in text)
    return wide * size * (_BOLD if bold else 1)


class Canvas:
    """A drawing under way.

    Args:
        height: of the drawing; its width is :data:`WIDTH`.
        colors: a palette of :data:`PALETTES`.
        title: what it shows, in a few words.
        description: the same for one who does not see it.
    """

    def __init__(self, height: int, colors: dict[str, str], title: str, description: str):
        self.height, self._colors, self._parts = height, colors, list[str]()
        self._title, self._description = title, description

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 15,
        color: str = "ink",
        anchor: str = "middle",
        bold: bool = False,
        code: bool = False,
        most: float = WIDTH,
    ) -> None:
        """A line of text whose baseline is at ``y``.

        Raises:
            ValueError: it is wider than ``most``, or leaves the drawing.
        """
        wide = width_of(text, size, bold=bold, code=code)
        left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
        if wide > most or left < 0 or left + wide > WIDTH or not size * 0.8 <= y <= self.height:
            raise ValueError(
                f"{text!r} takes {wide:.0f} of {most:.0f} units, from {left:.0f}, and does not "
                "fit: shorten it, break it into two lines, or make room"
            )
        font = f' font-family="{_CODE}"' if code else ""
        weight = ' font-weight="600"' if bold else ""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}"{weight}{font} '
            f'fill="{self._colors[color]}">{escape(text, quote=False)}</text>'
        )

    def box(
        self,
        x: float,
        y: float,
        wide: float,
        high: float,
        lines: Sequence[str] = (),
        *,
        head: str = "",
        color: str = "line",
        fill: str = "plain",
        code: bool = False,
        top: bool = False,
        dashed: bool = False,
    ) -> None:
        """A rectangle with a heading and lines of text in its middle, or from its top."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="7" '
            f'fill="{self._colors[fill]}" stroke="{self._colors[color]}" stroke-width="1.4"{dash}/>'
        )
        rows = [(head, True)] * bool(head) + [(line, False) for line in lines]
        size, step = (13.0 if code else 14.0), 19.0
        at = y + (24 if top else (high - step * len(rows)) / 2 + 14)
        if rows and (at - 14 < y or at + step * (len(rows) - 1) + 4 > y + high):
            raise ValueError(f"{rows[0][0]!r} and {len(rows) - 1} lines do not fit into {high:g}")
        for number, (text, heading) in enumerate(rows):
            self.text(
                x + wide / 2,
                at + step * number,
                text,
                size=15 if heading else size,
                color=color if heading and color != "line" else "ink",
                bold=heading,
                code=code and not heading,
                most=wide - 8,
            )

    def path(
        self,
        points: str,
        *,
        color: str = "line",
        width: float = 1.6,
        arrow: bool = False,
        dashed: bool = False,
    ) -> None:
        """A line along a path in SVG's words, with an arrow's head at its end if asked."""
        head = f' marker-end="url(#{color})"' if arrow else ""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<path d="{points}" fill="none" stroke="{self._colors[color]}" '
            f'stroke-width="{width:g}"{dash}{head}/>'
        )

    def dot(
        self, x: float, y: float, *, color: str = "line", full: bool = True, radius: float = 6
    ) -> None:
        """A point; one that is not full is a ring."""
        fill = self._colors[color] if full else "none"
        self._parts.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" '
            f'stroke="{self._colors[color]}" stroke-width="1.8"/>'
        )

    def bar(self, x: float, y: float, wide: float, high: float, *, fill: str) -> None:
        """A rectangle without an outline."""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" '
            f'fill="{self._colors[fill]}"/>'
        )

    def written(self) -> str:
        """The drawing as SVG."""
        body = "\n".join(self._parts)
        heads = "".join(
            f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="11" '
            'markerHeight="11" markerUnits="userSpaceOnUse" orient="auto-start-reverse">'
            f'<path d="M0 0L10 5L0 10z" fill="{color}"/></marker>'
            for name, color in self._colors.items()
            if f"url(#{name})" in body
        )
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
                f'width="{WIDTH}" height="{self.height}" role="img" aria-labelledby="t d" '
                f'font-family="{_FONTS}">',
                f'<title id="t">{escape(self._title, quote=False)}</title>',
                f'<desc id="d">{escape(self._description, quote=False)}</desc>',
                *([f"<defs>{heads}</defs>"] if heads else []),
                body,
                "</svg>\n",
            ]
        )
