"""Random SQL around stored tables, by their indexes and by Spark alone: see `tests.fuzz.plans`."""
