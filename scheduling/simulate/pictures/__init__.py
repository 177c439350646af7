"""The papers' comparisons as pictures; the only package here that needs matplotlib."""

from scheduling.simulate.pictures.flink import draw_flink
from scheduling.simulate.pictures.others import draw_containers, draw_disturbed
from scheduling.simulate.pictures.storm import draw_elastic, draw_skewed

__all__ = ["draw_containers", "draw_disturbed", "draw_elastic", "draw_flink", "draw_skewed"]
