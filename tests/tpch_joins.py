"""Queries with the joins of TPC-H's, written here: which tables, keys and kinds of join they have.

Tables are in braces; ``lineitem`` is the stream's side, the others are stored tables with their
primary keys. There is no order: rows are compared as a multiset.
"""

from __future__ import annotations

__all__ = ["KEYS", "QUERIES"]

KEYS = {
    "region": ["r_regionkey"],
    "nation": ["n_nationkey"],
    "supplier": ["s_suppkey"],
    "customer": ["c_custkey"],
    "part": ["p_partkey"],
    "partsupp": ["ps_partkey", "ps_suppkey"],
    "orders": ["o_orderkey"],
}

_REVENUE = "sum(l_extendedprice * (1 - l_discount)) AS revenue"

QUERIES: dict[str, tuple[int, str]] = {
    "2, the cheapest supplier": (4, """
        SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr FROM {partsupp} c
        JOIN {part} ON p_partkey = c.ps_partkey JOIN {supplier} ON s_suppkey = c.ps_suppkey
        JOIN {nation} ON n_nationkey = s_nationkey JOIN {region} ON r_regionkey = n_regionkey
        WHERE p_size < 15 AND p_type LIKE '%BRASS' AND r_name = 'EUROPE' AND ps_supplycost =
            (SELECT min(m.ps_supplycost) FROM {partsupp} m JOIN {supplier} t
             ON t.s_suppkey = m.ps_suppkey WHERE m.ps_partkey = p_partkey)"""),
    "3, shipping priority": (2, f"""
        SELECT l_orderkey, o_orderdate, o_shippriority, {_REVENUE} FROM {{lineitem}}
        JOIN {{orders}} ON o_orderkey = l_orderkey JOIN {{customer}} ON c_custkey = o_custkey
        WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE'1995-03-15'
        AND l_shipdate > DATE'1995-03-15' GROUP BY l_orderkey, o_orderdate, o_shippriority"""),
    "4, checking of priorities": (0, """
        SELECT o_orderpriority, count(*) FROM {orders} WHERE o_orderdate >= DATE'1993-07-01'
        AND o_orderdate < DATE'1993-10-01' AND EXISTS (SELECT 1 FROM {lineitem}
            WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority"""),
    "5, local suppliers": (5, f"""
        SELECT n_name, {_REVENUE} FROM {{lineitem}}
        JOIN {{orders}} ON o_orderkey = l_orderkey JOIN {{customer}} ON c_custkey = o_custkey
        JOIN {{supplier}} ON s_suppkey = l_suppkey AND s_nationkey = c_nationkey
        JOIN {{nation}} ON n_nationkey = s_nationkey JOIN {{region}} ON r_regionkey = n_regionkey
        WHERE r_name = 'ASIA' AND year(o_orderdate) IN (1994, 1995) GROUP BY n_name"""),
    "7, volume between nations": (5, """
        SELECT s.n_name, c.n_name, year(l_shipdate), sum(l_extendedprice) FROM {lineitem}
        JOIN {supplier} ON s_suppkey = l_suppkey JOIN {orders} ON o_orderkey = l_orderkey
        JOIN {customer} ON c_custkey = o_custkey JOIN {nation} s ON s.n_nationkey = s_nationkey
        JOIN {nation} c ON c.n_nationkey = c_nationkey
        WHERE (s.n_name = 'FRANCE' AND c.n_name = 'GERMANY')
        OR (s.n_name = 'GERMANY' AND c.n_name = 'FRANCE') GROUP BY 1, 2, 3"""),
    "8, market share": (7, """
        SELECT year(o_orderdate), sum(if(s.n_name = 'BRAZIL', l_extendedprice, 0)) AS own,
        sum(l_extendedprice) AS every FROM {lineitem} JOIN {part} ON p_partkey = l_partkey
        JOIN {supplier} ON s_suppkey = l_suppkey JOIN {orders} ON o_orderkey = l_orderkey
        JOIN {customer} ON c_custkey = o_custkey JOIN {nation} n ON n.n_nationkey = c_nationkey
        JOIN {region} ON r_regionkey = n.n_regionkey JOIN {nation} s ON s.n_nationkey = s_nationkey
        WHERE r_name = 'AMERICA' AND p_type LIKE 'ECONOMY%' GROUP BY 1"""),
    "9, profit by kind of product": (5, """
        SELECT n_name, year(o_orderdate),
        sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity) FROM {lineitem}
        JOIN {partsupp} ON ps_suppkey = l_suppkey AND ps_partkey = l_partkey
        JOIN {part} ON p_partkey = l_partkey JOIN {supplier} ON s_suppkey = l_suppkey
        JOIN {orders} ON o_orderkey = l_orderkey JOIN {nation} ON n_nationkey = s_nationkey
        WHERE p_name LIKE '%green%' GROUP BY 1, 2"""),
    "10, returned items": (3, f"""
        SELECT c_custkey, c_name, n_name, {_REVENUE} FROM {{lineitem}}
        JOIN {{orders}} ON o_orderkey = l_orderkey JOIN {{customer}} ON c_custkey = o_custkey
        JOIN {{nation}} ON n_nationkey = c_nationkey WHERE l_returnflag = 'R'
        AND o_orderdate BETWEEN DATE'1993-10-01' AND DATE'1993-12-31' GROUP BY 1, 2, 3"""),
    "11, important stock": (2, """
        WITH stock AS (SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS worth FROM {partsupp}
            JOIN {supplier} ON s_suppkey = ps_suppkey JOIN {nation} ON n_nationkey = s_nationkey
            WHERE n_name = 'GERMANY' GROUP BY ps_partkey)
        SELECT * FROM stock WHERE worth > (SELECT max(worth) / 2 FROM stock)"""),
    "12, modes of shipping": (1, """
        SELECT l_shipmode, count_if(o_orderpriority IN ('1-URGENT', '2-HIGH')), count(*)
        FROM {lineitem} JOIN {orders} ON o_orderkey = l_orderkey
        WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate
        AND l_shipdate < l_commitdate GROUP BY l_shipmode"""),
    "13, orders of customers": (1, """
        SELECT c_count, count(*) FROM (SELECT c_name, count(o_orderkey) AS c_count FROM {orders}
            RIGHT JOIN (SELECT * FROM {customer} WHERE c_custkey < 900) ON c_custkey = o_custkey
            AND o_comment NOT LIKE '%special%requests%' GROUP BY c_name)
        JOIN {nation} ON n_nationkey = c_count GROUP BY c_count"""),
    "14, effect of promotions": (1, """
        SELECT sum(if(p_type LIKE 'PROMO%', l_extendedprice, 0)), sum(l_extendedprice)
        FROM {lineitem} JOIN {part} ON p_partkey = l_partkey WHERE month(l_shipdate) = 9"""),
    "15, top suppliers": (1, f"""
        WITH earned AS (SELECT l_suppkey, {_REVENUE} FROM {{lineitem}}
            WHERE l_shipdate >= DATE'1996-01-01' GROUP BY l_suppkey)
        SELECT s_suppkey, s_name, revenue FROM earned JOIN {{supplier}} ON s_suppkey = l_suppkey
        WHERE revenue = (SELECT max(revenue) FROM earned)"""),
    "16, suppliers without complaints": (1, """
        SELECT p_brand, p_size, count(DISTINCT ps_suppkey) FROM {partsupp}
        JOIN {part} ON p_partkey = ps_partkey WHERE p_brand <> 'Brand#45' AND ps_suppkey NOT IN
        (SELECT s_suppkey FROM {supplier} WHERE s_comment LIKE '%Customer%') GROUP BY 1, 2"""),
    "17, small orders": (1, """
        SELECT sum(l_extendedprice) FROM {lineitem} l JOIN {part} ON p_partkey = l_partkey
        WHERE p_container LIKE 'MED%' AND l_quantity <
            (SELECT avg(l_quantity) / 2 FROM {lineitem} m WHERE m.l_partkey = l.l_partkey)"""),
    "18, large orders": (2, """
        SELECT c_name, o_orderkey, o_totalprice, n FROM (SELECT l_orderkey, sum(l_quantity) AS n
            FROM {lineitem} GROUP BY l_orderkey HAVING sum(l_quantity) > 250)
        JOIN {orders} ON o_orderkey = l_orderkey JOIN {customer} ON c_custkey = o_custkey"""),
    "19, discounted revenue": (1, f"""
        SELECT {_REVENUE} FROM {{lineitem}} JOIN {{part}} ON p_partkey = l_partkey
        AND ((p_brand = 'Brand#12' AND l_quantity < 20 AND p_size < 25)
        OR (p_brand LIKE 'Brand#2%' AND l_quantity BETWEEN 10 AND 30))"""),
    "20, potential promotions": (1, """
        SELECT s_name FROM {supplier} JOIN {nation} ON n_nationkey = s_nationkey
        WHERE n_name IN ('CANADA', 'FRANCE') AND s_suppkey IN (SELECT ps_suppkey FROM {partsupp}
            WHERE ps_partkey IN (SELECT p_partkey FROM {part} WHERE p_name LIKE 'f%')
            AND ps_availqty > (SELECT sum(l_quantity) / 2 FROM {lineitem}
                WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey))"""),
    "21, suppliers that kept orders waiting": (3, """
        SELECT s_name, count(*) FROM {lineitem} l JOIN {supplier} ON s_suppkey = l_suppkey
        JOIN {orders} ON o_orderkey = l_orderkey JOIN {nation} ON n_nationkey = s_nationkey
        WHERE o_orderstatus = 'F' AND l.l_receiptdate > l.l_commitdate
        AND EXISTS (SELECT 1 FROM {lineitem} m WHERE m.l_orderkey = l.l_orderkey
            AND m.l_suppkey <> l.l_suppkey)
        AND NOT EXISTS (SELECT 1 FROM {lineitem} m WHERE m.l_orderkey = l.l_orderkey
            AND m.l_suppkey <> l.l_suppkey AND m.l_receiptdate > m.l_commitdate)
        GROUP BY s_name"""),
    "22, customers without orders": (0, """
        SELECT substring(c_phone, 1, 2), count(*), sum(c_acctbal) FROM {customer}
        WHERE c_acctbal > (SELECT avg(c_acctbal) FROM {customer} WHERE c_acctbal > 0)
        AND NOT EXISTS (SELECT 1 FROM {orders} WHERE o_custkey = c_custkey) GROUP BY 1"""),
}  # fmt: skip
"""By TPC-H's number: how many joins an index answers at least, and the query."""
