"""Steps run on Ray: the plan, the cluster, the workers, the progress."""
