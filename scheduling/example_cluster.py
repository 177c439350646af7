"""A cluster file to begin with: ``python -m scheduling example > cluster.yaml``."""

from __future__ import annotations

__all__ = ["EXAMPLE"]

EXAMPLE = """\
# A cluster and a job for `python -m scheduling plan|explain|simulate cluster.yaml`.
delta: 0.8                         # the share of a worker that tasks may use
prices:                            # $/s by name or host; the first pattern that matches counts
  - {pattern: "m*", tier: m, price_per_s: 0.002417, slots: 4, cpu_cores: 4, memory_mb: 8192}
  - {pattern: "l*", tier: l, price_per_s: 0.004861, slots: 4, cpu_cores: 8, memory_mb: 12288}
workers:                           # names, or names with what was measured of them
  - {id: m1, tuples: 1000000, cost: 0.9, cpu: 0.6, memory: 0.4, busyness: 0.5}
  - {id: m2, tuples: 1000000, cost: 1.1, cpu: 0.5, memory: 0.4, busyness: 0.4}
  - {id: m3, tuples: 900000, cost: 1.0, cpu: 0.5, memory: 0.3, busyness: 0.4}
  - {id: l1, tuples: 1500000, cost: 2.1, cpu: 0.4, memory: 0.4, busyness: 0.3}
  - {id: l2, tuples: 1200000, cost: 2.0, cpu: 0.3, memory: 0.3, busyness: 0.2,
     reserved: {slots: 1, cpu_cores: 2, memory_mb: 4096}}          # what others use
operators:                         # numbers of one task; `to` has the bytes/s of the operator
  - {name: read, parallelism: 2, cpu_cores: 0.4, memory_mb: 512, rate_in_per_s: 10000,
     to: {join: 4000000}}
  - {name: join, parallelism: 6, cpu_cores: 0.9, memory_mb: 1024, rate_in_per_s: 3333,
     state_bytes: 200000000, to: {write: 2000000}}
  - {name: write, parallelism: 2, cpu_cores: 0.3, memory_mb: 512, rate_in_per_s: 10000}
cost: {price_per_byte: 1.0e-11, weights: [0.5, 0.3, 0.2]}
"""
