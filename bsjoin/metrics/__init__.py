"""Metrics of joins: who counts them, how they travel to the driver, and who reads them there."""
