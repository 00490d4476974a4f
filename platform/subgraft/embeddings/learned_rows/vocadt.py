"""VocADT: rows of new tokens as trained linear combinations of old rows (Han et al., ICLR 2025, arXiv 2410.09644).

    E' = A E        A: the adapter [size, V], E: the old embeddings [V, d]

For a seen token, the row of A selects the old token; for an unseen one, it is initialised with the mean of its
subwords. The rows of unseen tokens are trained by the model's own loss, with the model frozen; then E' replaces E. The
paper trains weights for all V old tokens. Here only old tokens that occur in the training text have weights, because V
may be 250,000.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.config.settings_base import SideName
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.initialisers.learned_embeddings import LearnedEmbeddings, origin
from subgraft.embeddings.learned_rows.distillation import loaded_for_text
from subgraft.embeddings.methods.vocadt import VOCADT, VocadtStage
from subgraft.embeddings.transplanting.transplant import Method, graft, initialised_sides
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import FloatTables, input_scale, side, without_dropout
from subgraft.modeling.sides import side as side_of
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.context import Context
from subgraft.training.objectives.compute.cross_entropy import linear_cross_entropy
from subgraft.training.objectives.compute.embedding_view import ModelEmbeddings, counted_states
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData, Seq2SeqLoss
from subgraft.training.objectives.compute.translation import Translation
from subgraft.training.progress import Selection
from subgraft.training.rare_rows import count_tokens
from subgraft.training.setup import held_out_mean, is_writer, run_training, write_curve
from subgraft.training.stage import Inputs, Summary


class Adapter(nn.Module):
    """One side's embeddings over the new vocabulary.

    Attributes:
        tokens: int64 [K], ids of the new vocabulary's unseen tokens.
        weights: the trained difference of the K rows of A in the columns of the old tokens, which starts at zero.
            `input` applies to the input embeddings; `output` to untied output embeddings and the bias (`input`
            applies to the bias if they are tied).
    """

    tokens: Tensor

    def __init__(self, bundle: Bundle, name: SideName, target: Tokenizer, old_tokens: Collection[int]) -> None:
        super().__init__()
        upstream, source = side(bundle.model, name), bundle.tokenizers[name]
        old, initial = FloatTables.of(upstream), graft(bundle.model, name, source, target, Method("mean")).tables
        self.register_buffer("tokens", torch.tensor(align(source, target).unseen, dtype=torch.long), persistent=False)
        self._names = [part for part in ("input", "output", "bias") if getattr(initial, part) is not None]
        columns = torch.tensor(sorted(old_tokens), dtype=torch.long)
        for part in self._names:
            table: Tensor = getattr(old, part)
            self.register_buffer(f"_old_{part}", table[columns.to(table.device)], persistent=False)
            self.register_buffer(f"_initial_{part}", getattr(initial, part).detach().clone(), persistent=False)
        self._bias_weights = "input" if upstream.tied else "output"
        shape = len(self.tokens), len(columns)
        self.weights = nn.ParameterDict(
            {part: nn.Parameter(torch.zeros(shape)) for part in self._names if part != "bias"}
        )

    def forward(self) -> dict[str, Tensor]:
        """The current embeddings: `input` [size, d]; `output` [size, d] unless it is tied; `bias` [size]."""
        tables: dict[str, Tensor] = {}
        for part in self._names:
            initial: Tensor = getattr(self, f"_initial_{part}")
            old: Tensor = getattr(self, f"_old_{part}")
            weights = self.weights[part if part in self.weights else self._bias_weights]
            with torch.autocast(old.device.type, enabled=False):  # thousands of rows with small weights are summed
                added = (weights @ old).reshape(-1, *initial.shape[1:])
            tables[part] = initial.index_add(0, self.tokens, added.to(initial.dtype))
        return tables

    @torch.no_grad()
    def rows(self) -> dict[str, Tensor]:
        """The rows of the K unseen tokens in each table, in fp32, with the adapter merged."""
        return {part: table[self.tokens].float().cpu() for part, table in self().items()}


class AdaptedTables:
    """An embedding view: the adapters' embeddings on sides that have one, the model's own on others."""

    def __init__(self, model: PreTrainedModel, tables: Mapping[SideName, Mapping[str, Tensor]]) -> None:
        self._model, self._own, self._tables = model, ModelEmbeddings(model), tables

    def extends(self, name: SideName) -> bool:
        return name in self._tables

    def read(self, name: SideName, ids: Tensor) -> dict[str, Tensor]:
        if name not in self._tables:
            return self._own.read(name, ids)
        scale = input_scale(self._model, side(self._model, name))
        return {"inputs_embeds": F.embedding(ids, self._tables[name]["input"]) * scale}

    def cross_entropy(self, states: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
        if "decoder" not in self._tables:
            return self._own.cross_entropy(states, labels, label_smoothing)
        tables = self._tables["decoder"]
        decoder = side(self._model, "decoder")
        counted, gold = counted_states(states, labels, decoder)
        output = tables.get("output", tables["input"])
        return linear_cross_entropy(counted, output, tables.get("bias"), gold, label_smoothing, decoder.cap)


class VocadtLoss(nn.Module):
    """The model's own loss on text in the new vocabularies; only adapters are trained.

    Sides that share their embeddings and get the same vocabulary share one adapter.

    Args:
        old_tokens: By side, ids of the old tokens whose embeddings are mixed.
    """

    def __init__(
        self,
        bundle: Bundle,
        target: Mapping[SideName, Tokenizer],
        old_tokens: Mapping[SideName, Collection[int]],
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        sides = sorted(initialised_sides(bundle.model, target))
        if len(sides) < len(target):
            old_tokens = {"decoder": {*old_tokens["encoder"], *old_tokens["decoder"]}}
        adapters = {name: Adapter(bundle, name, target[name], old_tokens[name]) for name in sides}
        self.adapters = nn.ModuleDict({str(name): adapter for name, adapter in adapters.items()})
        self._sides: dict[SideName, str] = {name: name if name in adapters else "decoder" for name in target}
        self.loss = Seq2SeqLoss(without_dropout(bundle.model.requires_grad_(False)), label_smoothing)

    @property
    def model(self) -> PreTrainedModel:
        return self.loss.model

    def forward(self, batch: Any) -> dict[str, Tensor]:
        tables = {name: adapter() for name, adapter in self.adapters.items()}
        embedding_view = AdaptedTables(self.model, {name: tables[of] for name, of in self._sides.items()})
        states = self.loss.states(batch, embedding_view).top
        return {"loss": embedding_view.cross_entropy(states, batch.labels, self.loss.label_smoothing)}

    def adapter(self, name: SideName) -> Adapter:
        """The adapter of a side's tables."""
        return self.adapters[self._sides[name]]  # type: ignore[return-value]


def run(stage: VocadtStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    bundle, corpus = loaded_for_text(stage, inputs), Corpus.open(inputs["corpus"], context.cache)
    stage = with_named_precision(stage, bundle.model, context)
    target = {name: Tokenizer.load(inputs[f"vocabulary/{name}"]) for name in stage.sides}
    origins = {name: origin(side_of(bundle.model, name), bundle.tokenizers[name]) for name in stage.sides}
    train = corpus.pairs_or_text("train").evenly_spaced(stage.max_train_examples)
    old_tokens: dict[SideName, set[int]] = {}  # which occur in the text
    for name in stage.sides:
        texts = [pair[0 if name == "encoder" else 1] for pair in train]
        old_tokens[name] = set(np.flatnonzero(count_tokens(bundle.tokenizers[name], texts)).tolist())
    module = VocadtLoss(bundle, target, old_tokens, stage.training.label_smoothing)
    trainable = {str(name): len(module.adapter(name).tokens) for name in stage.sides}
    summary: Summary = {"steps": 0, "trainable": trainable}
    if any(trainable.values()):
        dev = corpus.pairs_or_text("dev")[: stage.training.dev_sentences]
        text, held_out = (_examples(stage, bundle, target, pairs) for pairs in (train, dev))
        summary |= {"pairs": len(text.lengths), "old_tokens": {str(name): len(ids) for name, ids in old_tokens.items()}}
        summary |= _fit(module, text, held_out, stage, out, context)
    for name in stage.sides if is_writer() else ():
        adapter = module.adapter(name)
        rows = adapter.rows()
        # Only a decoder has other rows than input embeddings.
        others = {part: table for part, table in rows.items() if part != "input"} if name == "decoder" else {}
        tokens = adapter.tokens.cpu()
        learned = LearnedEmbeddings(target[name], tokens, rows["input"], *origins[name], VOCADT.name, others)
        learned.save(out / name)
    return summary


def _examples(
    stage: VocadtStage, bundle: Bundle, target: Mapping[SideName, Tokenizer], pairs: Sequence[tuple[str, str]]
) -> Seq2SeqData:
    """The pairs as examples for a model with the new vocabularies."""
    encoder, decoder = target.get("encoder", bundle.encoder), target.get("decoder", bundle.decoder)
    changed, training = replace(bundle, encoder=encoder, decoder=decoder), stage.training
    form = changed.sequence_format(stage.languages)
    examples = Translation(pairs, changed.encoder, changed.decoder, form, training.max_length, training.batch_unit)
    return Seq2SeqData(examples, *changed.padding)


def _fit(
    module: VocadtLoss, text: Seq2SeqData, held_out: Seq2SeqData, stage: VocadtStage, out: Path, context: Context
) -> Summary:
    """Train, and select the weights that predict held-out pairs best; the summary has the first and best loss."""
    evaluate, select = None, None
    if len(held_out.lengths):
        evaluate = held_out_mean(module, held_out, stage.training, "loss")
        select = Selection("loss", lower_is_better=True)
    outcome = run_training(
        module,
        {"loss": 1.0},
        text,
        stage.training,
        context,
        group="vocadt_training",
        seed=stage.seed,
        evaluate=evaluate,
        select=select,
    )
    losses = [point.values["loss"] for point in outcome.curve]
    return write_curve(outcome, out) | ({"loss_before": losses[0], "loss_best": min(losses)} if losses else {})
