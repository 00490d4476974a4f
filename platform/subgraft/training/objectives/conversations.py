"""Conversations: the assistant's turns, each token given all before it, by the model's chat template.

The tokens of the whole conversation are the input, as generation's prompts are; only an answer's tokens, its end among
them, are predicted. TRL's `assistant_only_loss` is the same. Where the template marks answers by {% generation %},
their places are the marks; else an answer is what follows the prompt before it, as the template renders both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.config.task_objectives import ChatSettings, ConversationSettings
from subgraft.config.training import FinetuneSettings, TrainingSettings
from subgraft.data.text.encoded import Sequences
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.prompts import ChatTemplate
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.causal import LineScores, padding_of, stack_nats
from subgraft.training.objectives.embedding_view import IGNORED
from subgraft.training.objectives.objective import Request, selected_examples
from subgraft.training.objectives.single_stack import StackBatch, StackExample, StackLoss, collate

Turns: TypeAlias = Sequence[Mapping[str, str]]
Learnt = Literal["all", "last"]
# So many conversations are encoded at once.
_AT_ONCE = 1024
_WHERE = "chat.template"


def template_of(tokenizer: Tokenizer) -> ChatTemplate:
    """The chat template of a model. Raises UserError if it has none, or its vocabulary cannot spell its words."""
    try:
        template = ChatTemplate.of(tokenizer, _WHERE)
    except UserError as error:
        hint = "Take an instruct model (upstream.checkpoint), or give chat.template."
        raise UserError(error.what, where=_WHERE, hint=hint) from None
    turns = [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]
    if tokenizer.special.get("unk", -1) in template.encodings([template.rendered(turns)])[0].ids:
        hint = "Set kind: byte-level-bpe, byte_fallback: true or mode: extend in downstream.vocabulary."
        what = "the vocabulary cannot spell the words or line ends of the chat template"
        raise UserError(what, where=_WHERE, hint=hint)
    return template


def with_template(bundle: Bundle, settings: ChatSettings) -> Bundle:
    """The model with the configured chat template, if there is one."""
    if settings.template is None:
        return bundle
    decoder = bundle.decoder.with_chat_template(settings.template)
    return replace(bundle, encoder=decoder, decoder=decoder)


def answer_bounds(template: ChatTemplate, turns: Turns, learnt: Learnt) -> tuple[str, list[tuple[int, int]]]:
    """The rendered conversation, and the bounds of its answers, in characters.

    Raises UserError if the template cannot be used, or renders the first turns differently when others follow.
    """
    marked = template.marked(turns)
    if marked is not None:
        return marked[0], marked[1][-1:] if learnt == "last" else marked[1]
    whole = template.rendered(turns)
    places = [place for place, turn in enumerate(turns) if turn["role"] == "assistant"]
    bounds = []
    for place in places[-1:] if learnt == "last" else places:
        before, after = template.rendered(turns[:place], prompt=True), template.rendered(turns[: place + 1])
        if not (whole.startswith(after) and after.startswith(before)):
            raise UserError(
                f"the chat template renders the first {place} turns of a conversation differently within all "
                f"{len(turns)}, so answers cannot be located",
                where=_WHERE,
                hint="Give chat.template, with {% generation %} and {% endgeneration %} around answers"
                + (", or set chat.turns: last." if learnt == "all" else "."),
            )
        bounds.append((len(before), len(after)))
    return whole, bounds


class Conversations:
    """Templated conversations, truncated to max_length tokens.

    Attributes:
        whole: which conversations are complete, not truncated [n].
        usable: which have an answer to learn within max_length tokens [n].
        left_out: how many have none, by reason.
    """

    def __init__(
        self,
        conversations: Iterable[Turns],
        template: ChatTemplate,
        learnt: Learnt,
        max_length: int,
        costs: np.ndarray | None = None,
    ) -> None:
        """costs: of each conversation in a batch [n], by default its tokens."""
        tokens, answers = list[list[int]](), list[list[int]]()
        self.left_out = Counter[str]()
        remaining = iter(conversations)
        while chunk := list(islice(remaining, _AT_ONCE)):
            for ids, places in self._encoded(chunk, template, learnt):
                tokens.append(ids)
                answers.append(places)
        self._tokens, self._answers = Sequences.of(tokens).cut(max_length), Sequences.of(answers).cut(max_length)
        self.whole = self._tokens.whole
        # The first token is predicted from none.
        self.usable = np.array([any(self._answers[place][1:]) for place in range(len(tokens))], dtype=np.bool_)
        if cut_away := int((~self.usable).sum()) - self.left_out.total():
            self.left_out["answers_cut_away"] = cut_away
        self._costs: np.ndarray = self._tokens.lengths if costs is None else costs
        self._padding = padding_of(template.tokenizer)

    def _encoded(
        self, conversations: Sequence[Turns], template: ChatTemplate, learnt: Learnt
    ) -> Iterator[tuple[list[int], list[int]]]:
        """The tokens of each conversation, and whether each is of an answer; no answers where it is left out."""
        rendered = list[tuple[str, list[tuple[int, int]]]]()
        for turns in conversations:
            if template.special_in(turns) is not None:
                self.left_out["special_token_in_text"] += 1
                rendered.append(("", []))
            else:
                rendered.append(answer_bounds(template, turns, learnt))
        encodings = template.encodings([text for text, _ in rendered])
        for encoding, (_, bounds) in zip(encodings, rendered, strict=True):
            places = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
            answers = np.zeros(len(places), dtype=np.bool_)
            for start, end in bounds:
                answers |= (places[:, 1] > start) & (places[:, 0] < end)
            yield encoding.ids, answers.tolist()

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def lengths(self) -> np.ndarray:
        return self._costs

    def example(self, index: int, epoch: int) -> StackExample:
        del epoch
        tokens, answers = self._tokens[index], self._answers[index]
        labels = [token if answer else IGNORED for token, answer in zip(tokens[1:], answers[1:], strict=True)]
        return StackExample(tokens, [*labels, IGNORED])

    def batch(self, indices: np.ndarray, epoch: int) -> StackBatch:
        return collate([self.example(int(index), epoch) for index in indices], self._padding)


def answers_of(turns: Turns, learnt: Learnt) -> str:
    """The text of the answers that are learnt, for counts of characters."""
    answers = [turn["content"] for turn in turns if turn["role"] == "assistant"]
    return "".join(answers[-1:] if learnt == "last" else answers)


class ConversationScores(LineScores):
    """Bits per character of answers and their ends."""

    def __init__(
        self, bundle: Bundle, conversations: Sequence[Turns], learnt: Learnt, training: TrainingSettings
    ) -> None:
        examples = Conversations(conversations, template_of(bundle.decoder), learnt, bundle.max_positions)
        examples.whole &= examples.usable
        lines = [answers_of(turns, learnt) for turns in conversations]
        super().__init__(bundle, lines, examples, StackLoss(bundle.model), training)


def answer_nats(
    bundle: Bundle,
    conversations: Sequence[Turns],
    learnt: Learnt,
    progress: Callable[[int, int, str], None] | None = None,
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """The index of each conversation that is not truncated, and the nats of its answers' tokens; ordered by length."""
    examples = Conversations(conversations, template_of(bundle.decoder), learnt, bundle.max_positions)
    return stack_nats(bundle, examples, examples.whole & examples.usable, progress)


class ConversationsOfTask:
    """The conversations of a task.

    left_out: how many have no answer to learn, by reason.
    """

    def __init__(self, settings: ConversationSettings, request: Request, training: FinetuneSettings) -> None:
        corpus, self._learnt, self._training = request.corpus, settings.chat.turns, training
        text, conversations = corpus.text("train", corpus.text_of("decoder")), list(corpus.conversations("train"))
        chosen = selected_examples(len(text), training, request.seed)
        places = np.arange(len(text)) if chosen is None else chosen
        costs = np.array([len(line) + 1 for line in text.take(places)]) if training.batch_unit == "characters" else None
        template = template_of(request.bundle.decoder)
        limit = min(training.max_length, request.bundle.max_positions)
        self._all = Conversations(
            (conversations[place] for place in places.tolist()), template, self._learnt, limit, costs
        )
        self.left_out: Mapping[str, int] = self._all.left_out
        self._places = np.flatnonzero(self._all.usable)
        if not len(self._places):
            reasons = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in self.left_out.items())
            hint = "Set a larger finetune.max_length, or see what the conversations hold."
            raise UserError(f"no conversation has an answer to learn ({reasons})", where="finetune", hint=hint)
        self.cut = int((~self._all.whole[self._places]).sum())
        self.texts: Mapping[SideName, Iterable[str]] = {"decoder": text.take(places[self._places])}
        self._dev = list(islice(corpus.conversations("dev"), training.dev_sentences))

    @property
    def lengths(self) -> np.ndarray:
        return self._all.lengths[self._places]

    def batch(self, indices: np.ndarray, epoch: int) -> StackBatch:
        return self._all.batch(self._places[indices], epoch)

    def loss(self, bundle: Bundle) -> StackLoss:
        return StackLoss(bundle.model, self._training.label_smoothing)

    def dev_scores(self, bundle: Bundle) -> ConversationScores:
        return ConversationScores(bundle, self._dev, self._learnt, self._training)
