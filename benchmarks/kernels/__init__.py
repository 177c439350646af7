"""The hot functions one by one, each beside a plain way to do the same."""
