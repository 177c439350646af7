"""Random joins, held against a nested loop in exact arithmetic: ``python -m tests.fuzz``."""
