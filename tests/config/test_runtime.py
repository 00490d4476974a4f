"""Settings of where and how steps run: what goes together, and that none of them is part of a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["runtime.offload=optimizer"], "offload: optimizer needs zero_stage 1, 2 or 3"),
        (["runtime.offload=optimizer", "runtime.zero_stage=0"], "offload: optimizer needs zero_stage 1, 2 or 3"),
        (["runtime.offload=parameters", "runtime.zero_stage=2"], "offload: parameters needs zero_stage 3"),
        (["runtime.price_per_device_hour=-1"], "price_per_device_hour"),
    ],
)
def test_what_does_not_go_together_is_a_mistake(repository: Path, changes: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(repository / "configs" / "quickstart.yaml", Experiment, changes)


def test_no_setting_of_it_changes_a_fingerprint(repository: Path) -> None:
    changes = (
        "runtime={workers: 2, gpus_per_worker: 1, zero_stage: 3, offload: parameters, activation_checkpointing: true, "
        "price_per_device_hour: 2.5, currency: EUR, device_flops: 1e14}",
    )
    reports = []
    for overrides in ((), changes):
        experiment = load(repository / "configs" / "quickstart.yaml", Experiment, overrides)
        reports.append(Pipeline(experiment, repository / "configs").report.fingerprint)
    assert reports[0] == reports[1]
