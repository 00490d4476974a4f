"""PretrainedModel, Corpus and Vocabulary → LearnedEmbeddings: new tokens as a decoder reads and predicts them.

A decoder asks two things of a new token t with old pieces a b c. As input, the row r(t) should be read as the pieces
were: it is trained, with the model frozen, so that the state h' after the first layers at t is the state h at c in the
old segmentation, by the relative distance |h' - h| / |h|. As output, t should be predicted where a b c were, and a
should keep the rest of its probability. That is a convex problem in the output rows O, as the frozen model's states s
before each token y of the new segmentation, which are read in the old one, do not depend on them:

    minimise  1/N Σ -log softmax([E; O] s)[y] + 1/N Σ_t w(t) |O(t) - O'(t)|²

Old rows E stay, so their part of the softmax is computed once, and no gradient goes through the model. A part of the
text is other text, in which few new tokens occur: else they would take probability from what the model writes there.

Untied output rows start as those of the first pieces, O' = E(a), and w = 1. Tied rows must serve both: O' = r(t), and
w(t) = stiffness (n(t) + 1) for n(t) occurrences, so that a frequent token does not move further from what it is read as
than a rare one. Measured on SmolLM2: docs/measurements/pretrained-language-model.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.initialisers.learned_embeddings import LearnedEmbeddings
from subgraft.embeddings.learned_rows.distillation import Compared, Pairs, distil_in, loaded_for_text
from subgraft.embeddings.learned_rows.likelihood_matching import StudentTables
from subgraft.embeddings.learned_rows.segmentation_pairs import SegmentationPairs
from subgraft.embeddings.learned_rows.token_distillation_loss import TokenDistillationLoss
from subgraft.embeddings.methods.fitted import FITTED, FittedStage
from subgraft.embeddings.methods.token_distillation import TokenDistillationSettings
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of
from subgraft.modeling.families.family import softcap
from subgraft.modeling.heads import require_token_head
from subgraft.modeling.precision import autocast
from subgraft.modeling.sides import decoder_states_from_memory, encoder_states
from subgraft.modeling.sides import side as side_of
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.context import Context, Json
from subgraft.training.objectives.compute.embedding_view import IGNORED, counted_states
from subgraft.training.setup import device, is_writer
from subgraft.training.stage import Inputs, Summary

ITERATIONS = 40
_SENTENCES = 16  # whose states are computed at once
_STATES = 4096  # whose logits are


class NewTokenPairs(SegmentationPairs):
    """Batches of sentences with the positions of new tokens, and those of their last pieces."""

    def _compared_positions(
        self, before: int, after: list[int], agreeing: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        leading = self._leading_tokens
        return [(old + leading, new + leading) for old, new in agreeing if after[new] in self._new]


class PredictedPairs(SegmentationPairs):
    """Batches of sentences with all positions after which both segmentations have read the same."""

    def _compared_positions(
        self, before: int, after: list[int], agreeing: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        return self._all_positions(before, after, agreeing)


def learn_and_fit(stage: FittedStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    settings, bundle = stage.distillation, loaded_for_text(stage, inputs)
    stage = with_named_precision(stage, bundle.model, context)
    layers = family_of(bundle.model).layers(bundle.model.config.to_dict(), "decoder")
    read_as = TokenDistillationSettings(
        sentences_per_token=settings.sentences_per_token,
        layer=max(1, round(settings.depth * layers)),
        distance="relative",
    )
    distilling = stage.model_copy(update={"distillation": read_as})
    compared = Compared(FITTED, NewTokenPairs, TokenDistillationLoss)
    summary = distil_in(bundle, distilling, compared, inputs, out, context)
    learned, fit = _fit(stage, inputs, out / "decoder", context)
    if is_writer():
        learned.save(out / "decoder")
    return summary | {"fit": fit}


def _fit(stage: FittedStage, inputs: Inputs, distilled: Path, context: Context) -> tuple[LearnedEmbeddings, Summary]:
    """The embeddings of all new tokens, and the mean loss before and after."""
    bundle, target = loaded_for_text(stage, inputs), Tokenizer.load(inputs["vocabulary/decoder"])
    require_token_head(bundle.model)
    start, learned = StudentTables.of(bundle, target, Method("mean")), LearnedEmbeddings.load(distilled)
    start.tables["input"][learned.tokens] = learned.rows.to(start.tables["input"].dtype)
    tokens = torch.tensor(start.tokens, dtype=torch.long)
    read_as = start.tables["input"][tokens].float()
    states, labels = _predictions(stage, bundle, target, inputs, start.tokens, context)
    problem = OutputProblem.of(bundle, target, start, states, labels)
    if "output" not in start.tables:
        counts = torch.bincount(problem.row[problem.row >= 0], minlength=len(tokens))
        rows, losses = problem.solve(read_as, stage.distillation.stiffness * (counts + 1.0))
        fitted = replace(learned, tokens=tokens, rows=rows)
    else:
        rows, losses = problem.solve(_first_pieces(bundle, target, start), torch.ones(len(tokens)))
        fitted = replace(learned, tokens=tokens, rows=read_as, others={"output": rows})
    figures: dict[str, Json] = {"loss_before": losses[0], "loss_after": losses[1], "labels": len(labels)}
    return fitted, figures


def _first_pieces(bundle: Bundle, target: Tokenizer, start: StudentTables) -> Tensor:
    """The output rows [K, d] of the first pieces of new tokens."""
    output = side_of(bundle.model, "decoder").output
    assert output is not None
    entries = [entry for token in start.tokens if (entry := target.entries[token]) is not None]
    first = [pieces[0] for pieces in bundle.decoder.segment_batch(entries)]
    return output.weight.detach()[torch.tensor(first, dtype=torch.long)].float()


@torch.no_grad()
def _predictions(
    stage: FittedStage, bundle: Bundle, target: Tokenizer, inputs: Inputs, new: Sequence[int], context: Context
) -> tuple[Tensor, Tensor]:
    """The frozen model's states [N, d] before tokens of the new segmentation, and these tokens [N], on the CPU."""
    settings, model = stage.distillation, bundle.model
    model.to(device())  # type: ignore[arg-type]
    pairs = _some(Corpus.open(inputs["corpus"]), settings.characters, stage.seed)
    if "other" in inputs:
        pairs += _some(Corpus.open(inputs["other"]), round(settings.other_share * settings.characters), stage.seed)
    data = PredictedPairs(pairs, bundle, "decoder", target, stage.languages, stage.training, new)
    decoder, order = side_of(model, "decoder"), np.argsort(data.lengths, kind="stable")
    states, labels = list[Tensor](), list[Tensor]()
    model.train(False)
    for number, indices in enumerate(np.array_split(order, max(1, -(-len(order) // _SENTENCES)))):
        context.progress(number * _SENTENCES, len(order), "sentences")
        batch = data.batch(indices, 0).to(device())
        before = batch.teacher
        ids, mask, written = before.input_ids, before.attention_mask, before.decoder_input_ids
        with autocast(device(), stage.training.precision):
            memory = encoder_states(model, input_ids=ids, attention_mask=mask)
            read = decoder_states_from_memory(model, memory, mask, input_ids=written)
        # The next token of the new segmentation at positions of the old one where both have read the same.
        sentence, old, after = batch.agreeing.unbind(dim=1)
        next_tokens = torch.full_like(before.labels, IGNORED)
        next_tokens[sentence, old] = batch.student.labels[sentence, after]
        some_states, some_labels = counted_states(read, next_tokens, decoder)
        states.append(some_states.float().cpu())
        labels.append(some_labels.cpu())
    return torch.cat(states), torch.cat(labels)


def _some(corpus: Corpus, characters: int, seed: int) -> Pairs:
    """Training pairs, or lines of a text, of about so many characters in an order of the seed."""
    pairs, taken, chosen = list(corpus.pairs_or_text("train")), 0, Pairs()
    for index in np.random.default_rng([seed, len(pairs)]).permutation(len(pairs)).tolist():
        if taken >= characters:
            break
        chosen.append(pairs[index])
        taken += len(pairs[index][1])
    return chosen


@dataclass(frozen=True)
class OutputProblem:
    """Fit output rows of new tokens to states [N, d] and labels [N]; old rows stay.

    Attributes:
        states: The states [N, d] before the labels.
        old_sum: The logarithm of the sum of the exponentials of all old logits [N].
        old_label: The logit of each old label [N]; of a new one any number.
        row: The row of each new label [N], -1 for an old one.
        bias: Of new rows [K].
        cap: c if logits x become c * tanh(x / c).
    """

    states: Tensor
    old_sum: Tensor
    old_label: Tensor
    row: Tensor
    bias: Tensor
    cap: float | None

    @classmethod
    @torch.no_grad()
    def of(
        cls, bundle: Bundle, target: Tokenizer, start: StudentTables, states: Tensor, labels: Tensor
    ) -> OutputProblem:
        """The problem of a model and a new vocabulary. Labels that are neither old nor learnt are left out."""
        decoder = side_of(bundle.model, "decoder")
        assert decoder.output is not None
        origins = torch.from_numpy(align(bundle.decoder, target).origins)
        old = (origins >= 0).nonzero().flatten()
        weight = decoder.output.weight.detach().float().cpu()[origins[old]]
        bias = 0 if decoder.bias is None else decoder.bias.detach().float().cpu().reshape(-1)[origins[old]]
        old_place, row = _places(len(target), old), _places(len(target), torch.tensor(start.tokens))
        known = (old_place[labels] >= 0) | (row[labels] >= 0)
        states, labels = states[known], labels[known]
        sums, own = list[Tensor](), list[Tensor]()
        for some, label in zip(_parts(states), _parts(old_place[labels]), strict=True):
            logits = softcap(some @ weight.T + bias, decoder.cap)
            sums.append(logits.logsumexp(-1))
            own.append(logits.gather(1, label.clamp(min=0)[:, None])[:, 0])
        new_bias = start.tables.get("bias", torch.zeros(len(target)))[list(start.tokens)].float()
        return cls(states, torch.cat(sums), torch.cat(own), row[labels], new_bias, decoder.cap)

    def solve(self, start: Tensor, weights: Tensor) -> tuple[Tensor, tuple[float, float]]:
        """The rows [K, d], and the mean loss with `start` and with them. weights: of each row's squared change [K]."""
        rows, count = nn.Parameter(start.clone()), max(1, len(self.states))
        optimizer = torch.optim.LBFGS([rows], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

        def closure() -> float:
            optimizer.zero_grad()
            total = 0.0
            for loss in self._losses(rows):
                (loss / count).backward()  # type: ignore[no-untyped-call]
                total += float(loss.detach()) / count
            change = (weights[:, None] * (rows - start).square()).sum() / count
            change.backward()  # type: ignore[no-untyped-call]
            return total + float(change.detach())

        optimizer.step(closure)  # type: ignore[no-untyped-call]
        return rows.detach(), (self.loss(start), self.loss(rows.detach()))

    def loss(self, rows: Tensor) -> float:
        """The mean negative log-likelihood of the labels, in nats."""
        return sum(float(loss) for loss in self._losses(rows)) / max(1, len(self.states))

    def _losses(self, rows: Tensor) -> Iterator[Tensor]:
        """The negative log-likelihood of the labels, in sums of some."""
        columns = (self.states, self.old_sum, self.old_label, self.row)
        for states, old_sum, old_label, row in zip(*map(_parts, columns), strict=True):
            logits = softcap(states @ rows.T + self.bias, self.cap)
            own = torch.where(row >= 0, logits.gather(1, row.clamp(min=0)[:, None])[:, 0], old_label)
            yield (torch.logaddexp(old_sum, logits.logsumexp(-1)) - own).sum()


def _places(size: int, ids: Tensor) -> Tensor:
    """The place of each id in `ids` [size]; -1 for others."""
    places = torch.full((size,), -1)
    places[ids] = torch.arange(len(ids))
    return places


def _parts(tensor: Tensor) -> Sequence[Tensor]:
    return torch.split(tensor, _STATES)
