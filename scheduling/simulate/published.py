"""What the papers report: tables, and the statements of the text."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "CETSA_NODES",
    "CLAIMS",
    "CONTRADICTIONS",
    "COSTS_OF_10_M",
    "EXECUTION_S",
    "PRIORITY",
    "WAYS",
    "Claim",
]

DEFAULT, ROUND_ROBIN, GS_BFD, CETSA, LBA_CE = "Default", "RR", "GS-BFD", "CETSA", "LBA-CE"
WAYS = (DEFAULT, ROUND_ROBIN, GS_BFD, CETSA, LBA_CE)

# Table 3 of CETSA and LBA-CE: nodes by priority; "11 ... 14" are l1 ... l4.
PRIORITY = ("m3", "m2", "m4", "l1", "l3", "l4", "xl1", "l2", "xl4", "xl3", "xl2")
CETSA_NODES = frozenset(PRIORITY[:5])

# Tables 5 and 6: seconds for 1, 2 ... 10 million records at 60,000 records/s.
EXECUTION_S = {
    "Wordcount": {
        DEFAULT: (27, 48, 68, 90, 111, 132, 153, 175, 195, 215),
        ROUND_ROBIN: (29, 42, 61, 80, 95, 114, 133, 155, 171, 189),
        GS_BFD: (26, 45, 66, 88, 108, 129, 150, 170, 191, 211),
        CETSA: (27, 43, 66, 86, 106, 122, 146, 165, 183, 205),
        LBA_CE: (25, 43, 62, 79, 98, 115, 133, 151, 167, 185),
    },
    "Fixwindow": {
        DEFAULT: (26, 45, 64, 83, 102, 121, 141, 160, 179, 199),
        ROUND_ROBIN: (22, 40, 58, 74, 93, 111, 129, 145, 163, 179),
        GS_BFD: (26, 47, 68, 89, 110, 132, 154, 175, 198, 219),
        CETSA: (27, 50, 71, 94, 117, 140, 160, 182, 205, 227),
        LBA_CE: (22, 40, 59, 77, 96, 115, 133, 151, 169, 187),
    },
}

# Price of the nodes in use times the last row of Table 5: $ for 10 million records. The paper does
# not print these products; the design page of this package does.
COSTS_OF_10_M = {CETSA: 3.479, ROUND_ROBIN: 10.926, DEFAULT: 11.456}


@dataclass(frozen=True)
class Claim:
    """A statement of a paper: how much one way differs from another, in percent.

    Args:
        where: the figure or table it stands at.
        job: which job it is about.
        measure: what is compared.
        way: the one praised.
        than: the other.
        percent: the change; negative is less.
        figure: whether it is among the figures to reach, and with which bound.
    """

    where: str
    job: str
    measure: str
    way: str
    than: str
    percent: float
    figure: float | None = None


def _claims(
    where: str,
    job: str,
    measure: str,
    way: str,
    values: tuple[float | None, ...],
    bounds: tuple[float | None, ...] = (None, None, None, None),
) -> list[Claim]:
    """Claims against Default, RR, GS-BFD and CETSA, in this order; None where there is none."""
    return [
        Claim(where, job, measure, way, than, value, bound)
        for than, value, bound in zip(
            (DEFAULT, ROUND_ROBIN, GS_BFD, CETSA), values, (*bounds, None, None), strict=False
        )
        if value is not None
    ]


_W, _F = "Wordcount", "Fixwindow"
CLAIMS = (
    *_claims("Fig. 10a", _W, "CPU use", CETSA, (36, 106, 23)),
    *_claims("Fig. 10b", _W, "memory use", CETSA, (14, 20, 2)),
    *_claims("Fig. 11", _W, "cost", CETSA, (-37.3, -58.9, -11.8), (-37.3, -58.9, -11.8)),
    *_claims("Fig. 11", _W, "cost", LBA_CE, (-37.9, -36.4, -3.3), (-37.9, None, None)),
    *_claims("Table 5", _W, "time", LBA_CE, (-11.9, None, -9.2, -7.1)),
    *_claims("Fig. 12", _W, "S", LBA_CE, (-23.1, -4.5, -12.5, -23.9), (-23.1, None, None, -23.9)),
    *_claims("Fig. 13", _W, "communication", LBA_CE, (-18.5, -11.5)),
    *_claims("Fig. 13", _W, "communication", CETSA, (-22, -24.8, -8.7)),
    *_claims("Fig. 14", _W, "throughput", LBA_CE, (17.8, 8.2, 17.3, 13.2)),
    *_claims("Fig. 17a", _F, "CPU use", CETSA, (58.3, 100.6, 20.8)),
    *_claims("Fig. 17b", _F, "memory use", CETSA, (11.8, 28.6, 2.8)),
    *_claims("Fig. 18", _F, "communication", LBA_CE, (-16.2, -4.6, 0.0)),
    *_claims("Fig. 18", _F, "communication", CETSA, (-5, -25.1, -7.3)),
    *_claims("Fig. 19", _F, "cost", LBA_CE, (-20.2, -34.3, -6.2), (-20.2, None, None)),
    *_claims("Fig. 20", _F, "S", LBA_CE, (-24.6, -4.5, -25.0, -24.3), (-24.6, None, None, -24.3)),
    *_claims("Table 6", _F, "time", LBA_CE, (-7.5, None, -13.9, -17.8)),
    *_claims("Fig. 21", _F, "throughput", LBA_CE, (10.3, 5.7, 29.1, 27.5)),
    *_claims("Fig. 23", _F, "cost", CETSA, (None, None, -9.1)),
)

CONTRADICTIONS = (
    "CETSA and LBA-CE: Fig. 11 has Wordcount 37.3 % cheaper under CETSA than under Default and "
    "58.9 % than under RR; the prices of Table 4 times the times of Table 5 give 69.6 % and 68.2 %",
    "CETSA and LBA-CE: Eq. 6 counts types twice; the X of Eq. 24 cancels wherever it is used",
    "CETSA and LBA-CE: Algorithm 2 lacks its line 17, and the check of delta that the text "
    "requires; filled to the letter, its high list is less balanced than a random placement",
    "CETSA and LBA-CE: Table 3 names nodes 11 ... 14, which are l1 ... l4, and its m, l, xl are "
    "Table 4's Small, Medium, Large",
    "St-Stream: Eq. 1 adds GHz to GB, and Eq. 6 cannot be computed",
    "St-Stream: Algorithm 2 mislabels its inputs, its line 12 moves load in the wrong direction, "
    "and 'no nodes above L_min' must read below",
    "OERA: Algorithm 1 sizes with R(n - 1), shrinks below what comes in, and then oscillates on "
    "constant input",
    "Twister2: two default instances make a container; the code of first fit has room for one",
)
"""Where the papers contradict themselves, or an algorithm does not do what the text says."""
