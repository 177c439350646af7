"""Addresses and networks as texts: their first and last addresses, in bytes that compare.

Both kinds are 16 bytes, IPv4 as IPv4-mapped IPv6 (``::ffff:a.b.c.d``, RFC 4291), most significant
first: as binary they have the order of addresses. ``NetworkText.java`` reads the same texts.
"""

from __future__ import annotations

import ipaddress
import re

import pyarrow as pa

from bsjoin.errors import DataError

_LENGTH = re.compile(r"0|[1-9][0-9]{0,2}")
_MAPPED = 0xFFFF << 32
_SHOWN = 100
"""Characters of a text in an error."""


def ends_of(text: str) -> tuple[bytes, bytes] | None:
    """The first and the last address of a network, or twice an address; None for any other text.

    Args:
        text: such as ``10.0.0.0/8``, ``10.1.2.3/8`` (the bits behind the prefix do not count),
            ``2001:db8::/32``, ``192.0.2.7``.

    Example:
        >>> [end.hex() for end in ends_of("10.0.0.0/8")]
        ['00000000000000000000ffff0a000000', '00000000000000000000ffff0affffff']
    """
    _, slash, length = text.partition("/")
    if "%" in text or (slash and not _LENGTH.fullmatch(length)):
        return None  # ipaddress takes zone ids, leading zeros and masks
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    mapped = _MAPPED if network.version == 4 else 0
    ends = network.network_address, network.broadcast_address
    first, last = ((mapped + int(address)).to_bytes(16, "big") for address in ends)
    return first, last


def bounds(texts: pa.Array, function: str, last: bool, null_on_error: bool) -> pa.Array:
    """The first or the last address of each network; null if ``null_on_error`` for other texts.

    Raises:
        DataError: a text is no network.

    Complexity: O(n), and the cost of reading each distinct text once.
    """
    # As bytes: Spark's strings may be no UTF-8.
    encoded = texts.cast(pa.large_binary()).dictionary_encode()
    found = []
    for content in encoded.dictionary.to_pylist():
        text = content.decode(errors="replace")
        ends = ends_of(text)
        if ends is None and not null_on_error:
            raise DataError(_refusal(text, function))
        found.append(None if ends is None else ends[last])
    return pa.array(found, pa.binary()).take(encoded.indices)


def _refusal(text: str, function: str) -> str:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return (
        f"bsjoin.{function}: '{shown}' is no address and no network. Give IPv4 as 192.0.2.7 or "
        "10.0.0.0/8, IPv6 as 2001:db8::1 or 2001:db8::/32, without spaces, zone ids and leading "
        f'zeros; on_error="null", in SQL bsjoin.try_{function}, gives null for such texts'
    )
