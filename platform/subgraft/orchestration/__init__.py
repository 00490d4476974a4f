"""Running steps: the artifact store, execution on Ray, tracking in MLflow, estimates of time and memory.

May import base to pipeline. Only execution imports Ray, and only tracking imports MLflow.
Start reading at store/store.py: artifacts made once; execution/runner.py: runs a plan.
"""
