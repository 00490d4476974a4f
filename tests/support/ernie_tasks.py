"""A small ERNIE on several of its objectives at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from transformers import PreTrainedModel

from documents import documents_of
from subgraft.config.corpora import Languages
from subgraft.config.training import TrainingSettings
from subgraft.contrib.ernie.objectives import CapitalisationSettings, DistanceSettings
from subgraft.contrib.ernie.settings import ErnieSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES
from subgraft.modeling.further_heads import load_weights, read_head
from subgraft.modeling.heads import with_head
from subgraft.subwords.vocabulary.learn import learn
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.mixture import MixedLoss, Mixture, objectives_of
from subgraft.training.objectives.masked import MaskedSettings
from toys import SHAPE, english, one_stack

KINDS = ("masked", "capitalisation", "sentence-distance")


def ernie_mixture(place: Path) -> tuple[MixedLoss, Mixture]:
    """Hidden words, and heads for capitals and for distances of sentences, which join at steps 0, 0 and 2."""
    lines = [line.capitalize() if at % 2 else f"{line[:-1]} Nina." for at, line in enumerate(english(160, 4))]
    corpus = documents_of(place, *(lines[at : at + 20] for at in range(0, len(lines), 20)))
    tokenizer = learn([*lines, *map(str.lower, lines)], kind="wordpiece", size=100)
    shape = one_stack(SHAPE | {"dropout": 0.0}, "encoder_layers")
    model = FAMILIES["ernie"].build(ErnieSettings(**shape, task_embeddings=3), tokenizer, tokenizer, 1)
    training = TrainingSettings(epochs=1, batch_size=160, learning_rate=0.01, warmup_steps=1, max_length=40)
    request = ObjectiveInputs(
        Bundle(model, tokenizer, tokenizer), corpus, Languages(source="en", target="en"), training, 3
    )
    settings = (MaskedSettings.model_validate({"units": [{"word": 1}]}), CapitalisationSettings(), DistanceSettings())
    objectives = objectives_of(settings, request)
    losses = {kind: objective.loss(0.0) for kind, objective in objectives.items()}
    weights = dict(zip(KINDS, (1.0, 1.0, 2.0), strict=True))
    joins = dict(zip(KINDS, (0, 0, 2), strict=True))
    assert np.all([kind in objectives for kind in KINDS])
    return MixedLoss(model, losses), Mixture(objectives, weights, joins)


def with_saved_head(model: PreTrainedModel, directory: Path, kind: str) -> PreTrainedModel:
    """The model with the head of an objective that it was pretrained with, which is read from a directory.

    The result shares the body's weights with the model. Raises UserError if the directory has no such head.
    """
    description, weights = read_head(directory, kind)
    headed = with_head(model, description["head"], description["labels"], 0)
    load_weights(headed, weights, directory)
    return headed
