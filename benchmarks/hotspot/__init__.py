"""Skewed streams."""
