"""What PostgreSQL's catalog says of a table whose changes are followed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from bsjoin.sources.databases.statements import rows_of

_TABLES = "rpm"  # plain, partitioned, materialized views

# A change of any of these may change rows without telling which: another table of the same name,
# other columns, names of an enumeration, policies, files that were written anew, partitions that
# come and go, a server that was restored from a copy. What is in a foreign table is in no log.
_STATE = """
    SELECT c.oid::int8, c.relkind::text, n.nspname || '.' || c.relname, c.relhassubclass,
        bool_and(leaf.relreplident IN ('d', 'f') OR leaf.oid = c.oid),
        max(c.relreplident::text), array_agg(leaf.oid::int8 ORDER BY leaf.oid)::text,
        md5(concat_ws('|', s.system_identifier, k.timeline_id, c.oid, c.relkind,
            c.relrowsecurity, c.relforcerowsecurity,
            (SELECT string_agg(concat_ws(',', p.oid, p.xmin), ';' ORDER BY p.oid)
             FROM pg_policy p WHERE p.polrelid = c.oid),
            (SELECT string_agg(concat_ws(',', e.oid, e.enumlabel), ';' ORDER BY e.oid)
             FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid
                JOIN pg_enum e ON e.enumtypid IN (y.oid, y.typelem, y.typbasetype)
             WHERE a.attrelid = c.oid AND a.attnum > 0),
            string_agg(concat_ws(',', leaf.oid, leaf.relfilenode, leaf.relreplident), ';'
                ORDER BY leaf.oid),
            (SELECT string_agg(concat_ws(',', a.attnum, a.attname, a.atttypid, a.atttypmod), ';'
                ORDER BY a.attnum)
             FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
             AND NOT a.attisdropped)))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN LATERAL (SELECT * FROM pg_class l WHERE l.oid = c.oid OR (c.relkind = 'p'
            AND l.oid IN (SELECT relid FROM pg_partition_tree(c.oid) WHERE isleaf))) leaf ON true,
        pg_control_system() s, pg_control_checkpoint() k
    WHERE c.oid = to_regclass($1) AND NOT EXISTS (
        WITH RECURSIVE below(oid) AS (SELECT c.oid UNION
            SELECT i.inhrelid FROM below JOIN pg_inherits i ON i.inhparent = below.oid)
        SELECT FROM below JOIN pg_class f USING (oid) WHERE f.relkind = 'f')
    GROUP BY c.oid, c.relkind, n.nspname, c.relname, c.relhassubclass, c.relrowsecurity,
        c.relforcerowsecurity, s.system_identifier, k.timeline_id"""
_KEY = """
    SELECT a.attname::text, format_type(a.atttypid, a.atttypmod)
    FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
        AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])
    WHERE i.indrelid = to_regclass($1) AND i.indisvalid AND i.indisunique
        AND {} ORDER BY array_position(i.indkey::int2[], a.attnum)"""
# Those that publish all changes of all rows. A later change of them is seen by their numbers.
_PUBLICATIONS = """
    SELECT p.pubname::text, p.oid::int8, p.xmin::text || ':' || coalesce((
        SELECT string_agg(r.oid::text, ',' ORDER BY r.oid) FROM pg_publication_rel r
        WHERE r.prpubid = p.oid), '')
    FROM pg_publication p
    WHERE p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate AND (
        SELECT count(*) FILTER (WHERE o.oid::int8 = $1::int8) > 0
            OR count(*) FILTER (WHERE o.oid::int8 <> $1::int8) >= {leaves}
        FROM pg_publication_tables t JOIN pg_namespace n ON n.nspname = t.schemaname
            JOIN pg_class o ON o.relnamespace = n.oid AND o.relname = t.tablename
        WHERE t.pubname = p.pubname AND o.oid::int8 = ANY('{{{oids}}}'::int8[])
            AND to_jsonb(t)->>'rowfilter' IS NULL)
    ORDER BY p.puballtables, p.oid"""


@dataclass(frozen=True)
class Relation:
    """A table, as its changes are to be read.

    Args:
        name: with its schema.
        kind: ``r``, ``p`` for a partitioned table, ``m`` for a materialized view.
        oids: its number, and those of its partitions.
        key: the columns that tell a row from all others, with their types; empty if nothing does.
        inherited: whether other tables inherit from it.
        identity: a digest of all that rows depend on beside the changes of rows.
        publications: those that have all its changes, with a word for their state.
    """

    name: str
    kind: str
    oids: tuple[int, ...]
    key: tuple[tuple[str, str], ...]
    inherited: bool
    identity: str
    publications: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Snapshot:
    """What a statement sees: the same text, on a primary, means that it sees the same rows.

    Args:
        text: the snapshot, as PostgreSQL writes it.
        lsn: how far the log is on disk; None on a standby, where the text does not suffice.
    """

    text: str
    lsn: str | None

    def is_same(self, other: Snapshot | None) -> bool:
        """Whether nothing can have been committed in between."""
        return self.lsn is not None and self == other

    def running(self) -> set[int]:
        """The transactions that have not ended, modulo 2^32, of those that have begun."""
        return {int(xid) & 0xFFFFFFFF for xid in self.text.split(":")[2].split(",") if xid}

    def lacks(self, xid: int) -> bool:
        """Whether what a transaction has done is not seen yet."""
        ahead = (xid - int(self.text.split(":")[1])) & 0xFFFFFFFF
        return ahead < 1 << 31 or xid in self.running()


def read_snapshot(connection: Any) -> Snapshot:
    """What a statement sees at this moment."""
    ((text, lsn),) = rows_of(
        connection,
        "SELECT pg_current_snapshot()::text, "
        "CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_current_wal_flush_lsn()::text END",
    )
    return Snapshot(text, lsn)


def read_relation(connection: Any, name: str) -> Relation | None:
    """The table of a name, quoted; None if there is none, or it is no table."""
    found = rows_of(connection, _STATE, name)
    if not found or found[0][1] not in _TABLES:
        return None
    oid, kind, full_name, inherited, told, replica, leaves, identity = found[0]
    numbers = tuple(int(number) for number in re.findall(r"\d+", leaves))
    inherited = inherited and kind != "p"
    key: tuple[tuple[str, str], ...] = ()
    if not inherited and told and (replica != "n" or kind == "p"):
        which = "i.indisreplident" if replica == "i" and kind == "r" else "i.indisprimary"
        found = rows_of(connection, _KEY.format(which), name)
        key = tuple((column, dtype) for column, dtype in found)
    published = rows_of(
        connection,
        _PUBLICATIONS.format(
            leaves=max(1, len(numbers) - 1), oids=",".join(str(number) for number in numbers)
        ),
        str(oid),
    )
    return Relation(
        full_name, kind, numbers, key, inherited, identity,
        tuple((publication, f"{number}:{state}") for publication, number, state in published),
    )  # fmt: skip
