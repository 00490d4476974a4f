"""Heads for understanding: what a model predicts about a text in place of its next or masked tokens.

A head is recognised by the class that config.json names, without torch or transformers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from subgraft.base.errors import UserError

if TYPE_CHECKING:
    from subgraft.config.heads import BilstmSettings, SanSettings
    from subgraft.config.settings_base import HeadKind
    from subgraft.modeling.families.model_parts import Config

# The endings of transformers' class names.
CLASS_ENDINGS: Mapping[HeadKind, str] = {
    "sequence": "ForSequenceClassification",
    "tokens": "ForTokenClassification",
    "span": "ForQuestionAnswering",
    "choice": "ForMultipleChoice",
}
IN_WORDS: Mapping[HeadKind, str] = {
    "sequence": "a head that classifies texts",
    "tokens": "a head that tags tokens",
    "span": "a head that finds answers in a passage",
    "choice": "a head that chooses among texts",
}
# The only label of a head for sequences that replaces a head for choices, if transformers has none.
CHOICE_LABEL = "choice"
# The entry of config.json with the task that a head was finetuned for, and its settings, among them the longest input.
TASK_ENTRY, LONGEST = "subgraft_task", "max_length"
# The entry with the settings of a head that transformers has no class for.
OWN_HEAD = "subgraft_head"
# In the names of the weights of BERT's prediction of next sentences.
NEXT_SENTENCE = ".seq_relationship."
# The default number of labels in transformers' configurations.
_DEFAULT_LABEL_COUNT = 2


class Head(NamedTuple):
    """A model's head.

    labels: the names of its outputs in order: for spans the start and the end, for choices a single score.
    problem: transformers' `problem_type`, which determines the loss; None if the number of labels determines it.
    """

    kind: HeadKind
    labels: tuple[str, ...]
    problem: str | None = None

    def __str__(self) -> str:
        if self.kind in ("span", "choice"):
            return IN_WORDS[self.kind]
        names = ", ".join(self.labels[:5]) + (", …" if len(self.labels) > 5 else "")
        return f"{IN_WORDS[self.kind]}, {len(self.labels)} {'label' if len(self.labels) == 1 else 'labels'} ({names})"


def kind_of_class(name: str) -> HeadKind | None:
    """The kind of head of transformers' class of this name; None for all other classes."""
    plain = name.removesuffix("Simple")  # XLNet has two classes for spans, and transformers' auto class takes this one
    return next((kind for kind, ending in CLASS_ENDINGS.items() if plain.endswith(ending)), None)


def head_in(config: Config) -> Head | None:
    """The head of the model of a config.json; None if it predicts tokens or has no head.

    Raises UserError for labels that are not numbered from 0, share a name, or are not as many as `num_labels`.
    """
    classes = config.get("architectures")
    kind = kind_of_class(str(classes[0])) if isinstance(classes, list) and classes else None
    return None if kind is None else head_of_kind(kind, config)


def head_of_kind(kind: HeadKind, config: Config) -> Head:
    """A head of this kind with the labels of a config.json. Raises UserError as `head_in` does."""
    if kind == "span":
        return Head(kind, ("start", "end"))
    labels = _labels(config)
    if kind == "choice" or (kind == "sequence" and labels == (CHOICE_LABEL,)):
        return Head("choice", (CHOICE_LABEL,))
    problem = config.get("problem_type")
    return Head(kind, labels, problem if isinstance(problem, str) else None)


def own_head_in(config: Config) -> SanSettings | BilstmSettings | None:
    """The settings of a head that transformers has no class for; None for others. Raises UserError if it is unknown."""
    entry = config.get(OWN_HEAD)
    if entry is None:
        return None
    from pydantic import TypeAdapter

    from subgraft.config.heads import HeadSettings

    heads: TypeAdapter[SanSettings | BilstmSettings] = TypeAdapter(HeadSettings)
    try:
        return heads.validate_python(entry)
    except ValueError as error:
        raise UserError(f"{OWN_HEAD} of config.json is none of the heads of Subgraft: {entry!r:.60}") from error


def longest_input(config: Config) -> int | None:
    """The maximum input length in a head's finetuning, in tokens; None if it is not recorded."""
    entry = config.get(TASK_ENTRY)
    longest = entry.get(LONGEST) if isinstance(entry, Mapping) else None
    return longest if type(longest) is int and longest > 0 else None


def _labels(config: Config) -> tuple[str, ...]:
    names, count = config.get("id2label"), config.get("num_labels")
    if not isinstance(names, Mapping):
        return numbered_labels(_DEFAULT_LABEL_COUNT if count is None else int(count))
    by_id = {str(label): str(name) for label, name in names.items()}
    ids = [str(label) for label in range(len(by_id))]
    if not ids or by_id.keys() != set(ids):
        raise UserError("id2label of config.json does not number the labels from 0")
    if count is not None and int(count) != len(ids):
        raise UserError(f"config.json has num_labels {count} and names {len(ids)} labels in id2label")
    labels = tuple(by_id[label] for label in ids)
    if len(set(labels)) < len(labels):
        (name, times), *_ = Counter(labels).most_common(1)
        raise UserError(f"id2label of config.json has {times} labels with the name {name!r:.60}")
    return labels


def numbered_labels(count: int) -> tuple[str, ...]:
    """The names that transformers gives to labels without any."""
    return tuple(f"LABEL_{label}" for label in range(count))


def is_headed(model: Any) -> bool:
    """Whether a loaded model has such a head."""
    return kind_of_class(type(model).__name__) is not None
