"""Networks as texts: those that are drawn, and their ends as Python's ``ipaddress`` reads them."""

from __future__ import annotations

import ipaddress
import random
import re
from collections.abc import Sequence
from typing import Any

from tests.fuzz.case import Columns, Row

WELL_KNOWN = """
0.0.0.0 0.0.0.0/0 255.255.255.255 255.255.255.255/32 10.0.0.0/8 10.1.2.3/8 192.0.2.7 192.0.2.7/31
:: ::/0 ::1 ::1/128 1:: 1::/16 2001:db8::/32 2001:DB8::A:b/33 ::ffff:10.0.0.0/104 ::ffff:0:0/96
64:ff9b::192.0.2.33 1:2:3:4:5:6:7:8 1:2:3:4:5:6:7:: ::2:3:4:5:6:7:8 1:2:3:4:5:6:1.2.3.4 ::1.2.3.4
ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/127 fe80::/10 1:2::7:8 0:0:0:0:0:0:0:0
"""
REFUSED = """
/ /8 10.0.0.0/ 10.0.0.0/33 10.0.0.0/-1 10.0.0.0/+8 10.0.0.0/08 10.0.0.0/8/8 10.0.0.0/255.0.0.0
10.0.0.0/0.255.255.255 10.0.0 10 10.0.0.0.0 10.0.0. .0.0.0 10..0.0 010.0.0.1 10.0.0.00 256.0.0.1
10.0.0.1000 0x0a.0.0.1 10.0.0.a localhost ::1%eth0 fe80::%1/64 ::/129 ::/00 : ::: 1: :1 1::2::3
12345:: g:: 1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9 1:2:3:4:5:6:7:8:: ::1:2:3:4:5:6:7:8 1::2:3:4:5:6:7:8
1:2:3:4:5:6:7:1.2.3.4 1.2.3.4:: ::1.2.3 ::1.2.3.256 ::01.2.3.4 1:2:3:4:5:6:7: :1:2:3:4:5:6:7
[::1] ::1/64/ 1.2.3.4:80 \uff11.2.3.4 ::\uff11
"""
ENDS = ("network_start", "network_end")


def ends_of(text: str) -> tuple[bytes, bytes] | None:
    """The ends of a network as ``ipaddress`` has them, of the notations that bsjoin takes."""
    length = text.partition("/")[2]
    if "%" in text or ("/" in text and str(int(length) if length.isdecimal() else "") != length):
        return None
    try:
        network: Any = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    ends = [ipaddress.ip_address(network[0]), ipaddress.ip_address(network[-1])]
    if network.version == 4:
        ends = [ipaddress.ip_address(f"::ffff:{end}") for end in ends]
    return ends[0].packed, ends[1].packed


def texts(draw: random.Random, size: int, *, refused: bool) -> list[str]:
    """Networks and addresses of both kinds that often contain each other, and perhaps no networks.

    Networks of IPv4 are also written as the same ones of IPv6.
    """
    found = draw.sample(WELL_KNOWN.split(), 4)
    found += draw.sample(["", " 10.0.0.1", "::1\n", *REFUSED.split()], 4 if refused else 0)
    for _ in range(size):
        address, length = f"10.0.0.{draw.randrange(16)}", draw.choice([8, *range(24, 33)])
        form = draw.choice([*["{}/{}"] * 4, "{}", *["::ffff:{}/{}"] * 2, "2001:db8::{}/{}"])
        found.append(form.format(address, length + 96 * (":" in form)))
    return found


def text_of(kind: str) -> tuple[str, str] | None:
    """The function and the column of a text whose end a column has; None for other columns."""
    found = re.fullmatch(r"(?:try_)?(network_\w+)\((\w+)\)", kind)
    return None if found is None else (found[1], found[2])


def with_ends(columns: Columns, rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows, in which columns that are ends of networks have those of the texts."""
    names = [name for name, _ in columns]
    found = [(place, text_of(kind)) for place, (_, kind) in enumerate(columns)]
    made = {place: (ENDS.index(of[0]), names.index(of[1])) for place, of in found if of}
    if not made:
        return tuple(rows)

    def value(row: Row, place: int) -> Any:
        if place not in made:
            return row[place]
        end, text = made[place]
        ends = None if row[text] is None else ends_of(row[text])
        return None if ends is None else ends[end]

    return tuple(tuple(value(row, place) for place in range(len(row))) for row in rows)
