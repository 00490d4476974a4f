"""What each stage computes; these modules load torch."""
