"""An experiment as a job of a Ray cluster.

    ray job submit --runtime-env runtime_env.yaml -- python jobs/run.py CONFIG [key=value …]

Ray sets RAY_ADDRESS to the cluster of a job, which `subgraft run` obeys.
"""

from __future__ import annotations

import sys

from subgraft.interfaces.cli import main

if __name__ == "__main__":
    sys.exit(main(["run", *sys.argv[1:]]))
