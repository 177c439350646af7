"""What carries out a planned join: Spark's generated code (``jvm``), or Python workers."""
