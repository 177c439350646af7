"""Values as users write them, and as Python, Arrow and Spark have them."""
