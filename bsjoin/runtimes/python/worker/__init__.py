"""The worker's side: tables stay open between micro-batches and process whole Arrow batches.

Pure pyarrow and numpy: independent of Spark.
"""
