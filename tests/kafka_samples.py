"""Records of Kafka as they may be, and what the examples of the pages must make of them."""

from __future__ import annotations

import base64
import struct
from typing import Any

__all__ = ["AVRO_RECORDS", "RECORDS", "Record"]

Record = tuple[bytes | None, bytes | None, str | None, dict[str, Any]]
"""Key, value and header; and the value that comes back, with the name of the customer."""

RECORDS: list[Record] = [
    (b"1", b'{"order_id": 100, "amount": 9.5, "tags": ["a"]}', "web",
     {"order": {"order_id": 100, "amount": 9.5, "tags": ["a"]}, "name": "Ada"}),
    (b"3", b'{"order_id": 101}', None, {"order": {"order_id": 101}, "name": "Cleo"}),
    (b"4", b'{"order_id": 102}', None, {"order": {"order_id": 102}}),
    (b"seven", b'{"order_id": 103}', "shop", {"order": {"order_id": 103}}),
    (b"1.5e3", b"[1, 2]", None, {"order": [1, 2]}),
    (b"99999999999999999999", b'{"order_id": 104}', None, {"order": {"order_id": 104}}),
    (b"\xff\xfe", b'{"order_id": 105}', None, {"order": {"order_id": 105}}),
    (None, b'{"order_id": 106}', None, {"order": {"order_id": 106}}),
    (b"2", b'no "JSON" {', None, {"order": 'no "JSON" {', "name": "Ben"}),
    (b"3", None, None, {"name": "Cleo"}),
    (b"2", b"null", None, {"order": None, "name": "Ben"}),
]  # fmt: skip


# A value of Avro: an order's number, as a varint, and a double.
SCHEMA_7 = bytes(4) + b"\x07"
AVRO = b"\xd0\x0f" + struct.pack("<d", 9.5)  # 1000 and 9.5
ORDER = {"order_id": 1000, "amount": 9.5}


def unread(value: bytes) -> dict[str, str]:
    return {"unread": base64.b64encode(value).decode()}


AVRO_RECORDS: list[Record] = [
    (b"1", SCHEMA_7 + AVRO, "web", ORDER | {"name": "Ada"}),
    (b"one", SCHEMA_7 + AVRO, None, ORDER),
    (b"\xff", SCHEMA_7 + AVRO, None, ORDER),
    (None, SCHEMA_7 + AVRO, None, ORDER),
    (b"3", None, None, {"name": "Cleo"}),
    *(
        (b"2", value, None, unread(value) | {"name": "Ben"})
        for value in (
            b"",
            b"\0",
            b'{"order_id": 1}',
            SCHEMA_7,
            SCHEMA_7 + AVRO[:-1],
            SCHEMA_7 + b"\xff" * 12,  # a number that does not end
            bytes(4) + b"\x08" + AVRO,  # of another schema
            b"\x01" + SCHEMA_7[1:] + AVRO,
        )
    ),
]
