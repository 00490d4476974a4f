"""An ERNIE 3 with a memory of documents, of both of its branches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from permuted import ENGLISH, documents
from subgraft.config.training import PretrainSettings
from subgraft.contrib.ernie3.recurrence import RecurrentObjective
from subgraft.contrib.ernie3.settings import BranchedSettings
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES
from subgraft.training.objectives.causal import CausalSettings
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.mixture import MixedLoss, Mixture, objectives_of
from subgraft.training.objectives.masked import MaskedSettings
from subgraft.training.progress import BatchCallback
from subgraft.training.stream_memory import memory_of
from toys import cased_tokenizer

MEMORY = 12
BOTH = (MaskedSettings(input="doc-sentences", memory_tokens=MEMORY), CausalSettings(memory_tokens=MEMORY))
SIZES: dict[str, Any] = {
    "d_model": 16,
    "layers": 2,
    "attention_heads": 2,
    "ffn_dim": 24,
    "max_positions": 64,
    "branch_layers": 1,
    "branch_width": 8,
    "branch_heads": 4,
    "branch_ffn_dim": 12,
}


def branched(seed: int = 1, dropout: float = 0.0) -> Any:
    """With weights that are large enough to distinguish tokens and distances."""
    tokenizer = cased_tokenizer()
    model: Any = FAMILIES["branched"].build(BranchedSettings(**SIZES, dropout=dropout), tokenizer, tokenizer, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def request(corpus: Corpus, model: Any = None, **training: Any) -> ObjectiveInputs:
    """For batches of several streams of blocks of 40 tokens."""
    bundle = Bundle(model or branched(), cased_tokenizer(), cased_tokenizer())
    defaults = {"epochs": 3, "batch_size": 160, "max_length": 40, "learning_rate": 0.01, "warmup_steps": 2}
    return ObjectiveInputs(bundle, corpus, ENGLISH, PretrainSettings(**(defaults | training)), seed=3)


def recurrent(corpus: Corpus, kind: str, model: Any = None, **training: Any) -> RecurrentObjective:
    """One of both objectives."""
    made = objectives_of([each for each in BOTH if each.kind == kind], request(corpus, model, **training))[kind]
    assert isinstance(made, RecurrentObjective)
    return made


class Remembered(Mixture):
    """A mixture with the memories of its objectives."""

    memory: BatchCallback


def recurrent_mixture(corpus: Corpus, dropout: float = 0.0) -> tuple[MixedLoss, Remembered]:
    """Both objectives in turn."""
    asked = request(corpus, branched(dropout=dropout))
    objectives = objectives_of(BOTH, asked)
    data = Remembered(objectives, dict.fromkeys(objectives, 1.0))
    memory = memory_of(objectives)
    assert memory is not None
    data.memory = memory
    return MixedLoss(asked.bundle.model, {kind: each.loss(0.1) for kind, each in objectives.items()}), data


def some_documents(place: Path) -> Corpus:
    """Documents of several blocks."""
    return documents(place, 10, 12)
