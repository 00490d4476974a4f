"""Plan, runner and session: what turns steps into an experiment."""
