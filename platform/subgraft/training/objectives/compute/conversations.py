"""Finetuning on conversations: the assistant's turns are predicted, in the form of the model's chat template.

The input is the tokens of the complete conversation, rendered as generation prompts are. Only the tokens of answers and
their ends are predicted, as with TRL's `assistant_only_loss`. If the template marks answers by {% generation %}, these
marks bound them; otherwise an answer is the text that the template renders after the prompt before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from subgraft.base.errors import UserError
from subgraft.base.progress import ProgressCallback
from subgraft.base.security.chat_process import Part
from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings, TrainingSettings
from subgraft.data.text.encoded import Sequences
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.prompts import ChatTemplate
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.causal import LineScores, padding_of, stack_nats
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.interface import ObjectiveInputs, selected_examples
from subgraft.training.objectives.compute.single_stack import StackBatch, StackExample, StackLoss, collate
from subgraft.training.objectives.conversations import ChatSettings, ConversationSettings

Turns: TypeAlias = Sequence[Mapping[str, str]]
Learnt = Literal["all", "last"]
# The number of conversations that are encoded at a time.
_AT_ONCE = 1024
_WHERE = "chat.template"


def template_of(tokenizer: Tokenizer) -> ChatTemplate:
    """The chat template of a model. Raises UserError if there is none, or the vocabulary changes its text."""
    try:
        template = ChatTemplate.of(tokenizer, _WHERE)
    except UserError as error:
        hint = "Take an instruct model (upstream.checkpoint), or give chat.template."
        raise UserError(error.what, where=_WHERE, hint=hint) from None
    turns = [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]
    if not _survives(template, template.render(turns)):
        hint = "Set kind: byte-level-bpe or mode: extend in downstream.vocabulary."
        what = "the vocabulary changes the words or line ends of the chat template"
        raise UserError(what, where=_WHERE, hint=hint)
    return template


def _survives(template: ChatTemplate, rendered: str) -> bool:
    """Whether a round trip gives back the text between special tokens, but for spaces and upper case.

    A special token may by its own rule include the white space around it, as Phi-3's do.
    """
    tokenizer, (encoding,) = template.tokenizer, template.encode([rendered])
    if tokenizer.special.get("unk", -1) in encoding.ids:
        return False
    start, between = 0, list[int]()
    for token, (begin, end) in zip([*encoding.ids, None], [*encoding.offsets, (len(rendered), 0)], strict=True):
        if token is not None and token not in tokenizer.special_ids:
            between.append(token)
            continue
        if _essence(tokenizer.decode(between)) != _essence(rendered[start:begin]):
            return False
        start, between = end, []
    return True


def _essence(text: str) -> str:
    return text.replace(" ", "").casefold()


def with_template(bundle: Bundle, settings: ChatSettings) -> Bundle:
    """The model with the configured chat template, if there is one."""
    if settings.template is None:
        return bundle
    decoder = bundle.decoder.with_chat_template(settings.template)
    return replace(bundle, encoder=decoder, decoder=decoder)


def answer_bounds(template: ChatTemplate, turns: Turns, learnt: Learnt) -> tuple[str, Sequence[tuple[int, int]]]:
    """The rendered conversation, and the bounds of its answers in characters.

    Raises UserError if the template cannot be used, or if it renders turns differently depending on later ones.
    """
    if template.marks_answers:
        ((text, marked),) = template.render_all([Part(turns)], mark_answers=True)
        return text, marked[-1:] if learnt == "last" else marked
    answers = [index for index, turn in enumerate(turns) if turn["role"] == "assistant"]
    answers = answers[-1:] if learnt == "last" else answers
    parts = [part for index in answers for part in (Part(turns[:index], prompt=True), Part(turns[: index + 1]))]
    rendered, *around = [text for text, _ in template.render_all([Part(turns), *parts])]
    bounds = []
    for index, before, after in zip(answers, around[::2], around[1::2], strict=True):
        if not (rendered.startswith(after) and after.startswith(before)):
            raise UserError(
                f"the chat template renders the first {index} turns of a conversation differently within all "
                f"{len(turns)}, so answers cannot be located",
                where=_WHERE,
                hint="Give chat.template, with {% generation %} and {% endgeneration %} around answers"
                + (", or set chat.turns: last." if learnt == "all" else "."),
            )
        bounds.append((len(before), len(after)))
    return rendered, bounds


class Conversations:
    """Templated conversations, truncated to max_length tokens.

    Attributes:
        whole: which conversations are not truncated [n].
        usable: which conversations have an answer within max_length tokens [n].
        left_out: the number of conversations without one, by reason.
    """

    def __init__(
        self,
        conversations: Iterable[Turns],
        template: ChatTemplate,
        learnt: Learnt,
        max_length: int,
        costs: np.ndarray | None = None,
    ) -> None:
        """costs: the cost of each conversation in a batch [n], by default its number of tokens."""
        tokens, answers = list[list[int]](), list[list[int]]()
        self.left_out = Counter[str]()
        remaining = iter(conversations)
        while chunk := list(islice(remaining, _AT_ONCE)):
            for ids, in_answer in self._encoded(chunk, template, learnt):
                tokens.append(ids)
                answers.append(in_answer)
        self._tokens, self._answers = (
            Sequences.of(tokens).truncate(max_length),
            Sequences.of(answers).truncate(max_length),
        )
        self.whole = self._tokens.whole
        # The first token is never predicted.
        self.usable = np.array([any(self._answers[index][1:]) for index in range(len(tokens))], dtype=np.bool_)
        if truncated := int((~self.usable).sum()) - self.left_out.total():
            self.left_out["answers_cut_away"] = truncated
        self.lengths: np.ndarray = self._tokens.lengths if costs is None else costs
        self._padding = padding_of(template.tokenizer)

    def _encoded(
        self, conversations: Sequence[Turns], template: ChatTemplate, learnt: Learnt
    ) -> Iterator[tuple[list[int], list[int]]]:
        """The tokens of each conversation, and whether each belongs to an answer; none for unusable conversations."""
        rendered = list[tuple[str, Sequence[tuple[int, int]]]]()
        for turns in conversations:
            if template.special_in(turns) is not None:
                self.left_out["special_token_in_text"] += 1
                rendered.append(("", []))
            else:
                rendered.append(answer_bounds(template, turns, learnt))
        encodings = template.encode([text for text, _ in rendered])
        for encoding, (_, bounds) in zip(encodings, rendered, strict=True):
            offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
            answers = np.zeros(len(offsets), dtype=np.bool_)
            for start, end in bounds:
                answers |= (offsets[:, 1] > start) & (offsets[:, 0] < end)
            yield encoding.ids, answers.tolist()

    def __len__(self) -> int:
        return len(self._tokens)

    def example(self, index: int, epoch: int) -> StackExample:
        del epoch
        tokens, answers = self._tokens[index], self._answers[index]
        labels = [token if answer else IGNORED for token, answer in zip(tokens[1:], answers[1:], strict=True)]
        return StackExample(tokens, [*labels, IGNORED])

    def batch(self, indices: np.ndarray, epoch: int) -> StackBatch:
        return collate([self.example(int(index), epoch) for index in indices], self._padding)


def answers_of(turns: Turns, learnt: Learnt) -> str:
    """The text of the answers that are trained on, for counts of characters."""
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
    progress: ProgressCallback | None = None,
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """The index of each conversation that is not truncated, and the nats of its answers' tokens; ordered by length."""
    examples = Conversations(conversations, template_of(bundle.decoder), learnt, bundle.max_positions)
    return stack_nats(bundle, examples, examples.whole & examples.usable, progress)


class ConversationsOfTask:
    """The conversations of a task. left_out: the number of conversations without an answer to learn, by reason."""

    def __init__(self, settings: ConversationSettings, request: ObjectiveInputs, training: FinetuneSettings) -> None:
        corpus, self._learnt, self._training = request.corpus, settings.chat.turns, training
        text, conversations = corpus.text("train", corpus.text_of("decoder")), list(corpus.conversations("train"))
        selected = selected_examples(len(text), training, request.seed)
        indices = np.arange(len(text)) if selected is None else selected
        costs = (
            np.array([len(line) + 1 for line in text.take(indices)]) if training.batch_unit == "characters" else None
        )
        template = template_of(request.bundle.decoder)
        limit = min(training.max_length, request.bundle.max_positions)
        self._conversations = Conversations(
            (conversations[index] for index in indices.tolist()), template, self._learnt, limit, costs
        )
        self.left_out: Mapping[str, int] = self._conversations.left_out
        self._usable = np.flatnonzero(self._conversations.usable)
        if not len(self._usable):
            reasons = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in self.left_out.items())
            hint = "Set a larger finetune.max_length, or see what the conversations hold."
            raise UserError(f"no conversation has an answer to learn ({reasons})", where="finetune", hint=hint)
        self.truncated = int((~self._conversations.whole[self._usable]).sum())
        self.texts: Mapping[SideName, Iterable[str]] = {"decoder": text.take(indices[self._usable])}
        self._dev = list(islice(corpus.conversations("dev"), training.dev_sentences))

    @property
    def lengths(self) -> np.ndarray:
        return self._conversations.lengths[self._usable]

    def batch(self, indices: np.ndarray, epoch: int) -> StackBatch:
        return self._conversations.batch(self._usable[indices], epoch)

    def loss(self, bundle: Bundle) -> StackLoss:
        return StackLoss(bundle.model, self._training.label_smoothing)

    def dev_scores(self, bundle: Bundle) -> ConversationScores:
        return ConversationScores(bundle, self._dev, self._learnt, self._training)
