"""Scores of a model as a job of a Ray cluster, on one of its GPUs. The command is `subgraft evaluate`.

    ray job submit --runtime-env runtime_env.yaml --entrypoint-num-gpus 1 -- python jobs/evaluate.py
        --model models:/NAME@ALIAS --sources FILE --references FILE --languages en-fr --language fr

Ray starts this where a GPU is. Files are on the shared storage, or in what the job sends.
"""

from __future__ import annotations

import sys

from subgraft.interfaces.cli import main

if __name__ == "__main__":
    sys.exit(main(["evaluate", *sys.argv[1:]]))
