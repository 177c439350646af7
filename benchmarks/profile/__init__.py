"""Where the time of one micro-batch goes: Spark's driver, the JVM, Python, and our own code."""
