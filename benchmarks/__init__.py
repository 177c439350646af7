"""Benchmarks: seeded, results checked before they are timed, figures as ratios in one run."""
