"""Everything whose purpose is defence: against what others wrote, against other users, and against leaks."""
