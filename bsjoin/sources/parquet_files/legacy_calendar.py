"""Dates and timestamps of the hybrid calendar (Julian until 1582), as Spark rebases them.

Spark 2, and Spark 3 in its legacy mode, write such values, and mark the file. Spark keeps the local
date and time, and computes with the zone's history, where the old calendar had the zone's standard
offset before 1900. Pure.
"""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bsjoin.errors import SourceError

Int64s = NDArray[np.int64]

_DAY_US = 86_400_000_000
_FIRST_GREGORIAN = -141_427  # 1582-10-15, in days since 1970-01-01
_FIRST_ZONED_US = -2_208_988_800_000_000  # 1900-01-01 UTC
_FIRST_OF_PYTHON = -719_162  # 0001-01-01


def zone_of(name: str) -> dt.tzinfo:
    """A time zone by its name, or its offset such as ``+02:00``."""
    text = name.removeprefix("UTC").removeprefix("GMT").removeprefix("UT")
    if text in ("", "Z"):
        return dt.UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        pass
    try:
        sign = {"+": 1, "-": -1}[text[0]]
        hours, minutes, seconds, *_ = *map(int, text[1:].split(":")), 0, 0
        return dt.timezone(sign * dt.timedelta(hours=hours, minutes=minutes, seconds=seconds))
    except (KeyError, ValueError):
        pass
    raise SourceError(
        f"the time zone {name!r} is not known to this Python: install the package tzdata, or set "
        "spark.sql.session.timeZone to another name of it"
    )


def rebased(values: pa.Array, zone: str) -> pa.Array:
    """Dates or timestamps of the hybrid calendar, written in a zone, as those of Spark's."""
    is_date = pa.types.is_date(values.type)
    numbers = np.array(values.view(pa.int32() if is_date else pa.int64()).fill_null(0))
    old = numbers < (_FIRST_GREGORIAN if is_date else _FIRST_ZONED_US)
    if not old.any():
        return values
    part = numbers[old].astype(np.int64)
    numbers[old] = _rebased_days(part) if is_date else _rebased_micros(part, zone)
    return pa.array(numbers, mask=np.asarray(values.is_null())).view(values.type)


def _rebased_days(days: Int64s) -> Int64s:
    """The days with the same year, month and day; those after the change are the same."""
    # Years of the Julian calendar that begin in March: every fourth has 366 days, at its end.
    since = days + 719_470  # since 0000-03-01 of the Julian calendar
    cycle, rest = np.divmod(since, 1461)
    year_of_cycle = np.minimum(rest // 365, 3)
    year, day = 4 * cycle + year_of_cycle, rest - 365 * year_of_cycle
    # The same day of the same year of the Gregorian calendar. 29 February may be missing there,
    # and is then 1 March.
    century = year // 100
    gregorian = 365 * year + year // 4 - century + century // 4 + day - 719_468
    return np.where(days < _FIRST_GREGORIAN, gregorian, days)


def _rebased_micros(micros: Int64s, zone: str) -> Int64s:
    tz = zone_of(zone)
    local = micros + _standard_offset_us(tz)
    days, time = np.divmod(local, _DAY_US)
    days = _rebased_days(days)
    found = days * _DAY_US + time
    if isinstance(tz, dt.timezone):
        return found - _standard_offset_us(tz)
    if (days < _FIRST_OF_PYTHON).any():
        raise SourceError(
            "a timestamp of the legacy calendar before the year 1 cannot be converted here: join "
            "with spark.read.parquet(...) instead of this source"
        )
    offsets = [
        _offset_us(tz, dt.datetime(1, 1, 1) + dt.timedelta(days=int(d), microseconds=int(t)))
        for d, t in zip(days - _FIRST_OF_PYTHON, time, strict=True)
    ]
    return found - np.array(offsets, np.int64)


def _standard_offset_us(tz: dt.tzinfo) -> int:
    """The offset without daylight saving time, by the newest rules."""
    return min(_offset_us(tz, dt.datetime(2037, month, 1)) for month in range(1, 13))


def _offset_us(tz: dt.tzinfo, local: dt.datetime) -> int:
    offset = tz.utcoffset(local)
    assert offset is not None
    return offset // dt.timedelta(microseconds=1)
