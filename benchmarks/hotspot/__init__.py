"""Skewed streams: Zipf keys, rules of routing, hosts with caches, and a Spark stream."""
