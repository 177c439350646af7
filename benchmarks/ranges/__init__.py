"""Range joins."""
