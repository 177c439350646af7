"""What joins have done: who counts it, how it travels to the driver, and who reads it there."""
