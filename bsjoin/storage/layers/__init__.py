"""Layers: changes of a table above a base that versions share.

A version with layers is an immutable base, which it shares with versions before it, and a few
*layers*. A layer has **all rows that its keys have now**, and the keys that have none any more. A
look-up that finds its key in a layer is done: the rows of a key stay neighbours in one segment, so
that only finding a key differs from a table without layers (``docs/decisions/0030-layers.md``).
"""
