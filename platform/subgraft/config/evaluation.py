"""Settings of how models, and new rows by themselves, are judged."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from subgraft.config.base import Seed, Settings


class MeasurementSettings(Settings):
    """How one model is measured on one text.

    max_length_ratio: an output ends at this many bytes of text for each byte of its source.
    calibration: whether the inference ECE is measured, which reads every output once more.
    """

    beam: Annotated[int, Field(ge=1)] = 4
    batch_size: Annotated[int, Field(ge=1)] = 32
    max_length_ratio: Annotated[float, Field(gt=0)] = 2.5
    test_sentences: Annotated[int, Field(ge=1)] | None = None
    speed_sentences: Annotated[int, Field(ge=1)] = 128
    speed_repeats: Annotated[int, Field(ge=1)] = 3
    calibration: bool = True


class EvaluationSettings(MeasurementSettings):
    """How the systems of an experiment are measured, and compared.

    bootstrap_samples: resamples behind an interval or a p-value.
    by_token_count: whether the bits of the test references are taken, by how often the new tokens in them occur in the
    training text: one more pass over the test set, by a stage of its own.
    upstream_sentences: so many sentences of the upstream corpus's test split are translated as well, by every finetuned
    model and by the one it began with: what was forgotten. Not done where it is not given.
    """

    bootstrap_samples: Annotated[int, Field(ge=1)] = 1000
    by_token_count: bool = True
    upstream_sentences: Annotated[int, Field(ge=1)] | None = Field(default=None, exclude_if=lambda given: given is None)

    @property
    def measurement(self) -> MeasurementSettings:
        """What decides the measurement of one model, and nothing of how models are compared."""
        return MeasurementSettings(**self.model_dump(include=set(MeasurementSettings.model_fields)))


class IntrinsicSettings(Settings):
    """The intrinsic quality of new rows: seen tokens are held out, and made again by each system's initialiser.

    tokens: how many; fewer where a fifth of those that qualify is less.  seed: which ones.
    """

    tokens: Annotated[int, Field(ge=1)] = 500
    seed: Seed = 1
