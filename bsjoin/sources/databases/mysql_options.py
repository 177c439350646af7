"""The options of a URL of MySQL, as PyMySQL takes them."""

from __future__ import annotations

from typing import Any

from bsjoin.errors import ArgumentError, suggest
from bsjoin.sources.urls import Address

_TEXTS = {"unix_socket", "charset", "ssl_ca", "ssl_cert", "ssl_key", "ssl_key_password"}
_SWITCHES = {"ssl_disabled", "ssl_verify_cert", "ssl_verify_identity"}
_UTF8 = {"utf8", "utf8mb3", "utf8mb4"}
_BOOLEANS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def options_of(address: Address) -> dict[str, Any]:
    """The arguments for a connection; an option that nothing would follow is refused."""
    found: dict[str, Any] = {}
    for name, value in address.options.items():
        if name not in _TEXTS | _SWITCHES:
            raise ArgumentError(
                f"url={str(address)!r}: the option {name!r} is not known. "
                f"{suggest(name, sorted(_TEXTS | _SWITCHES))}"
            )
        if name in _SWITCHES and value.lower() not in _BOOLEANS:
            raise ArgumentError(f"url={str(address)!r}: {name}={value!r}: give true or false")
        found[name] = _BOOLEANS[value.lower()] if name in _SWITCHES else value
    if found.get("charset", "utf8").lower() not in _UTF8:
        raise ArgumentError(
            f"url={str(address)!r}: every text is read in utf8mb4, since the server would send "
            "question marks for characters that another charset= lacks: leave it out"
        )
    if found.get("ssl_verify_identity") and "ssl_ca" not in found:
        raise ArgumentError(
            f"url={str(address)!r}: without ssl_ca= PyMySQL does not compare the name of the host "
            "with the certificate: give a file of authorities, such as the system's"
        )
    if "ssl_ca" in found:  # PyMySQL would accept any certificate
        found.setdefault("ssl_verify_cert", True)
    return {**found, "charset": "utf8mb4"}
