"""A standalone Spark cluster on this machine: workers on addresses, and of sizes, of their own.

The master and the workers live in the JVM of the driver, as in Spark's ``local-cluster``, which
knows one address and one size only. Their executors are processes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["start"]


def start(gateway: Any, folder: Path, cores: Sequence[int], resources: Sequence[str]) -> str:
    """Start a master and workers on 127.0.0.2 and following; the master's URL.

    Args:
        gateway: py4j's, to the JVM.
        folder: for the work directories.
        cores: of each worker.
        resources: by worker, the name of a resource that it alone has; "" for none.
    """
    jvm = gateway.jvm
    deploy = jvm.org.apache.spark.deploy
    master = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, jvm.SparkConf())
    url = f"spark://127.0.0.1:{master._1().address().port()}"
    masters = gateway.new_array(jvm.String, 1)
    masters[0] = url
    for i, (count, resource) in enumerate(zip(cores, resources, strict=True)):
        conf = jvm.SparkConf()
        if resource:
            conf.set(f"spark.worker.resource.{resource}.amount", "9")
            script = _discovery(folder, resource)
            conf.set(f"spark.worker.resource.{resource}.discoveryScript", str(script))
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            f"127.0.0.{i + 2}", 0, 0, count, 2048, masters, str(folder / f"worker-{i}"),
            jvm.scala.Option.apply(i), conf, jvm.scala.Option.empty(),
        )  # fmt: skip
    return url


def _discovery(folder: Path, resource: str) -> Path:
    """The script that tells a worker what it has of a resource."""
    script = folder / f"{resource}.sh"
    told = json.dumps({"name": resource, "addresses": [str(k) for k in range(9)]})
    script.write_text(f"#!/bin/sh\necho '{told}'\n")
    script.chmod(0o755)
    return script
