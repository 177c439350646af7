"""What the BS-Join paper measured: its Tables 1 to 4, by number of TaskManagers.

H. Ji et al., Future Generation Computer Systems, 2022, section 6.2: 128 containers with one core
and 8 GB each, Flink 1.8.0 and 1.12.2 without a cache, "OPT" with the paper's. Figs. 9 and 10 are
drawn, not listed: (a) is the speed-up of these tables by Formula 5; (b), the running time against
the volume of the tables, is there as a picture only.
"""

from __future__ import annotations

__all__ = ["LATENCY_MS", "THROUGHPUT", "WAYS"]

WAYS = ("OPT", "Flink 1.8.0", "Flink 1.12.2")

THROUGHPUT: dict[str, dict[int, tuple[float, float, float]]] = {
    "tpc": {
        1: (3267, 1621, 1769),
        2: (6281, 2940, 2858),
        4: (12587, 5442, 6289),
        8: (24218, 11219, 12313),
        16: (50154, 21602, 22122),
        32: (80463, 27437, 30158),
        64: (124622, 29474, 33853),
        128: (143032, 28232, 30069),
    },
    "traffic": {
        1: (30104, 27746, 28122),
        2: (52890, 54114, 51505),
        4: (97955, 92352, 89643),
        8: (265821, 158293, 156272),
        16: (400872, 193026, 193030),
        32: (645143, 195029, 199510),
        64: (1015615, 174211, 257357),
        128: (1069050, 184536, 172474),
    },
}
"""Results a second: Table 1 (tpc) and Table 3 (traffic)."""

LATENCY_MS: dict[str, dict[int, tuple[float, float, float]]] = {
    "tpc": {
        1: (3.81, 7.83, 7.12),
        2: (4.21, 6.28, 6.45),
        4: (3.76, 6.56, 6.08),
        8: (3.99, 6.13, 6.16),
        16: (4.10, 5.76, 6.07),
        32: (4.09, 7.51, 7.62),
        64: (4.53, 9.29, 9.72),
        128: (4.90, 18.34, 19.91),
    },
    "traffic": {
        1: (33.97, 36.11, 35.84),
        2: (39.04, 41.63, 39.38),
        4: (42.48, 44.32, 45.75),
        8: (33.90, 76.37, 68.84),
        16: (26.49, 115.74, 116.29),
        32: (31.78, 213.13, 228.82),
        64: (41.10, 581.39, 558.56),
        128: (47.22, 1730.88, 1605.18),
    },
}
"""Milliseconds for one record: Table 2 (tpc) and Table 4 (traffic)."""
