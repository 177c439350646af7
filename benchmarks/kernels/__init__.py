"""The hot functions, one by one, each beside a plain way to do the same.

``python -m pytest benchmarks/kernels --benchmark-only`` runs them; ``--quick`` for small sizes.
"""
