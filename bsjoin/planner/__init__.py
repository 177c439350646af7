"""From a call to a plan: arguments, names, types, keys, conditions, and the table's side of a join.

Nothing here chooses or knows a runtime: :mod:`bsjoin.runtimes` gets what is planned.
"""
