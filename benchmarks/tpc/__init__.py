"""The paper's product recall on TPC-H: a stream of customers, joined with three tables in turn."""
