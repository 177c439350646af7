"""Spark settings of the tests' sessions: what makes short jobs short, and the same answers.

Sessions of a process of their own take what they need of it.
"""

from __future__ import annotations

__all__ = ["JVM", "SETTINGS"]

# A JVM that compiles quickly beats one that compiles well. Room for the code that Spark generates
# for each query, of which none is checked again; and few collections.
JVM = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
SETTINGS = {
    "spark.driver.extraJavaOptions": f"{JVM} -Xms1g -Xmn512m",
    "spark.driver.memory": "2g",
    "spark.sql.codegen.cache.maxEntries": "10000",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Over TCP, a stage that uses Python waits 40 ms for an acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "tests.worker_daemon",
    # Otherwise every function of a column calls the JVM twice more, for error messages.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
