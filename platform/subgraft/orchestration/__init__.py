"""Running steps: the artifact store, execution on Ray, tracking in MLflow, estimates of time and memory.

May import base to pipeline. Ray is imported in execution alone, MLflow in tracking alone.
Start reading at store/store.py: artifacts made once; execution/runner.py: runs a plan.
"""
