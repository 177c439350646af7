"""Tables and streams that benchmarks read."""
