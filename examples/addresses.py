"""Requests as a stream, each joined with the most specific network that contains its address.

A network is a range of addresses, from its first to its last one: which of them hold an address is
a range join without any equality key. Networks are nested: of those that hold an address the most
specific one is the shortest. The stream's texts may be no addresses at all, which match nothing.

    python examples/addresses.py [--out FOLDER] [--requests ROWS]

Needs the `examples` extra (`pip install "bsjoin[examples]"`), Java, and no network.
"""

from __future__ import annotations

import argparse
import ipaddress
import sys
from pathlib import Path

import _support
import flights as demo
import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

import bsjoin
from bsjoin.functions import network_end, network_start

_REQUESTS_PER_FILE = 25_000
_BROKEN = ["localhost", "10.1.2", "10.1.2.999", ""]


def main() -> None:
    """Make networks and requests, join them, show where the requests come from."""
    options = arguments()
    out = _support.fresh_folder(options.out)
    random = np.random.default_rng(1)
    networks, requests = make_networks(random), make_requests(random, options.requests)
    _support.write_parquet(networks, out / "networks")
    _support.write_parquet(requests, out / "requests", _REQUESTS_PER_FILE)
    print(f"{len(requests):,} requests and {len(networks):,} networks are in {out}.")
    spark = demo.start_spark("addresses")
    try:
        stream = demo.read_stream(spark, out / "requests")
        query = _support.run(join(stream, spark.read.parquet(str(out / "networks"))), out)
        query.awaitTermination()
        _support.speed(query, "requests")
        result = spark.read.parquet(str(out / "result"))
        shown = result.where("site like 'department%'").agg(F.min("request")).first()[0]  # type: ignore[index]
        print("\nThe network of an address:")
        result.where(F.col("request") == shown).select("address", "network", "site").show()
        right = check(networks, requests, result)
    finally:
        _support.stop(spark)
    print(f"\nResult: {out / 'result'}")
    sys.exit(0 if right else 1)


def join(requests: DataFrame, networks: DataFrame) -> DataFrame:
    """Join each request with its network; both ends of a network belong to it."""
    return bsjoin.join(
        requests.withColumn("ip", network_start("address", on_error="null")),
        networks.withColumns({"first": network_start("network"), "last": network_end("network")}),
        on=[],
        how="left",
        when=bsjoin.Within("ip", "first", "last", closed="both", take="shortest"),
    )


def make_networks(random: np.random.Generator) -> pd.DataFrame:
    """Sites of different sizes within 10.0.0.0/8, and departments within some of these."""
    sites: list[ipaddress.IPv4Network] = []
    for block in ipaddress.IPv4Network("10.0.0.0/8").subnets(new_prefix=16):
        if random.random() < 0.9:  # the others are nobody's
            sites += block.subnets(new_prefix=int(random.integers(17, 23)))
    departments = [
        part
        for site in sites
        if random.random() < 0.3
        for part in site.subnets(new_prefix=26)
        if random.random() < 0.2
    ]
    networks = [*sites, *departments]
    return pd.DataFrame(
        {
            "network": [str(network) for network in networks],
            "site": [f"site {i}" for i in range(len(sites))]
            + [f"department {i}" for i in range(len(departments))],
        }
    )


def make_requests(random: np.random.Generator, rows: int) -> pd.DataFrame:
    """Addresses of 10.0.0.0/8; one in a hundred is broken."""
    numbers = random.integers(int(ipaddress.ip_address("10.0.0.0")), 11 << 24, rows)
    octets = [(numbers >> shift & 255).astype(str) for shift in (24, 16, 8, 0)]
    address = pd.Series(octets[0]).str.cat([pd.Series(octet) for octet in octets[1:]], sep=".")
    broken = random.random(rows) < 0.01
    address[broken] = random.choice(_BROKEN, broken.sum())
    return pd.DataFrame({"request": np.arange(rows), "address": address})


def check(networks: pd.DataFrame, requests: pd.DataFrame, result: DataFrame) -> bool:
    """Hold the result against counting: the ranges that have begun, less those that are over."""
    good = requests.address[~requests.address.isin(_BROKEN)]
    number = np.array([int(ipaddress.IPv4Address(text)) for text in good])
    ranges = [ipaddress.IPv4Network(text) for text in networks.network]
    firsts = np.sort([int(network.network_address) for network in ranges])
    lasts = np.sort([int(network.broadcast_address) for network in ranges])
    begun = np.searchsorted(firsts, number, side="right")
    over = np.searchsorted(lasts, number, side="left")
    counts = begun - over
    unknown = len(requests) - int((counts > 0).sum())
    return _support.checks(
        {
            "rows of the result": (len(requests), result.count()),
            "requests in no network": (unknown, result.where("network is null").count()),
            "of these with a broken address": (
                len(requests) - len(good),
                result.where("ip is null").count(),
            ),
            "requests of sites": (
                int((counts == 1).sum()),
                result.where("site like 'site%'").count(),
            ),
            "requests of departments, within sites": (
                int((counts == 2).sum()),
                result.where("site like 'department%'").count(),
            ),
            "rows whose range does not hold the address": (
                0,
                result.where("not ip between first and last").count(),
            ),
        },
        "numpy",
    )


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/addresses"), metavar="FOLDER")
    parser.add_argument("--requests", type=_support.positive, default=200_000, metavar="ROWS")
    return parser.parse_args()


if __name__ == "__main__":
    _support.program(main)
