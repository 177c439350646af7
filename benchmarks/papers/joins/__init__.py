"""The BS-Join paper: skewed streams (Figs. 11 and 12, Table 5) and skip lists (Fig. 13)."""
