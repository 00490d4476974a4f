"""Classification without finetuning: a generative model selects the class whose words are most likely.

As in ERNIE 3 (Sun et al., 2021, section 4.3), this is the candidate with the lowest perplexity per token, or the result
of a beam search that is restricted to the words of the candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.base.progress import ProgressCallback
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of
from subgraft.modeling.families.family import softcap
from subgraft.modeling.sides import side
from subgraft.training.objectives.compute.causal import collate, padding_of, shift_labels, stack_nats
from subgraft.training.objectives.compute.embedding_view import ModelEmbeddings
from subgraft.training.objectives.compute.single_stack import StackBatch, StackStates
from subgraft.training.objectives.labelled import LabelledPairsSettings, LabelledSettings, ZeroShotSettings
from subgraft.training.objectives.registry import CONTINUING_KINDS
from subgraft.training.understanding.inputs import LabelledExample
from subgraft.training.understanding.objective import task_of
from subgraft.training.understanding.sequences import BETWEEN
from subgraft.training.understanding.task import LabelledTask, Predictions, Split

# The probability of a class that no beam reaches, relative to the lowest probability of the others.
_UNREACHED_PROBABILITY = 1e-12


@dataclass
class Trie:
    """The allowed continuations. ends: the class whose words end at this node.  after: the nodes of the next tokens."""

    ends: int | None = None
    after: dict[int, Trie] = field(default_factory=dict)

    @classmethod
    def of(cls, continuations: Sequence[Sequence[int]]) -> Trie:
        """Raises ValueError for two that are equal."""
        root = cls()
        for number, tokens in enumerate(continuations):
            node = root
            for token in tokens:
                node = node.after.setdefault(token, cls())
            if node.ends is not None:
                raise ValueError(f"the classes {node.ends} and {number} have the same words")
            node.ends = number
        return root


def beam_search(next_tokens: Callable[[list[list[int]]], Tensor], trie: Trie, beams: int) -> dict[int, float]:
    """The classes that a beam search over a trie reaches, each with its mean log-likelihood per token.

    As in transformers with `prefix_allowed_tokens_fn`, likelihoods are over the whole vocabulary. A finished beam no
    longer competes, so with as many beams as classes, all classes are reached.

    Args:
        next_tokens: returns the log-likelihoods [n, V] of the token after each of n continuations.
        trie: the words of the classes.
        beams: the beam size.
    """
    finished, active = dict[int, float](), [(0.0, list[int](), trie)]
    while active:
        likelihoods = next_tokens([tokens for _, tokens, _ in active])
        extended = [
            (score + float(row[token]), [*tokens, token], node)
            for (score, tokens, parent), row in zip(active, likelihoods, strict=True)
            for token, node in parent.after.items()
        ]
        best = sorted(extended, key=lambda each: -each[0])[:beams]
        for score, tokens, node in best:
            if node.ends is not None:
                finished[node.ends] = score / len(tokens)
        active = [each for each in best if each[2].after]
    return finished


class _CandidateLines:
    """Candidates between separators, in batches."""

    def __init__(self, lines: Sequence[Sequence[int]], separator: int, padding: int) -> None:
        self._lines, self._separator, self._padding = lines, separator, padding
        self.lengths: np.ndarray = np.array([len(tokens) + 2 for tokens in lines])

    def batch(self, indices: np.ndarray, epoch: int) -> StackBatch:
        del epoch
        around = [self._separator]
        return collate([shift_labels([*around, *self._lines[int(at)], *around]) for at in indices], self._padding)


class ZeroShotResult(NamedTuple):
    """A model's predictions of a split without finetuning.

    inputs: the inputs.  outputs: the scores of all classes for each input.  nats: the mean negative log-likelihood of
    the correct class.  truncated: the number of truncated inputs.
    """

    task: LabelledTask
    classifier: ZeroShot
    inputs: list[Any]
    texts: list[str]
    outputs: list[FloatArray]
    predictions: Predictions
    nats: float
    truncated: int


def zero_shot(
    bundle: Bundle,
    objective: LabelledSettings | LabelledPairsSettings,
    corpus: Corpus,
    split: str,
    limit: int | None = None,
    progress: ProgressCallback | None = None,
) -> ZeroShotResult:
    """The predictions of a pretrained model for the first examples of a split. Raises UserError as `ZeroShot` does."""
    task, settings = task_of(objective, corpus), objective.labels.zero_shot
    assert settings is not None
    inputs = task.inputs(corpus, split, limit)
    classifier = ZeroShot(bundle, settings, task.labels)
    outputs = classifier.scores(inputs, progress)
    texts = [each if isinstance(each, str) else BETWEEN.join(each) for each in inputs]
    read = task.labelled(Split([LabelledExample(()) for _ in inputs], texts), corpus, split, limit)
    predictions = task.predictions(outputs, read)
    right = torch.from_numpy(np.stack(outputs)).log_softmax(dim=1)[np.arange(len(inputs)), read.references]
    return ZeroShotResult(
        task, classifier, inputs, texts, outputs, predictions, -float(right.mean()), classifier.truncated
    )


class ZeroShot:
    """A pretrained model as a classifier.

    truncated: the number of texts that were truncated because their candidates were too long.
    """

    def __init__(self, bundle: Bundle, settings: ZeroShotSettings, labels: Sequence[str]) -> None:
        """Raises UserError for a model that does not generate text, and for words of an unknown class."""
        family = family_of(bundle.model)
        if CONTINUING_KINDS.isdisjoint(family.objectives):
            raise UserError(
                f"labels.zero_shot: a model of the family {family.model_type} does not continue texts",
                hint="It needs a decoder, or `model: {family: branched}` with the objective causal.",
            )
        if unknown := [label for label in settings.words if label not in labels]:
            hint = f"There are: {', '.join(labels)}."
            raise UserError(f"labels.zero_shot.words: '{unknown[0]}' is not a class", hint=hint)
        self._bundle, self._settings = bundle, settings
        self._words = [settings.words.get(label, label) for label in labels]
        tokenizer, configured = bundle.decoder, bundle.model.config.bos_token_id
        self._separator = tokenizer.special["eos"] if configured is None else int(configured)
        self._padding = padding_of(tokenizer)
        self.truncated = 0

    def scores(
        self, inputs: Sequence[str | tuple[str, str]], progress: ProgressCallback | None = None
    ) -> list[FloatArray]:
        """For each text or pair of texts, a score of each class [C]: log-likelihoods per token."""
        candidates_of_inputs = [self._candidates(texts) for texts in inputs]
        if self._settings.by == "generation":
            return [self._search(candidates) for candidates in candidates_of_inputs]
        lines = _CandidateLines(list(chain.from_iterable(candidates_of_inputs)), self._separator, self._padding)
        scores = np.zeros(len(lines.lengths))
        untruncated = np.ones(len(scores), dtype=np.bool_)
        for index, nats in stack_nats(self._bundle, lines, untruncated, progress):
            scores[index] = -nats.mean()
        return list(scores.reshape(len(inputs), len(self._words)))

    def _candidates(self, texts: str | tuple[str, str]) -> list[list[int]]:
        """The tokens of the template for each class; words of the first text are dropped until all candidates fit."""
        first, second = (texts, "") if isinstance(texts, str) else texts
        room, words = self._bundle.max_positions - 2, first.split()
        remaining = len(words)
        while True:
            text = first if remaining == len(words) else " ".join(words[:remaining])
            filled = [self._settings.filled(text, second, word) for word in self._words]
            encoded = self._bundle.decoder.encode_batch(filled)
            excess = max(map(len, encoded)) - room
            if excess <= 0:
                self.truncated += remaining < len(words)
                return encoded
            if not remaining:
                raise UserError(
                    f"labels.zero_shot: the template is longer than the {room} tokens that the model takes",
                    hint="Shorten the template, or give a model of more positions.",
                )
            remaining = max(0, remaining - max(1, excess // 4))

    def _search(self, candidates: Sequence[Sequence[int]]) -> FloatArray:
        """Scores by beam search over the continuations of the prefix that all candidates share."""
        shared = 0
        while all(len(tokens) > shared and tokens[shared] == candidates[0][shared] for tokens in candidates):
            shared += 1
        prompt = [self._separator, *candidates[0][:shared]]
        trie = Trie.of([[*tokens[shared:], self._separator] for tokens in candidates])
        finished = beam_search(
            lambda continuations: self._next_tokens(prompt, continuations), trie, self._settings.beams
        )
        unreached_score = min(finished.values()) + float(np.log(_UNREACHED_PROBABILITY))
        return np.array([finished.get(number, unreached_score) for number in range(len(candidates))])

    @torch.inference_mode()
    def _next_tokens(self, prompt: Sequence[int], continuations: Sequence[Sequence[int]]) -> Tensor:
        """Log-likelihoods [n, V] of the next token after the prompt and each continuation, all of the same length."""
        model = self._bundle.model
        model.train(False)
        batch = collate([shift_labels([*prompt, *tokens]) for tokens in continuations], self._padding)
        states = StackStates(model, batch.to(next(model.parameters()).device), ModelEmbeddings(model)).top[:, -1]
        decoder: Any = side(model, "decoder")
        states = states if decoder.transform is None else decoder.transform(states)
        logits = states @ decoder.output.weight.T
        logits = logits if decoder.bias is None else logits + decoder.bias.reshape(-1)
        likelihoods: Tensor = softcap(logits, decoder.cap).float().log_softmax(dim=1).cpu()
        return likelihoods
