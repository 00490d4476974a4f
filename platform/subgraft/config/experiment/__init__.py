"""An experiment: a comparison whose settings are consistent. `loading` reads it from YAML."""

from __future__ import annotations

from pydantic import model_validator

from subgraft.config.directions import with_first_direction
from subgraft.config.experiment.comparison import Comparison
from subgraft.config.experiment.presets import with_preset
from subgraft.config.experiment.validation.experiment import CHECKS


class Experiment(Comparison):
    """A whole comparison. Omitted settings come from the preset and the task (see `presets`)."""

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, settings: object) -> object:
        return with_first_direction(with_preset(settings)) if isinstance(settings, dict) else settings

    @model_validator(mode="after")
    def _agrees(self) -> Experiment:
        for require in CHECKS:
            require(self)
        return self
