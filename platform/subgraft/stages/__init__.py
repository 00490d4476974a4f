"""One file per arrow of the pipeline: it reads records, calls one thing, writes one record."""
