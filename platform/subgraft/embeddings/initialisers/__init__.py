"""Ways to give new tokens their first rows, one module each and one table."""
