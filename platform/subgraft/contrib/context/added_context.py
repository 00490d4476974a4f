"""A finetuned model gets an encoder that reads the preceding sentences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.config.corpora import Languages
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of
from subgraft.pipeline.compute.models import extended_model
from subgraft.training.stage import Inputs, Summary

if TYPE_CHECKING:
    from subgraft.contrib.context.stage import ContextStage


def add_context(stage: ContextStage, inputs: Inputs, out: Path) -> Summary:
    bundle = Bundle.load(inputs["model"])
    extended = with_context(bundle, stage.languages, stage.sentences, stage.seed)
    extended.save(out)
    new_parameters = extended.model.num_parameters() - bundle.model.num_parameters()
    return {"parameters": extended.model.num_parameters(), "new_parameters": new_parameters}


def with_context(bundle: Bundle, languages: Languages, sentences: int, seed: int) -> Bundle:
    """The model with an encoder that reads the preceding sentences; its new weights depend on the seed only.

    Raises UserError for models that read none.
    """
    end = bundle.sequence_format(languages).source_ending[-1]
    entries = family_of(bundle.model).with_context(bundle.model.config.to_dict(), sentences, end)
    model = extended_model(bundle, entries, seed, "model.encoder.context.")
    return Bundle(model, bundle.encoder, bundle.decoder)
