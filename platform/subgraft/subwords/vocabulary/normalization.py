"""How text is changed before it is segmented, so that a learnt vocabulary treats it as a model's own does.

The parts of a tokenizer.json differ between kinds of vocabulary: a space is ▁ in one, and in another the border of two
words. So they are read as what they do to a text, and written in the form of the kind that is learnt.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import tokenizers
from tokenizers import normalizers, pre_tokenizers

from subgraft.base.security.text_growth import component_steps
from subgraft.config.settings_base import NormalizationName
from subgraft.subwords.vocabulary.directory import CHAT_TEMPLATE
from subgraft.subwords.vocabulary.entry import SPACE_MARK, Mark
from subgraft.subwords.vocabulary.sentencepiece_model import character_table, convert
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# The regular expressions of spaces alone: runs of them, and those at the edges of a text.
_SPACES = re.compile(r"(?:\\[Az]|[ {}\d,|+^$▁])+")
_DIGITS = "0123456789"


@dataclass(frozen=True)
class Normalization:
    """What happens to a text before it is segmented.

    Attributes:
        steps: Normalizers of a tokenizer.json that change characters, in order; without those of spaces.
        table: SentencePiece's table of characters, which is applied after the steps; empty for none.
        keep_whitespace: Whether runs of spaces, and spaces at the ends of a text, count.
        dummy_prefix: Whether a text's first word is marked like words after a space.
        once: Whether text behind an added token has no such prefix. Then the prefix stands for a space before a text.
        split_digits: Whether every digit is a piece of its own.
    """

    steps: tuple[str, ...] = ()  # in JSON
    table: bytes = b""
    keep_whitespace: bool = False
    dummy_prefix: bool = True
    once: bool = False
    split_digits: bool = False

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Normalization:
        """What a vocabulary does to text."""
        specification = tokenizer.specification
        keeps = _words(tokenizer.backend, "a  b") != _words(tokenizer.backend, "a b")
        steps = [
            {**step, "handle_chinese_chars": False} if step["type"] == "BertNormalizer" else step
            for step in component_steps(specification["normalizer"])
            if not _is_of_spaces(step) and (keeps or step["type"] != "Strip")
        ]
        table = b""
        if steps and steps[-1]["type"] == "Precompiled":
            table = base64.b64decode(steps.pop()["precompiled_charsmap"])
            # `convert` composes characters before any table.
            steps = steps[:-1] if steps and steps[-1]["type"] == "NFC" else steps
        scheme = _prefix_scheme(specification, tokenizer.mark)
        return cls(
            steps=tuple(json.dumps(step) for step in steps),
            table=table,
            keep_whitespace=keeps,
            dummy_prefix=scheme != "never",
            # In other text the prefix comes before spaces too, so that none is lost.
            once=scheme == "first" and CHAT_TEMPLATE in tokenizer.config,
            split_digits=splits_digits(tokenizer),
        )

    def changed(
        self,
        name: NormalizationName | None,
        keep_whitespace: bool | None = None,
        dummy_prefix: bool | None = None,
        split_digits: bool | None = None,
    ) -> Normalization:
        """The same with these settings; None changes nothing."""
        named = self if name is None else replace(self, steps=(), table=character_table(name))
        return replace(
            named,
            keep_whitespace=self.keep_whitespace if keep_whitespace is None else keep_whitespace,
            dummy_prefix=self.dummy_prefix if dummy_prefix is None else dummy_prefix,
            split_digits=self.split_digits if split_digits is None else split_digits,
        )

    @property
    def changes_characters(self) -> bool:
        """Whether there is a step or a table."""
        return bool(self.steps or self.table)

    @cached_property
    def characters(self) -> normalizers.Sequence:
        """The steps and the table as a normalizer of tokenizers."""
        table = [normalizers.NFC(), normalizers.Precompiled(self.table)] if self.table else []
        return normalizers.Sequence([*_parsed(self.steps), *table])

    def normalized(self, lines: Iterable[str]) -> Iterator[str]:
        """Lines after the steps, and after the table if it is not one of SentencePiece's own, by which it trains."""
        normalizer = self.characters if self.table_name is None else normalizers.Sequence(_parsed(self.steps))
        return map(normalizer.normalize_str, lines) if self.steps or self.table_name is None else iter(lines)

    @cached_property
    def table_name(self) -> NormalizationName | None:
        """SentencePiece's name of the table; None for a table that it does not have."""
        names: tuple[NormalizationName, ...] = get_args(NormalizationName)
        return next((name for name in names if character_table(name) == self.table), None)

    @property
    def training_settings(self) -> dict[str, Any]:
        """SentencePiece's settings, for text from `normalized`."""
        return {
            "normalization_rule_name": self.table_name or "identity",
            "remove_extra_whitespaces": not self.keep_whitespace,
            "allow_whitespace_only_pieces": self.keep_whitespace,
            "add_dummy_prefix": self.dummy_prefix,
            "split_digits": self.split_digits,
        }

    @property
    def is_of_sentencepiece(self) -> bool:
        """Whether a SentencePiece model treats text in this way by itself."""
        return not self.steps and not (self.once and self.dummy_prefix and self.keep_whitespace)

    def tokenizer(self, model: bytes) -> tokenizers.Tokenizer:
        """The tokenizer of a SentencePiece model that was learnt with `training_settings`."""
        converted = convert(model, prefix_once=self.once)
        if self.steps:
            converted.normalizer = normalizers.Sequence([*_parsed(self.steps), converted.normalizer])
        return converted

    def split(self, pre_tokenizer: pre_tokenizers.PreTokenizer) -> pre_tokenizers.PreTokenizer:
        """A pre-tokenizer that also separates digits, if they are split and it does not."""
        if not self.split_digits or len(pre_tokenizer.pre_tokenize_str(_DIGITS)) == len(_DIGITS):
            return pre_tokenizer
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizer])


def splits_digits(tokenizer: Tokenizer) -> bool:
    """Whether every digit is a piece of its own: by the pre-tokenizer, or as SentencePiece's option learns pieces.

    Without a pre-tokenizer that does, all digits are pieces, and no longer piece has one.
    """
    if len(_words(tokenizer.backend, _DIGITS)) >= len(_DIGITS):
        return True
    if tokenizer.mark is not Mark.SENTENCEPIECE:
        return False
    with_digits = {
        piece for i in tokenizer.ordinary_ids.tolist() if not set(_DIGITS).isdisjoint(piece := tokenizer.pieces[i])
    }
    return with_digits == set(_DIGITS)


def _words(backend: tokenizers.Tokenizer, text: str) -> list[str]:
    """The parts of a text that are segmented separately, normalised."""
    normal = text if backend.normalizer is None else backend.normalizer.normalize_str(text)
    return [normal] if backend.pre_tokenizer is None else [p for p, _ in backend.pre_tokenizer.pre_tokenize_str(normal)]


def _is_of_spaces(step: Mapping[str, Any]) -> bool:
    """Whether a normalizer marks, joins or removes spaces and changes nothing else."""
    if step["type"] == "Prepend":
        return True
    pattern = next(iter(step["pattern"].values())) if step["type"] == "Replace" else None
    return pattern is not None and step["content"] in ("", " ", SPACE_MARK) and bool(_SPACES.fullmatch(pattern))


def _prefix_scheme(specification: Mapping[str, Any], mark: Mark) -> str:
    """When a text's first word is marked like one after a space: never, first (not behind special tokens), always."""
    if mark is Mark.WORDPIECE:
        return "always"
    steps = component_steps(specification["normalizer"]) + component_steps(specification["pre_tokenizer"])
    for step in steps:
        if step["type"] == "Prepend":
            return "always"
        if step["type"] == "Metaspace":
            return str(step.get("prepend_scheme", "always"))
        if step["type"] == "ByteLevel":
            return "first" if step["add_prefix_space"] else "never"
    return "never"


def _parsed(steps: Iterable[str]) -> list[normalizers.Normalizer]:
    """Normalizers of their JSON, which tokenizers reads as parts of a tokenizer only."""
    empty = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {}, "merges": []}}
    whole = ({**empty, "normalizer": json.loads(step)} for step in steps)
    return [tokenizers.Tokenizer.from_str(json.dumps(each)).normalizer for each in whole]
