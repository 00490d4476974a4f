"""Steps, plan, store, runner and tracking: what turns stages into an experiment that is done once."""
