"""What the levers touch of a Spark session, without a JVM."""

from __future__ import annotations

from typing import Any


class Conf:
    """A configuration of the driver."""

    def __init__(self, **known: str) -> None:
        self.known = {name.replace("_", "."): value for name, value in known.items()}

    def get(self, name: str, default: str | None = None) -> Any:
        return self.known.get(name, default)

    def contains(self, name: str) -> bool:
        return name in self.known

    def set(self, name: str, value: str) -> None:
        self.known[name] = value

    def getTimeAsMs(self, name: str, default: str) -> int:  # noqa: N802 - Spark's name
        value = self.known.get(name, default)
        return int(value.removesuffix("s")) * 1000

    def remove(self, name: str) -> None:
        self.known.pop(name, None)


class Session:
    """A classic session: it is its own context, and the JVM behind that."""

    def __init__(self, master: str = "spark://there:7077", conf: Conf | None = None) -> None:
        self.master, self.settings = master, conf or Conf()
        self.killed: list[str] = []
        self.wanted: list[int] = []
        self.clings: set[str] = set()  # executors that are not given back
        self._jsparkSession = self._jvm = self._jsc = self.sparkContext = self

    @property
    def scala(self) -> Any:
        return self

    Predef = scala

    def Map(self) -> Any:  # noqa: N802 - Scala's name
        return self

    def empty(self) -> None:
        return None

    def internalCreateDataFrame(self) -> None:  # noqa: N802 - Spark's name
        return None

    def sc(self) -> Any:
        return self

    def isLocal(self) -> bool:  # noqa: N802 - Spark's name
        return self.master.startswith("local")

    @property
    def conf(self) -> Any:
        # RuntimeConfig is a property, SparkContext.conf() a method.
        return _Callable(self.settings)

    def getConf(self) -> Conf:  # noqa: N802 - Spark's name
        return self.settings

    def killExecutor(self, executor: str) -> bool:  # noqa: N802 - Spark's name
        if executor in self.clings:
            return False
        self.killed.append(executor)
        return True

    def requestTotalExecutors(self, count: int, *_: Any) -> bool:  # noqa: N802 - Spark's name
        self.wanted.append(count)
        return True


class _Callable:
    def __init__(self, conf: Conf) -> None:
        self._conf = conf

    def __call__(self) -> Conf:
        return self._conf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conf, name)


class ConnectSession:
    """A session of Spark Connect: no driver in this process."""

    def __init__(self, conf: Conf | None = None) -> None:
        self.conf = conf or Conf()


ConnectSession.__module__ = "pyspark.sql.connect.session"


def executor(name: str, host: str = "h", cores: int = 2, **known: Any) -> dict[str, Any]:
    """An executor as Spark's REST API tells it."""
    return {
        "id": name,
        "hostPort": f"{host}:4040",
        "isActive": True,
        "totalCores": cores,
        "totalDuration": 0,
        "memoryUsed": 0,
        "maxMemory": 1000,
    } | known
