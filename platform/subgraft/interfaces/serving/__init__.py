"""Models that answer requests on this machine."""
