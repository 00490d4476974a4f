"""Likelihood matching: trains new tokens' rows to match the likelihood of text (Minixhofer et al., arXiv 2503.20083).

The frozen model reads a sentence in the old segmentation (teacher) and in the new one (student). The likelihoods of the
smallest spans on which both segmentations agree are matched, by training only the new tokens' input and output rows.
The text is references, or the model's own translations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from subgraft.config.settings_base import SideName, Split
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.initialisers.learned_embeddings import LearnedEmbeddings, origin
from subgraft.embeddings.learned_rows.distillation import Pairs, fit_rows, loaded_for_text
from subgraft.embeddings.learned_rows.segmentation_pairs import SegmentedText, Sentence
from subgraft.embeddings.methods.likelihood_matching import LikelihoodMatchingSettings, LikelihoodMatchingStage
from subgraft.embeddings.transplanting.transplant import Method, graft
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.heads import require_token_head
from subgraft.modeling.sides import decoder_states_from_memory, encoder_states, input_scale, without_dropout
from subgraft.modeling.sides import side as side_of
from subgraft.subwords.similar_tokens.token_subwords import spellable_unseen_tokens
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.chunked_translation import Search, translate_in_chunks
from subgraft.training.context import Context, Json
from subgraft.training.objectives.compute.cross_entropy import linear_log_likelihood
from subgraft.training.objectives.compute.embedding_view import counted_states
from subgraft.training.objectives.compute.seq2seq import Seq2SeqBatch
from subgraft.training.setup import is_writer
from subgraft.training.stage import Inputs, Summary


@dataclass(frozen=True)
class SpanBatch:
    """Sentences in the decoder's old vocabulary (teacher) and its new one (student), with n spans.

    Spans are in the order of the sentences and cover all labels; each special token is a span of its own.

    Attributes:
        teacher: the batch in the old vocabulary.
        student: the batch in the new vocabulary.
        before: int64 [n], the teacher's labels of each span.
        after: int64 [n], the student's labels of each span.
        known: bool [n], spans without unknown tokens in either segmentation.
        inner: bool [n], spans that are followed by more text.
    """

    teacher: Seq2SeqBatch
    student: Seq2SeqBatch
    before: Tensor
    after: Tensor
    known: Tensor
    inner: Tensor

    @property
    def counts(self) -> dict[str, int]:
        return {"matching": int(self.known.sum())}

    @property
    def shape(self) -> tuple[int, int]:
        return max(self.teacher.shape, self.student.shape)

    def to(self, device: torch.device | str) -> SpanBatch:
        return SpanBatch(*(getattr(self, field.name).to(device) for field in fields(self)))


class _Span(NamedTuple):
    before: int
    after: int
    known: bool
    inner: bool


class SpanPairs(SegmentedText):
    """Batches of spans of the decoder's text. Sentences are selected as for Token Distillation."""

    def _compared_positions(
        self, before: int, after: list[int], agreeing: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """The last labels of spans; empty for a sentence without new tokens."""
        if self._new.isdisjoint(after):
            return []
        return agreeing + [(before + i, len(after) + i) for i in range(len(self._before.target_ending))]

    def _spans(self, sentence: Sentence) -> list[_Span]:
        # The special token at the beginning of every target is also a label.
        old_unknown, new_unknown = (tokenizer.special.get("unk", -1) for tokenizer in self._tokenizers[1:])
        spans, start_before, start_after = [_Span(1, 1, True, True)] * self._before.target_begins, 0, 0
        for last_before, last_after in sentence.agreeing:
            tokens_before, tokens_after = (
                sentence.before[start_before : last_before + 1],
                sentence.after[start_after : last_after + 1],
            )
            known = old_unknown not in tokens_before and new_unknown not in tokens_after
            inner = last_before < len(sentence.before)
            spans.append(_Span(last_before + 1 - start_before, last_after + 1 - start_after, known, inner))
            start_before, start_after = last_before + 1, last_after + 1
        return spans

    @property
    def spans(self) -> tuple[int, int]:
        """The number of spans, and of those with unknown tokens, whose likelihood is not that of their text."""
        known = [span.known for sentence in self._sentences for span in self._spans(sentence)]
        return len(known), known.count(False)

    def batch(self, indices: np.ndarray, epoch: int) -> SpanBatch:
        """The sentences at `indices`, the same in every epoch."""
        del epoch
        sentences = [self._sentences[int(i)] for i in indices]
        spans = [span for sentence in sentences for span in self._spans(sentence)]
        before, after, known, inner = (torch.tensor(column) for column in zip(*spans, strict=True))
        return SpanBatch(*self._collate_both(sentences), before, after, known, inner)


# Added to the surprisal of a span, in nats, because the divergence of a span of probability 1 would be infinite.
_EPSILON = 1e-6


@dataclass(frozen=True)
class StudentTables:
    """The decoder's tables over the new vocabulary before training, initialised by another method.

    Attributes:
        tables: input [V, d]; output [V, d] unless it is tied; bias [V] if there is one.
        tokens: ids of the tokens to train: unseen ones, except those that the teacher reads as unknown.
    """

    tables: dict[str, Tensor]
    tokens: tuple[int, ...]

    @classmethod
    @torch.no_grad()
    def of(cls, bundle: Bundle, target: Tokenizer, start: Method) -> StudentTables:
        """Initialise by `start`. Raises UserError if its generator was trained for another model."""
        initialised = graft(bundle.model, "decoder", bundle.decoder, target, start).tables
        named = {"input": initialised.input, "output": initialised.output, "bias": initialised.bias}
        tables = {name: table.detach() for name, table in named.items() if table is not None}
        return cls(tables, spellable_unseen_tokens(bundle.decoder, target))


class LikelihoodMatchingLoss(nn.Module):
    """The loss of a batch. Its parameters are added to the rows of the K new tokens and start at zero.

    added: `input` [K, d]; `output` [K, d] unless it is tied; `bias` [K] if there is one.
    """

    def __init__(
        self, bundle: Bundle, target: Tokenizer, start: StudentTables, settings: LikelihoodMatchingSettings
    ) -> None:
        super().__init__()
        self.model = without_dropout(bundle.model.requires_grad_(False))
        self.embed_scale = input_scale(self.model, side_of(bundle.model, "decoder"))
        self.register_buffer("_tokens", torch.tensor(start.tokens, dtype=torch.long), persistent=False)
        self.added = nn.ParameterDict()
        for name, table in start.tables.items():
            self.register_buffer(f"_{name}", table, persistent=False)
            self.added[name] = nn.Parameter(torch.zeros(len(start.tokens), *table.shape[1:]))
        self._settings = settings
        rows, merging = len(side_of(bundle.model, "decoder").input.weight), settings.boundary_threshold is not None
        for reader, begins in (("teacher", begins_word(bundle.decoder, rows)), ("student", begins_word(target))):
            self.register_buffer(f"_{reader}_begins", begins if merging else None, persistent=False)

    def forward(self, batch: SpanBatch) -> dict[str, Tensor]:
        """The sum of divergences over (merged) spans."""
        likelihoods = self.span_likelihoods(batch)
        divergence = binarised_divergence(likelihoods.teacher, likelihoods.student, self._settings.temperature)
        return {"matching": torch.where(likelihoods.counted, divergence, 0.0).sum()}

    def span_likelihoods(self, batch: SpanBatch) -> SpanLikelihoods:
        """The likelihoods of the batch's spans, in their order.

        With a boundary threshold, spans are merged until the teacher's probability of a word start exceeds it, and the
        likelihood includes that a word starts. The merged spans come first.
        """
        with torch.no_grad():
            source, mask = batch.teacher.input_ids, batch.teacher.attention_mask
            memory = encoder_states(self.model, input_ids=source, attention_mask=mask)
            teacher = _span_likelihoods(*self._teacher(batch.teacher, memory), batch.before, batch.inner)
        student = _span_likelihoods(*self._student(batch.student, memory), batch.after, batch.inner)
        if self._settings.boundary_threshold is None:
            return SpanLikelihoods(teacher[0], student[0], batch.known)
        closes = ~batch.inner | (teacher[1] > math.log(self._settings.boundary_threshold))
        merged_index = closes.cumsum(0) - closes.long()
        teacher_sums, student_sums = (
            _sum_by_index(of + torch.where(closes, after, 0.0), merged_index) for of, after in (teacher, student)
        )
        return SpanLikelihoods(teacher_sums, student_sums, _sum_by_index((~batch.known).float(), merged_index) == 0)

    def _teacher(self, batch: Seq2SeqBatch, memory: Tensor) -> tuple[Tensor, Tensor]:
        decoder = side_of(self.model, "decoder")
        assert decoder.output is not None
        states = decoder_states_from_memory(self.model, memory, batch.attention_mask, input_ids=batch.decoder_input_ids)
        bias = None if decoder.bias is None else decoder.bias.reshape(-1)
        return self._token_likelihoods(states, batch.labels, decoder.output.weight, bias, "teacher")

    def _student(self, batch: Seq2SeqBatch, memory: Tensor) -> tuple[Tensor, Tensor]:
        tables = self.student_tables()
        embedded = F.embedding(batch.decoder_input_ids, tables["input"]) * self.embed_scale
        states = decoder_states_from_memory(self.model, memory, batch.attention_mask, inputs_embeds=embedded)
        output = tables.get("output", tables["input"])
        return self._token_likelihoods(states, batch.labels, output, tables.get("bias"), "student")

    def _token_likelihoods(
        self, states: Tensor, labels: Tensor, output: Tensor, bias: Tensor | None, reader: str
    ) -> tuple[Tensor, Tensor]:
        """Log-likelihoods of each label that is not IGNORED, and of a word start in its place, if needed."""
        decoder = side_of(self.model, "decoder")
        counted, gold = counted_states(states, labels, decoder)
        return linear_log_likelihood(counted, output, bias, gold, getattr(self, f"_{reader}_begins"), decoder.cap)

    def student_tables(self) -> dict[str, Tensor]:
        """The current tables over the new vocabulary, with the trained differences added."""
        tokens: Tensor = self._tokens  # type: ignore[assignment]
        started = {name: getattr(self, f"_{name}") for name in self.added}
        return {name: start.index_add(0, tokens, self.added[name].to(start.dtype)) for name, start in started.items()}

    @torch.no_grad()
    def trained(self) -> tuple[Tensor, dict[str, Tensor]]:
        """Ids [K] of the trained tokens, and their rows by table, in fp32.

        All of them are returned, because the softmax trains the output rows of tokens that the text lacks, too.
        """
        tokens: Tensor = self._tokens.cpu()  # type: ignore[assignment]
        return tokens, {name: table.float().cpu()[tokens] for name, table in self.student_tables().items()}


class SpanLikelihoods(NamedTuple):
    """Log-likelihoods [n] of spans under both vocabularies, in nats, and the spans that count [n]."""

    teacher: Tensor
    student: Tensor
    counted: Tensor


def binarised_divergence(teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
    """KL divergence [n] over two events, this text or any other, from log-likelihoods [n].

    With likelihoods p and q to the power of 1/τ it is τ (p log(p/q) + (1-p) log((1-p)/(1-q))). The factor τ is not in
    the paper. For large τ the limit is x log(x/y) - x + y, with the surprisals x = -log p and y = -log q at τ = 1.
    """
    x, y = (_EPSILON - likelihood.float() / temperature for likelihood in (teacher, student))
    others = torch.log(torch.expm1(-x) / torch.expm1(-y))
    return temperature * (torch.exp(-x) * (y - x) - torch.expm1(-x) * others)


def begins_word(tokenizer: Tokenizer, rows: int | None = None) -> Tensor:
    """Bool [V], the tokens that start a word or end the sentence."""
    begins = torch.zeros(len(tokenizer) if rows is None else rows, dtype=torch.bool)
    ids = [token for token, entry in enumerate(tokenizer.entries) if entry is not None and entry.word_initial]
    ids += [token for token, piece in enumerate(tokenizer.pieces) if piece == tokenizer.mark.value]
    begins[[*ids, tokenizer.special["eos"]]] = True
    return begins


def _span_likelihoods(tokens: Tensor, word_starts: Tensor, lengths: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
    """Log-likelihoods [n] of spans, and of a word start after each; the latter is zero at the end of a text."""
    index = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
    following = lengths.cumsum(0).clamp(max=len(tokens) - 1)
    return _sum_by_index(tokens, index, len(lengths)), torch.where(inner, word_starts[following], 0.0)


def _sum_by_index(values: Tensor, index: Tensor, count: int | None = None) -> Tensor:
    """Sum the values of equal `index`; the result has `count` elements, by default as many as values."""
    return values.new_zeros(len(values) if count is None else count).index_add(0, index, values)


# The side whose tokens are predicted.
MATCHED_SIDE: SideName = "decoder"


def match_likelihood(stage: LikelihoodMatchingStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    bundle, corpus = loaded_for_text(stage, inputs), Corpus.open(inputs["corpus"])
    require_token_head(bundle.model)
    stage = with_named_precision(stage, bundle.model, context)
    target = Tokenizer.load(inputs[f"vocabulary/{MATCHED_SIDE}"])
    # Copy the initial rows before translation or training moves the model to a GPU.
    start = StudentTables.of(bundle, target, Method(stage.starts_from, inputs.get("generator"), stage.max_similar))
    row_origin = origin(side_of(bundle.model, MATCHED_SIDE), bundle.decoder)
    text, cost = _training_pairs(stage, bundle, corpus, context)
    additional = list(Corpus.open(inputs["synthetic"]).pairs("train")) if "synthetic" in inputs else []
    data = _spans(stage, bundle, target, start, text["train"], stage.matching.sentences_per_token, additional)
    held_out = _spans(stage, bundle, target, start, text["dev"])
    module = LikelihoodMatchingLoss(bundle, target, start, stage.matching)
    trained: Summary = {"steps": 0}
    if len(data):
        training, measures = "likelihood_matching_training", {"loss": "matching", "measured": "divergence"}
        trained = fit_rows(module, data, held_out, stage, out, context, group=training, part=MATCHED_SIDE, **measures)
    tokens, rows = module.trained()
    if is_writer():
        learnt = LearnedEmbeddings(target, tokens, rows.pop("input"), *row_origin, "likelihood-matching", rows)
        learnt.save(out / MATCHED_SIDE)
    spans, unknown = data.spans
    counts: dict[str, Json] = {"trainable": len(tokens), "in_text": len(data.tokens), "sentences": len(data)}
    return {MATCHED_SIDE: trained | counts | {"spans": spans, "unknown_spans": unknown} | cost}


def _training_pairs(
    stage: LikelihoodMatchingStage, bundle: Bundle, corpus: Corpus, context: Context
) -> tuple[dict[Split, Pairs], dict[str, Json]]:
    """Pairs to train on and held-out ones, and the cost of making them. References are read only if configured."""
    text: dict[Split, Pairs] = {}
    cost = {"translation_seconds": 0.0, "translated": 0, "cut_translations": 0}
    for split in ("train", "dev"):
        max_pairs = stage.training.dev_sentences if split == "dev" else None
        if stage.matching.text == "references":
            text[split] = list(corpus.pairs_or_text(split))[:max_pairs]
            continue
        sources = list(corpus.lines(split, "source"))[:max_pairs]
        translations = translate_in_chunks(
            bundle, sources, stage.languages, Search(stage.matching.beam), context, split
        )
        text[split] = list(zip(sources, translations.texts, strict=True))
        cost["translation_seconds"] += translations.seconds
        cost["translated"] += len(sources)
        cost["cut_translations"] += translations.unfinished
    return text, {} if stage.matching.text == "references" else {**cost}


def _spans(
    stage: LikelihoodMatchingStage,
    bundle: Bundle,
    target: Tokenizer,
    start: StudentTables,
    pairs: Pairs,
    per_token: int | None = None,
    additional: Sequence[tuple[str, str]] = (),
) -> SpanPairs:
    languages, training, new = stage.languages, stage.training, start.tokens
    return SpanPairs(pairs, bundle, MATCHED_SIDE, target, languages, training, new, per_token, stage.seed, additional)
