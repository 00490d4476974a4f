"""Human evaluation: a blind sheet of outputs for each judge, and the results of filled sheets."""
