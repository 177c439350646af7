"""The runtime of Python workers: what the driver hands to Spark, and what a worker does with it."""
