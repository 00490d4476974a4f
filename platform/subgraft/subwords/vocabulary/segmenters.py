"""Segment single entries rather than texts: the beginning of a word, or a continuation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import tokenizers
from tokenizers import models

from subgraft.base.security.text_growth import Guard, component_steps
from subgraft.base.security.tokenizer_checks import as_user_error
from subgraft.subwords.vocabulary.entry import CONTINUATION_MARK, Mark

Step = dict[str, Any]


class Segmenters:
    """Segments surfaces as starts of words or as continuations, with the model of the original tokenizer.

    Continuations are segmented without the dummy prefix (SentencePiece), greedily over the ## pieces (WordPiece) or
    without a space in front (byte-level).
    """

    def __init__(
        self, backend: tokenizers.Tokenizer, specification: Mapping[str, Any], mark: Mark, guard: Guard
    ) -> None:
        self._guard = guard
        self._before_initial = ""
        self.initial = backend
        if mark is Mark.WORDPIECE:
            self.continuation = _continuation_wordpiece(specification)
        else:
            self.continuation = _variant(backend, specification, _without_prefix)
        if mark is Mark.BYTELEVEL:
            self.initial, self._before_initial = self.continuation, " "
        elif mark is Mark.SENTENCEPIECE and not _adds_prefix(specification):
            self.initial = _variant(backend, specification, _with_prefix)
            has_metaspace = any(step["type"] == "Metaspace" for step in _steps(specification))
            self._before_initial = "" if has_metaspace else " "

    def encode_batch(self, surfaces: list[str], *, word_initial: bool) -> list[list[int]]:
        """Ids of each surface."""
        segmenter = self.initial if word_initial else self.continuation
        if word_initial and self._before_initial:
            surfaces = [self._before_initial + surface for surface in surfaces]
        with as_user_error("this vocabulary cannot segment a word"):
            batches = self._guard.batches(surfaces)
            return [
                encoding.ids
                for batch in batches
                for encoding in segmenter.encode_batch_fast(batch, add_special_tokens=False)
            ]


def _variant(backend: tokenizers.Tokenizer, specification: Mapping[str, Any], change: Any) -> tokenizers.Tokenizer:
    """The same model (shared, not copied) with a modified normalizer and pre-tokenizer."""
    shell: Step = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": _rebuild(specification.get("normalizer"), "normalizers", change),
        "pre_tokenizer": _rebuild(specification.get("pre_tokenizer"), "pretokenizers", change),
        "model": {"type": "BPE", "vocab": {}, "merges": []},
    }
    donor = tokenizers.Tokenizer.from_str(json.dumps(shell))
    variant = tokenizers.Tokenizer(backend.model)
    if donor.normalizer is not None:
        variant.normalizer = donor.normalizer
    if donor.pre_tokenizer is not None:
        variant.pre_tokenizer = donor.pre_tokenizer
    return variant


def _rebuild(component: Mapping[str, Any] | None, key: str, change: Any) -> Step | None:
    steps = [changed for step in component_steps(component) if (changed := change(step)) is not None]
    return {"type": "Sequence", key: steps} if steps else None


def _without_prefix(step: Step) -> Step | None:
    if step["type"] == "Metaspace":
        step = {key: value for key, value in step.items() if key != "add_prefix_space"}
        return step | {"prepend_scheme": "never"}
    if step["type"] == "ByteLevel":
        return step | {"add_prefix_space": False}
    return None if step["type"] == "Prepend" else step


def _with_prefix(step: Step) -> Step:
    if step["type"] == "Metaspace":
        step = {key: value for key, value in step.items() if key != "add_prefix_space"}
        return step | {"prepend_scheme": "always"}
    return step


def _steps(specification: Mapping[str, Any]) -> list[Step]:
    return [*component_steps(specification.get("normalizer")), *component_steps(specification.get("pre_tokenizer"))]


def _adds_prefix(specification: Mapping[str, Any]) -> bool:
    schemes = (step.get("prepend_scheme", "always") for step in _steps(specification) if step["type"] == "Metaspace")
    return any(scheme != "never" for scheme in schemes) or any(
        step["type"] == "Prepend" for step in _steps(specification)
    )


def _continuation_wordpiece(specification: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Greedy longest match over the ## pieces only, with their ids; white space and punctuation do not split."""
    model = specification["model"]
    unknown = model["unk_token"]
    vocabulary = {
        piece.removeprefix(CONTINUATION_MARK): i
        for piece, i in model["vocab"].items()
        if piece.startswith(CONTINUATION_MARK) and len(piece) > len(CONTINUATION_MARK)
    }
    greedy = models.WordPiece(
        vocabulary | {unknown: model["vocab"][unknown]},
        unk_token=unknown,
        continuing_subword_prefix="",
        max_input_chars_per_word=model["max_input_chars_per_word"],
    )
    return _variant(tokenizers.Tokenizer(greedy), {**specification, "pre_tokenizer": None}, _without_chinese_splitting)


def _without_chinese_splitting(step: Step) -> Step:
    return step | {"handle_chinese_chars": False} if step["type"] == "BertNormalizer" else step
