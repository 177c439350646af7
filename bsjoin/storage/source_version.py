"""The version of a source that a version of a table was made from, as a manifest has it."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

from bsjoin.storage import fields

_LONGEST = 4096
_SHOWN = 1024
_LATEST_US = 253_402_300_799_000_000  # the end of the year 9999


@dataclass(frozen=True)
class SourceVersion:
    """A version of the source of a table.

    Of a text with more than 4,096 characters the beginning is kept, and a digest of all of it. A
    time before 1970 or after 9999 is None.

    Args:
        source: which table it is, in words; several are joined by ``"; "``. Without credentials.
        version: what the source calls it: the number of a Delta version or of a snapshot, say.
        committed_at_us: when it was committed, microseconds since the epoch; None (default) if the
            source does not tell.
        identity: what tells the source from others of its name, such as a table that was dropped
            and made again; empty (default) if nothing does.
        selection: a digest of what is read of it, of filters and columns; empty (default) if that
            has none. Versions with another one are brought up to date by other changes.

    Example:
        >>> SourceVersion("the Delta table file:/data/customers", "17").version
        '17'
    """

    source: str
    version: str
    committed_at_us: int | None = None
    identity: str = ""
    selection: str = ""

    def __post_init__(self) -> None:
        """Shorten long texts: a manifest with one would be refused by its readers."""
        for name in ("source", "version", "identity", "selection"):
            text = getattr(self, name)
            if len(text) > _LONGEST:
                digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
                object.__setattr__(self, name, f"{text[:_SHOWN]}... sha256:{digest}")
        known = self.committed_at_us
        if known is not None and not 0 <= known <= _LATEST_US:
            object.__setattr__(self, "committed_at_us", None)

    def is_of(self, other: SourceVersion) -> bool:
        """Whether both are versions of one source, of which the same is read."""
        mine = self.source, self.identity, self.selection
        return mine == (other.source, other.identity, other.selection)

    def to_json(self) -> dict[str, Any]:
        """The same as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, item: Any) -> SourceVersion:
        """The inverse of :meth:`to_json`, for data that is not trusted.

        Raises:
            ValueError: names the invalid field.
        """
        texts = {name: fields.text(item, name) for name in ("source", "version")}
        for name in ("identity", "selection"):
            if item.get(name) is not None:
                texts[name] = fields.text(item, name)
        for name, text in texts.items():
            if len(text) > _LONGEST:
                raise ValueError(f"{name} has {len(text)} characters, more than {_LONGEST}")
        committed = None
        if item.get("committed_at_us") is not None:
            committed = fields.whole(item, "committed_at_us", 0, _LATEST_US)
        return cls(**texts, committed_at_us=committed)
