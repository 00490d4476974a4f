"""The stage that gives a finetuned model an encoder that reads the preceding sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from subgraft.config.corpora import Languages
from subgraft.modeling.families import family_of
from subgraft.training.stage import Inputs, Stage, Summary

if TYPE_CHECKING:
    from subgraft.modeling.bundle import Bundle
    from subgraft.modeling.families import Config
    from subgraft.training.context import Context
    from subgraft.training.stage import KnownInputs


class ContextStage(Stage):
    """The input `model` with an encoder that reads the preceding sentences.

    Attributes:
        seed: Of the new weights.
    """

    stage_name: ClassVar[str] = "context"
    revision: ClassVar[int] = 1

    languages: Languages
    sentences: int
    seed: int

    def config_after(self, inputs: KnownInputs) -> Config:
        model = inputs.config("model")
        return family_of(model).with_context(model, self.sentences, 0)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.modeling.bundle import Bundle

        bundle = Bundle.load(inputs["model"])
        extended = with_context(bundle, self.languages, self.sentences, self.seed)
        extended.save(out)
        new_parameters = extended.model.num_parameters() - bundle.model.num_parameters()
        return {"parameters": extended.model.num_parameters(), "new_parameters": new_parameters}


def with_context(bundle: Bundle, languages: Languages, sentences: int, seed: int) -> Bundle:
    """The model with an encoder that reads the preceding sentences; its new weights depend on the seed only.

    Raises UserError for models that read none.
    """
    from subgraft.pipeline.compute.models import extended_model

    end = bundle.sequence_format(languages).source_ending[-1]
    entries = family_of(bundle.model).with_context(bundle.model.config.to_dict(), sentences, end)
    return replace(bundle, model=extended_model(bundle, entries, seed, "model.encoder.context."))
