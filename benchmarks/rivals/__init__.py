"""A job of several joins in turn, and every way to carry it out."""
