"""Placing join operators onto cost-ranked, load-balanced workers."""

__all__: list[str] = []
