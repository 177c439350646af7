"""Turns records into a stand-alone HTML page, and into the documentation's table."""
