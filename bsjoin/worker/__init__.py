"""The worker's side: tables kept open between micro-batches, answering whole Arrow batches.

Pure pyarrow and numpy: nothing here knows of Spark.
"""
