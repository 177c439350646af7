"""The runtimes of a planned join: Spark's generated code (``jvm``), or Python workers."""
