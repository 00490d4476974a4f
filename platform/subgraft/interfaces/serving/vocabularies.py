"""Routes of the page for vocabularies: POST /cut segments texts by each, POST /token describes one of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, Literal, NamedTuple

from starlette.routing import Route

from subgraft.base.errors import UserError
from subgraft.base.security.http_requests import RefusedError, check_characters, json_object, json_route
from subgraft.config.settings_base import SideName
from subgraft.experiments.origin import Origin
from subgraft.interfaces.serving.batching import Batcher
from subgraft.interfaces.serving.writer import Served, Writer
from subgraft.subwords.similar_tokens.finder import Relation, SimilarTokenFinder
from subgraft.subwords.similar_tokens.token_subwords import subwords
from subgraft.subwords.vocabulary.alignment import NEW, Alignment, align
from subgraft.subwords.vocabulary.segmentation import Segmentation, readable, segment
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.understanding.predictor import Predictor

# The maximum characters of all texts that are segmented at a time.
MAX_CHARACTERS = 20_000
Which = Literal["own", "original"]


class _Use(NamedTuple):
    """A vocabulary's place: a side of a served model, or of the model that it was made from."""

    model: str
    side: SideName
    which: Which


@dataclass(frozen=True)
class _Vocabulary:
    """A served model's vocabulary of a side, and the one that it had before; None if that is unknown."""

    own: Tokenizer
    original: Tokenizer | None
    origin: Origin

    @cached_property
    def alignment(self) -> Alignment | None:
        return None if self.original is None else align(self.original, self.own)

    def describe(self) -> dict[str, Any]:
        """Sizes, for the list of models."""
        if self.original is None:
            return {"entries": len(self.own), "original": None, "missing": self.origin.missing}
        original = {"model": self.origin.model, "entries": len(self.original)}
        same = self.original.fingerprint == self.own.fingerprint
        return {"entries": len(self.own), "original": original, "same": same}


class Vocabularies:
    """The routes. `batchers` are their queues, which the server runs."""

    def __init__(
        self, models: Mapping[str, Served], origins: Mapping[str, Origin], token: str, patience: float
    ) -> None:
        self._token, self._patience = token, patience
        self._models = {name: _sides(model, origins.get(name, _UNKNOWN)) for name, model in models.items()}
        self._queue: Batcher[Callable[[], Any], Any] = Batcher(lambda jobs: [_attempt(job) for job in jobs])
        self._finder = cache(SimilarTokenFinder)

    @property
    def batchers(self) -> Sequence[Batcher[Any, Any]]:
        return [self._queue]

    def routes(self) -> list[Route]:
        works = {"/cut": self._segment, "/token": self._facts}
        return [json_route(path, self._token, partial(self._answer, work)) for path, work in works.items()]

    def describe(self, model: str) -> dict[str, Any]:
        """The vocabularies of a model, by side."""
        return {side: vocabulary.describe() for side, vocabulary in self._models[model].items()}

    async def _answer(self, work: Callable[[Any], dict[str, Any]], body: bytes) -> dict[str, Any]:
        (answer,) = (await self._queue.ask([partial(work, json_object(body))], self._patience)).outputs
        if isinstance(answer, RefusedError):
            raise answer
        result: dict[str, Any] = answer
        return result

    def _segment(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The texts by each vocabulary, those of the models first; equal ones are segmented once."""
        texts, side = _texts(body), body.get("side", "encoder")
        if side not in ("encoder", "decoder"):
            raise RefusedError(400, "side: encoder or decoder")
        by_vocabulary: dict[str, tuple[Tokenizer, list[_Use]]] = {}
        for use, tokenizer in self._uses(side):
            by_vocabulary.setdefault(tokenizer.fingerprint, (tokenizer, []))[1].append(use)
        return {"vocabularies": [_segmented(*each, texts) for each in by_vocabulary.values()]}

    def _uses(self, side: SideName) -> Iterator[tuple[_Use, Tokenizer]]:
        """The vocabularies of this side, or of the only one that a model has."""
        chosen = {name: side if side in sides else next(iter(sides)) for name, sides in self._models.items()}
        for name, one in chosen.items():
            yield _Use(name, one, "own"), self._models[name][one].own
        for name, one in chosen.items():
            if (original := self._models[name][one].original) is not None:
                yield _Use(name, one, "original"), original

    def _facts(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A token's spelling, the origin of its embedding, and its similar tokens."""
        vocabulary = self._vocabulary(body)
        own = body.get("which", "own") == "own"
        tokenizer = vocabulary.own if own else vocabulary.original
        token = body.get("id")
        if tokenizer is None or type(token) is not int or not 0 <= token < len(tokenizer):
            raise RefusedError(400, "id: the number of a token of that vocabulary")
        searched = vocabulary.original if own and vocabulary.original is not None else tokenizer
        return {
            "id": token,
            "piece": readable(tokenizer, token),
            "role": _role(tokenizer, token),
            "origin": _origin_of_row(vocabulary, token) if own else "",
            "similar": self._similar(tokenizer, searched, token),
            "similar_in": "original" if searched is vocabulary.original else "own",
        }

    def _vocabulary(self, body: Mapping[str, Any]) -> _Vocabulary:
        model, side = body.get("model"), body.get("side")
        sides: Mapping[Any, _Vocabulary] = self._models.get(model, {}) if isinstance(model, str) else {}
        if not isinstance(side, str) or side not in sides:
            raise RefusedError(400, "model and side: those of an answer of /cut")
        return sides[side]

    def _similar(self, tokenizer: Tokenizer, searched: Tokenizer, token: int) -> list[dict[str, Any]]:
        """Its similar tokens (Sm(w)) in the vocabulary before, or the others in its own."""
        entry = tokenizer.entries[token]
        if entry is None:
            return []
        similar = self._finder(searched).find([entry])
        itself = searched.ids.get(entry)
        return [
            {"piece": readable(searched, other), "relation": Relation(relation).name.lower().replace("_", " ")}
            for other, relation in zip(similar.token_ids.tolist(), similar.relations.tolist(), strict=True)
            if other != itself
        ]


_UNKNOWN = Origin(missing="The model's files do not say which vocabulary it had before.")


def _sides(model: Served, origin: Origin) -> dict[SideName, _Vocabulary]:
    """The vocabularies of a model's sides; one only if it reads and writes by the same."""
    tokenizers: dict[SideName, Tokenizer]
    if isinstance(model, Writer):
        tokenizers = {"encoder": model.encoder, "decoder": model.decoder}
    elif isinstance(model, Predictor):
        tokenizers = {"encoder": model.tokenizer}
    else:
        tokenizers = {"decoder": model.tokenizer}
    before = origin.tokenizers
    any_side = next(iter(before.values()), None)
    return {side: _Vocabulary(own, before.get(side, any_side), origin) for side, own in tokenizers.items()}


def _attempt(job: Callable[[], Any]) -> Any:
    """Its result, or its refusal: other requests of the batch are answered."""
    try:
        return job()
    except RefusedError as refused:
        return refused
    except UserError as error:
        return RefusedError(400, error.what)


def _texts(body: Mapping[str, Any]) -> list[str]:
    texts = body.get("texts")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RefusedError(400, "texts: a list of strings")
    if sum(map(len, texts)) > MAX_CHARACTERS or len(texts) > MAX_CHARACTERS // 10:
        raise RefusedError(413, f"at most {MAX_CHARACTERS:,} characters are segmented")
    check_characters(texts)
    return texts


def _segmented(tokenizer: Tokenizer, uses: Sequence[_Use], texts: Sequence[str]) -> dict[str, Any]:
    segmentations = [segment(tokenizer, text) for text in texts]
    return {
        "uses": [use._asdict() for use in uses],
        "entries": len(tokenizer),
        "tokens": sum(each.tokens for each in segmentations),
        "unknown": sum(each.unknown for each in segmentations),
        "bytes": sum(each.byte_tokens for each in segmentations),
        "texts": [_described(each, text) for each, text in zip(segmentations, texts, strict=True)],
    }


def _described(each: Segmentation, text: str) -> dict[str, Any]:
    """Its cells, each [text, ids, kind], and the text that decoding gives back, if that is another."""
    return {"cells": each.cells, "decoded": None if each.decoded in (text, f" {text}") else each.decoded}


def _role(tokenizer: Tokenizer, token: int) -> str:
    """The kind of a token that is not an ordinary subword."""
    roles = [role for role, known in tokenizer.special.items() if known == token]
    if roles or token in tokenizer.special_ids:
        return "unknown token" if "unk" in roles else "special token"
    if token in tokenizer.symbols:
        return "user-defined symbol"
    if tokenizer.entries[token] is not None:
        return ""
    byte = next((byte for byte, known in tokenizer.byte_ids.items() if known == token), None)
    if tokenizer.pieces[token] == tokenizer.mark.value:
        return "the mark of a word's beginning"
    return "a part of a character" if byte is None else f"the byte 0x{byte:02X}"


def _origin_of_row(vocabulary: _Vocabulary, token: int) -> str:
    """How the embedding of a token of the model's own vocabulary was initialised, in a sentence."""
    origin, original, alignment = vocabulary.origin, vocabulary.original, vocabulary.alignment
    if original is None or alignment is None:
        return origin.missing
    if original.fingerprint == vocabulary.own.fingerprint:
        return "Its embedding is the checkpoint's own."
    copied, entry = int(alignment.origins[token]), vocabulary.own.entries[token]
    then = " Training changed it since." if origin.trained else ""
    if copied != NEW and (origin.copies_shared or entry is None):
        return f"Its embedding is a copy of that of {readable(original, copied)!r} in the original.{then}"
    method = next(iter(origin.methods.values()), "")
    if entry is None:
        return f"Its embedding was initialised without a similar token.{then}"
    if method == "mean":
        parts = " + ".join(readable(original, part) for part in subwords(original, [entry])[0].ids)
        return f"Its embedding is the mean of those of {parts or 'all tokens'} in the original.{then}"
    if method == "avg":
        return f"Its embedding is the mean of those of its similar tokens in the original.{then}"
    return f"Its embedding was initialised by the method {method}.{then}"
