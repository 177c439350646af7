"""The tests' sessions: what makes short jobs short, and the same answers.

Sessions of a process of their own take what they need of it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView
from pyspark.sql import SparkSession

from bsjoin.host import private_folder

__all__ = ["CLUSTER", "CODE", "JVM", "LONG", "SETTINGS", "configured", "session"]

_QUICKLY = "-XX:TieredStopAtLevel=1"
# A JVM that compiles quickly beats one that compiles well. Room for the code that Spark generates
# for each query, of which none is checked again; and few collections.
JVM = (
    f"{_QUICKLY} -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
SETTINGS = {
    "spark.driver.extraJavaOptions": f"{JVM} -XX:MetaspaceSize=512m -Xms2g -Xmn896m",
    "spark.driver.memory": "2g",
    # Each sort and each hash table of a task takes a page. Of this memory Spark makes pages of
    # 64 MB: clearing them takes time, and they outgrow the young generation.
    "spark.buffer.pageSize": "1m",
    "spark.log.level": "OFF",
    "spark.sql.codegen.cache.maxEntries": "10000",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Over TCP, a stage that uses Python waits 40 ms for an acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "tests.worker_daemon",
    # The default one starts 15 processes in every micro-batch, such as readlink and chmod.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
    # Otherwise every function of a column calls the JVM twice more, for error messages.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
_OPTIONS = "spark.driver.extraJavaOptions"
_READ_OFTEN = ("spark-core", "spark-sql", "spark-catalyst")
LONG = {**SETTINGS, _OPTIONS: SETTINGS[_OPTIONS].replace(_QUICKLY, "")}
"""The same for a process of many minutes, which gains by code that is compiled well."""
CLUSTER = {
    **SETTINGS,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JVM,
    "spark.executor.extraJavaOptions": JVM,
    "spark.executor.memory": "512m",
}
"""The same on a standalone cluster of this machine."""
CODE: dict[str, dict[str, str]] = {
    "jvm": {},
    # To compile what a small query needs takes longer than to run it. The functions of the jar are
    # made for generated code; what Spark itself evaluates beside Python has the same value.
    "python": {
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
    },
}
"""How Spark evaluates expressions, by the runtime of the joins."""


@contextmanager
def configured(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session for a while."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def session(master: str, settings: Mapping[str, str] = SETTINGS) -> SparkSession:
    """The session of this process."""
    if master.startswith("local["):  # the executors of a cluster would need the classes, too
        settings = {**settings, **_local_files()}
    for kind in (JVMView, JavaPackage, JavaClass):
        _keep_what_is_found(kind)
    return SparkSession.builder.master(master).config(map=dict(settings)).getOrCreate()


def _local_files() -> dict[str, str]:
    """What a session needs for ``LocalFiles.java``; nothing where there is no compiler for it."""
    home, source = os.environ.get("JAVA_HOME"), Path(__file__).with_name("LocalFiles.java")
    javac = shutil.which("javac", path=f"{home}/bin" if home else None)
    if javac is None:
        return {}
    folder = private_folder(Path(tempfile.gettempdir()) / f"bsjoin-tests-{os.getuid()}")
    classes = folder / hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    if not classes.is_dir():
        jars = ":".join(map(str, Path(pyspark.__file__).parent.glob("jars/hadoop-client-*.jar")))
        made = tempfile.mkdtemp(dir=folder)
        options = ["-source", "8", "-target", "8", "-nowarn", "-Xlint:-options", "-cp", jars]
        subprocess.run([javac, *options, "-d", made, str(source)], check=True)
        try:
            os.rename(made, classes)
        except OSError:  # another process was first
            shutil.rmtree(made)
    # For each closure the JVM reads classes anew, from the first of 280 jars that has them.
    found = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
    first = [jar for name in _READ_OFTEN for jar in found.glob(f"{name}_*.jar")]
    return {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, [classes, *first])),
        "spark.hadoop.fs.file.impl": source.stem,
    }


def _keep_what_is_found(kind: Any) -> None:
    """Look a name of the JVM up once; py4j does so at each use, for packages in all the jars."""
    find = kind.__getattr__

    def found(self: Any, name: str) -> Any:
        value = find(self, name)
        if isinstance(value, JavaPackage | JavaClass | JavaMember):
            vars(self)[name] = value
        return value

    kind.__getattr__ = found
