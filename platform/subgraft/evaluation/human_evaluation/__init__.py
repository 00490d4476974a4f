"""What people say of the texts that systems write: a blind sheet for each judge, and what comes of filled ones."""
