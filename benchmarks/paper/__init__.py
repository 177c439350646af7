"""The papers' tables and figures, each with ours beside it."""
