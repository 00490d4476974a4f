"""Models that a stage makes without training: built, imported, assembled or conditioned."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from subgraft.base import json_io
from subgraft.base.errors import UserError
from subgraft.config.models import ModelSettings
from subgraft.embeddings.transplanting.new_languages import add_languages
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_named, family_of
from subgraft.modeling.families.sequence_format import required_token
from subgraft.modeling.further_heads import HEADS
from subgraft.modeling.heads import require_token_head
from subgraft.pipeline.artifacts import SAVED_STEPS
from subgraft.pipeline.stages.models import (
    AssembleStage,
    BuildStage,
    CheckpointStage,
    SavedWeightsStage,
    SourceEncoderStage,
    UntieStage,
)
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.context import Context
from subgraft.training.stage import Inputs, Summary


def load_checkpoint(stage: CheckpointStage) -> Bundle:
    """The checkpoint as the stage imports it. Raises UserError if it cannot be loaded."""
    load = Bundle.of_body if stage.body else partial(Bundle.load, next_sentence=stage.next_sentence)
    return add_languages(load(stage.model), stage.new_languages, stage.seed)


def import_checkpoint(stage: CheckpointStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    del inputs, context
    bundle = load_checkpoint(stage)
    bundle.save(out)
    if (heads := Path(stage.model) / HEADS).is_file():  # for a pretraining that continues
        shutil.copyfile(heads, out / HEADS)
    return {"parameters": bundle.model.num_parameters(), "family": family_of(bundle.model).model_type}


def take_saved_weights(stage: SavedWeightsStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    """Raises UserError if the pretraining ended earlier."""
    del context
    saved = inputs["model"] / SAVED_STEPS
    if not (saved / str(stage.step)).is_dir():
        steps = (
            ", ".join(sorted((directory.name for directory in saved.iterdir()), key=int)) if saved.is_dir() else "none"
        )
        raise UserError(
            f"the pretraining saved no weights after {stage.step} updates",
            where="pretraining_step",
            hint=f"It saved the weights of: {steps}.",
        )
    shutil.copytree(saved / str(stage.step), out, dirs_exist_ok=True)
    record = json_io.object_in(inputs["model"] / "record.json")["summary"]
    seconds = record["training_seconds"] * stage.step / record["steps"]
    return {"step": stage.step, "training_seconds": round(seconds, 1)}


def assemble_model(stage: AssembleStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    del context
    bundle = assemble(inputs["model"], stage.seed)
    bundle.save(out)
    return {"parameters": bundle.model.num_parameters()}


def assemble(model: Path | str, seed: int) -> Bundle:
    """The encoder-decoder of a directory or hub id. Raises UserError for a model that already generates text."""
    bundle = Bundle.load(model)
    family = family_of(bundle.model)
    if family.generates:
        raise UserError(f"a {family.model_type} model generates text as it is: nothing to assemble", where=str(model))
    require_token_head(bundle.model)
    return Bundle(family.assemble(bundle.model, bundle.encoder, seed), bundle.encoder, bundle.decoder)


def untie_model(stage: UntieStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    del stage, context
    bundle = Bundle.load(inputs["model"])
    tied = bundle.model.num_parameters()
    family_of(bundle.model).untie(bundle.model)
    bundle.save(out)
    return {"parameters": bundle.model.num_parameters(), "new_parameters": bundle.model.num_parameters() - tied}


def add_source_encoder(stage: SourceEncoderStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    del context
    bundle, source_tokenizer = Bundle.load(inputs["model"]), Tokenizer.load(inputs["encoder"])
    extended = with_source_encoder(bundle, source_tokenizer, stage.layers, stage.seed)
    extended.save(out)
    new_parameters = extended.model.num_parameters() - bundle.model.num_parameters()
    return {"parameters": extended.model.num_parameters(), "new_parameters": new_parameters}


def with_source_encoder(bundle: Bundle, source_tokenizer: Tokenizer, layers: int, seed: int) -> Bundle:
    """The model behind a new source encoder over a tokenizer; its weights depend on the seed only.

    Raises UserError for models that take none, and for a tokenizer without padding.
    """
    require_token_head(bundle.model)
    config, padding = bundle.model.config.to_dict(), required_token(source_tokenizer, "pad", "a source encoder")
    entries = family_of(bundle.model).with_source_encoder(config, layers, len(source_tokenizer), padding)
    return Bundle(extended_model(bundle, entries, seed, "model.encoder.source."), source_tokenizer, bundle.decoder)


def extended_model(bundle: Bundle, entries: dict[str, Any], seed: int, new_weights: str) -> PreTrainedModel:
    """A model of an extended configuration, with the bundle's weights, and new ones under the prefix `new_weights`."""
    model_class: Any = family_named(entries.pop("model_type")).model_class()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = model_class(model_class.config_class(**entries))
    missing, unknown = model.load_state_dict(bundle.model.state_dict(), strict=False)
    assert not unknown and all(name.startswith(new_weights) for name in missing)
    model.generation_config = bundle.model.generation_config
    model.eval()
    assert isinstance(model, PreTrainedModel)
    return model


def build_model(stage: BuildStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    del context
    bundle = build(stage.model, inputs, stage.seed)
    bundle.save(out)
    return {"parameters": bundle.model.num_parameters()}


def build(model: ModelSettings, inputs: Inputs, seed: int) -> Bundle:
    """A model over the vocabularies of the inputs `encoder` and `decoder`, or the decoder's if its family has only one.

    Its family may read further inputs.
    """
    target = Tokenizer.load(inputs["decoder"])
    shares_vocabulary = model.one_vocabulary or inputs["encoder"] == inputs["decoder"]
    source = target if shares_vocabulary else Tokenizer.load(inputs["encoder"])
    family = family_named(model.model_type)
    built = family.build(model, source, target, seed)
    family.take_inputs(built, inputs)
    return Bundle(built, source, target)
