"""The import path of a run's workers: installed code only, nothing from the current directory."""

from __future__ import annotations

from typing import Any

from ray.job_config import JobConfig


class InstalledCode(JobConfig):
    """A Ray job without the driver's current and script directories, which Ray puts first on its workers' path.

    A configuration and its text may come from anyone: a `torch.py` next to them must not be executed.
    """

    def _get_proto_job_config(self) -> Any:
        self._py_driver_sys_path = []
        return super()._get_proto_job_config()  # type: ignore[no-untyped-call]
