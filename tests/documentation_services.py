"""What stands for the services that the pages name: a server of HTTP, clients of stores, Derby."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping, Sequence
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pyspark.sql import SparkSession

Rows = Sequence[Mapping[str, Any]]


def served(request: pytest.FixtureRequest, rows: Rows) -> str:
    """The URL of a server that answers ``?ids=1,2`` with rows in JSON, while the test runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ids = parse_qs(urlsplit(self.path).query)["ids"][0].split(",")
            found = [
                {name: row[name] for name in ("customer_id", "name")}
                for row in rows
                if str(row["customer_id"]) in ids
            ]
            body = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    request.addfinalizer(stop)
    return f"http://127.0.0.1:{server.server_port}"


def clients(patch: pytest.MonkeyPatch, rows: Rows) -> None:
    """Modules of DynamoDB's and Cassandra's clients, with what the pages use of them."""
    by_id = {row["customer_id"]: row for row in rows}

    # DynamoDB's numbers are decimals. The first call answers one key only.
    def batch_get_item(RequestItems: Any) -> dict[str, Any]:  # noqa: N803 - as boto3 names it
        ((table, asked),) = RequestItems.items()
        first, *others = asked["Keys"]
        assert len(asked["Keys"]) <= 100
        row = by_id.get(first["customer_id"])
        found = [{**row, "customer_id": Decimal(row["customer_id"])}] if row else []
        left = {table: {"Keys": others}} if others else {}
        return {"Responses": {table: found}, "UnprocessedKeys": left}

    def resource(name: str) -> SimpleNamespace:
        assert name == "dynamodb"
        return SimpleNamespace(batch_get_item=batch_get_item)

    def prepare(statement: str) -> str:
        assert statement.endswith("WHERE customer_id = ?")
        return statement

    def execute_concurrent_with_args(session: Any, statement: str, parameters: Any) -> list[Any]:
        assert session.row_factory == "dict_factory"
        return [(True, [by_id[i]] if i in by_id else []) for (i,) in parameters]

    session = SimpleNamespace(prepare=prepare)
    cluster = SimpleNamespace(connect=lambda keyspace: session)
    modules = {
        "boto3": {"resource": resource},
        "cassandra": {},
        "cassandra.cluster": {"Cluster": lambda hosts: cluster},
        "cassandra.query": {"dict_factory": "dict_factory"},
        "cassandra.concurrent": {"execute_concurrent_with_args": execute_concurrent_with_args},
    }
    for name, members in modules.items():
        module = ModuleType(name)
        vars(module).update(members)
        patch.setitem(sys.modules, name, module)


def derby(spark: SparkSession, folder: Path) -> str:
    """The JDBC URL of a new database in the memory of the session's JVM, by Spark's own Derby."""
    spark._jvm.System.setProperty("derby.stream.error.file", str(folder / "derby.log"))
    return f"jdbc:derby:memory:{folder.name}{id(folder)};create=true"
