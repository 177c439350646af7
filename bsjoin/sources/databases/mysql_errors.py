"""The meaning of errors of MySQL, MariaDB and PyMySQL, by their numbers."""

from __future__ import annotations

from bsjoin.sources.transient import of_data

# The connection, a limit of the server on connections, memory, time or locks, or its shutdown.
_MAY_PASS = {
    1021, 1030, 1037, 1038, 1040, 1041, 1042, 1043, 1047, 1053, 1077, 1078, 1079, 1080, 1081, 1105,
    1114, 1129, 1135, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1205, 1206, 1213, 1226, 1317, 1412,
    1613, 1614, 1615, 1637, 1927, 1969, 2000, 2001, 2002, 2003, 2005, 2006, 2008, 2011, 2012, 2013,
    2014, 2026, 2027, 2047, 2048, 2055, 3024, 3032, 3168, 3169, 4031, 9001, 9002, 9003, 9004, 9005,
}  # fmt: skip
# A value out of range, of another type or too long, a text that its character set lacks, a packet
# that is too long, a subquery of several rows.
_OF_DATA = {
    1153, 1162, 1242, 1260, 1264, 1265, 1292, 1300, 1301, 1365, 1366, 1367, 1406, 1411, 1416, 1441,
    1525, 1690, 1977, 2020, 2032, 3140, 3141, 3146, 3155, 3156, 3157, 3158, 3854, 3988,
}  # fmt: skip


def may_pass(error: Exception) -> bool:
    """Whether an error is of the connection or the server's state."""
    if not type(error).__module__.startswith("pymysql"):
        return isinstance(error, OSError)
    # PyMySQL gives no number, or 0, for a connection that is closed or out of step.
    return not _number(error) or _number(error) in _MAY_PASS


def is_of_data(error: Exception) -> bool:
    """Whether an error is of a value, a key, or their size."""
    return of_data(error) or _number(error) in _OF_DATA


def _number(error: Exception) -> int | None:
    """The server's or the driver's number of an error of PyMySQL."""
    found = error.args[0] if error.args else None
    return found if type(error).__module__.startswith("pymysql") and type(found) is int else None
