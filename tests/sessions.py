"""The tests' sessions: what makes short jobs short, and the same answers.

Sessions of a process of their own take what they need of it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_collections import ListConverter
from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView
from pyspark.sql import SparkSession

from bsjoin.host import private_folder

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
    # What is generated alike for several stages of a query is compiled once.
    "spark.sql.codegen.useIdInClassName": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # How each query is described to a UI that is not there: the default takes a tenth of its time.
    "spark.sql.ui.explainMode": "simple",
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
_LOCAL_FILES = Path(__file__).with_name("LocalFiles.java")
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
INTERPRETED = {**SETTINGS, **CODE["python"]}
"""The settings of a process that waits for no code that Spark generates."""


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
    if master.startswith("local["):
        settings = on_this_machine(settings, "driver")
    for kind in (JVMView, JavaPackage, JavaClass):
        _keep_what_is_found(kind)
    ListConverter.convert = _converted
    return SparkSession.builder.master(master).config(map=dict(settings)).getOrCreate()


def on_this_machine(settings: Mapping[str, str], *kinds: str) -> dict[str, str]:
    """Settings with what JVMs of this machine find here: ``LocalFiles.java``, and the archive."""
    found = dict(settings)
    for kind in kinds if (jars := first_jars()) else ():
        found["spark.hadoop.fs.file.impl"] = _LOCAL_FILES.stem
        found[f"spark.{kind}.extraClassPath"] = os.pathsep.join(map(str, jars))
        if (archive := archive_of(jars)).exists():
            # It is silent where it is of another Java or of other jars, and left aside.
            shared = f"-XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
            name = f"spark.{kind}.extraJavaOptions"
            found[name] = f"{found.get(name, '')} {shared}"
    return found


def archive_of(jars: Sequence[Path]) -> Path:
    """Where the archive of classes is, if it is there (:mod:`tests.class_archive`)."""
    made = (os.environ.get("JAVA_HOME"), jars[-1], jars[-1].stat().st_mtime_ns)
    return jars[0].with_suffix(f".{hashlib.sha256(repr(made).encode()).hexdigest()[:16]}.jsa")


def first_jars() -> list[Path]:
    """That of ``LocalFiles.java``, and those that are read often; none where no compiler is."""
    home = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=f"{home}/bin" if home else None)
    if javac is None:
        return []
    folder = private_folder(Path(tempfile.gettempdir()) / f"bsjoin-tests-{os.getuid()}")
    jar = folder / f"{hashlib.sha256(_LOCAL_FILES.read_bytes()).hexdigest()[:16]}.jar"
    if not jar.exists():
        jars = ":".join(map(str, Path(pyspark.__file__).parent.glob("jars/hadoop-client-*.jar")))
        options = ["-source", "8", "-target", "8", "-nowarn", "-Xlint:-options", "-cp", jars]
        with tempfile.TemporaryDirectory(dir=folder) as made:
            subprocess.run([javac, *options, "-d", made, str(_LOCAL_FILES)], check=True)
            shutil.make_archive(made, "zip", made)
        os.rename(f"{made}.zip", jar)
    # For each closure the JVM reads classes anew, from the first of 280 jars that has them.
    found = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
    return [jar, *(one for name in _READ_OFTEN for one in found.glob(f"{name}_*.jar"))]


def _keep_what_is_found(kind: Any) -> None:
    """Look a name of the JVM up once; py4j does so at each use, for packages in all the jars."""
    find = kind.__getattr__

    def found(self: Any, name: str) -> Any:
        value = find(self, name)
        if isinstance(value, JavaPackage | JavaClass | JavaMember):
            vars(self)[name] = value
        return value

    kind.__getattr__ = found


_CONVERTED_APART = ListConverter.convert


def _converted(self: ListConverter, elements: Any, client: Any) -> Any:
    """A list of the JVM by two calls; py4j makes one for each element, and every query has many."""
    given = list(elements)
    if not 2 < len(given) <= 10 or any(element is None for element in given):
        return _CONVERTED_APART(self, given, client)
    if "lists" not in vars(client):
        client.lists = [JavaClass(f"java.util.{name}", client) for name in ("ArrayList", "List")]
    mutable, fixed = client.lists
    return mutable(fixed.of(*given))
