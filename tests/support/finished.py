"""Bundles of all families that write text, whose outputs depend on what they read."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import torch
from transformers import PreTrainedModel

from published import bart
from subgraft.config.models import T5Settings
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES
from subgraft.modeling.sides import side
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import (
    SHAPE,
    bert2bert,
    build_marian,
    cased_tokenizer,
    english_tokenizer,
    fitted_tokenizer,
    german,
    german_tokenizer,
    gpt2,
    joint_tokenizer,
    llama,
    m2m100,
    marian,
    mbart,
    multilingual_tokenizer,
    t5,
)

Build: TypeAlias = Callable[[], Bundle]


def bundle_of(build: Callable[[], PreTrainedModel], encoder: Tokenizer, decoder: Tokenizer) -> Bundle:
    """The model, made to look at its source: an untrained one hardly does."""
    model = build()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2 and parameter.requires_grad:
                parameter.mul_(0.35 / parameter.std())
    return Bundle(model, encoder, decoder)


def tell_languages(directory: Path, source: str, target: str) -> None:
    """Say in a model's directory what it was finetuned on, as far as its languages go."""
    record = {"recipe": {"languages": {"source": source, "target": target}}}
    (directory / "record.json").write_text(json.dumps(record), encoding="utf-8")


def separate_bundle() -> Bundle:
    return bundle_of(marian, english_tokenizer(), german_tokenizer())


def as_published_bundle() -> Bundle:
    """A Marian whose padding comes last, and is not a row of zeros."""
    shared = joint_tokenizer()
    bundle = bundle_of(lambda: build_marian(shared, shared, seed=2, **SHAPE), shared, shared)
    with torch.no_grad():
        side(bundle.model, "decoder").input.weight[shared.special["pad"]] = 0.3
    return bundle


def mbart_bundle() -> Bundle:
    return bundle_of(mbart, multilingual_tokenizer(), multilingual_tokenizer())


def split_mbart_bundle() -> Bundle:
    both = multilingual_tokenizer()
    made = transplant(mbart(), {"encoder": both, "decoder": both}, {"decoder": fitted_tokenizer()}, Method("mean"))
    return bundle_of(lambda: made.model, both, fitted_tokenizer())


def m2m100_bundle() -> Bundle:
    return bundle_of(m2m100, multilingual_tokenizer(), multilingual_tokenizer())


def t5_bundle() -> Bundle:
    """As many layers on either side: by itself, transformers generates with no more of them in the decoder."""
    shared = joint_tokenizer()
    settings = T5Settings(**{**SHAPE, "encoder_layers": 2})
    return bundle_of(lambda: FAMILIES["t5"].build(settings, shared, shared, 1), shared, shared)


def t5_untied_bundle() -> Bundle:
    return bundle_of(lambda: t5(tied=False), joint_tokenizer(), joint_tokenizer())


def bart_bundle() -> Bundle:
    with tempfile.TemporaryDirectory() as folder:
        bart(Path(folder))
        return Bundle.load(folder)


def gpt2_bundle() -> Bundle:
    return bundle_of(gpt2, german_tokenizer(), german_tokenizer())


def llama_bundle() -> Bundle:
    return bundle_of(llama, german_tokenizer(), german_tokenizer())


def bert2bert_bundle() -> Bundle:
    return bundle_of(bert2bert, cased_tokenizer(), cased_tokenizer())


def split_bert2bert_bundle() -> Bundle:
    shared = cased_tokenizer()
    fitted = learn(german(400, 7), kind="wordpiece", size=200, like=shared)
    made = transplant(bert2bert(), {"encoder": shared, "decoder": shared}, {"decoder": fitted}, Method("mean"))
    return bundle_of(lambda: made.model, shared, fitted)
