"""Jobs of several joins in sequence, and every alternative to run them."""
