"""The paper's road traffic job: live events of a city, joined with six tables in turn."""
