"""Placing join operators on workers."""
