"""What a run's workers import: installed code, and nothing from the folder that a command is given in."""

from __future__ import annotations

from typing import Any

from ray.job_config import JobConfig


class InstalledCode(JobConfig):
    """A job of Ray's without the folders that Ray puts before all others on its workers' path.

    Those are the driver's current directory, and that of its script. A configuration and its text may come from
    anybody: a `torch.py` among them must not run.
    """

    def _get_proto_job_config(self) -> Any:
        self._py_driver_sys_path = []
        return super()._get_proto_job_config()  # type: ignore[no-untyped-call]
