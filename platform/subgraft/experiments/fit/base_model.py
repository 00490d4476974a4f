"""The model to fit: its path, configuration, vocabularies and languages. No weights are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subgraft.base.errors import ArgumentError, UserError
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SENTENCEPIECE_KINDS, SideName, VocabularyKind
from subgraft.evaluation.reporting.numbers import percent
from subgraft.modeling.families import MissingCodeError, SequenceFormat, family_of, head_in, require_marked_targets
from subgraft.modeling.hub import read_config, require_model
from subgraft.modeling.tokenizers import (
    MEAN_OF_CODES,
    checkpoint_directions,
    checkpoint_languages,
    languages_of,
    load_tokenizers,
    with_languages,
)
from subgraft.subwords.vocabulary.learn import kind_like
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.registry import CONTINUING_KINDS

# Objectives of published checkpoints, the most specific to a family first.
_USUAL_OBJECTIVES = ("translation", "denoising", "permutation", "masked", "causal")
# Pairs whose direction is judged, and the share of tokens below which they seem to be exchanged. Unknown tokens, which
# may cover many characters, count as several.
SAMPLE, EXCHANGED, UNKNOWN_COST = 1000, 0.9, 5


@dataclass(frozen=True)
class BaseModelFacts:
    """The model to fit.

    Attributes:
        name: The name by which the user specified it.
        checkpoint: Its name in a configuration: a directory or a hub id.
    """

    name: str
    checkpoint: str
    directory: Path
    config: dict[str, Any]
    tokenizers: dict[SideName, Tokenizer]

    @classmethod
    def find(cls, name: str, local: str) -> BaseModelFacts:
        """Read it from `local`, a path or hub id. Raises UserError for a model that cannot be fitted with pairs."""
        facts = cls.read(name, local)
        config = facts.config
        if (head := head_in(config)) is not None:
            raise UserError(f"this model has {head}, so pairs cannot fit it", where=name)
        if "encoder" not in family_of(config).sides:
            hint = "Fit it to a text that it continues: give the text, without pairs."
            raise UserError("this model has no encoder, so pairs cannot fit it", where=name, hint=hint)
        return facts

    @classmethod
    def of_language_model(cls, name: str, local: str) -> BaseModelFacts:
        """Read it from `local`, a path or hub id. Raises UserError for a model that does not continue text."""
        facts = cls.read(name, local)
        if (head := head_in(facts.config)) is not None:
            raise UserError(f"this model has {head}, so text alone cannot fit it", where=name, hint="Give labels.")
        if not CONTINUING_KINDS & family_of(facts.config).objectives:
            hint = "Fit a translator to pairs, and an encoder to labelled examples."
            raise UserError("this model does not continue text, so text alone cannot fit it", where=name, hint=hint)
        return facts

    @classmethod
    def read(cls, name: str, local: str) -> BaseModelFacts:
        """Read any model from `local`, a path or hub id."""
        directory = require_model(local)
        checkpoint = str(directory.absolute()) if Path(local).is_dir() else local
        return cls(name, checkpoint, directory, read_config(directory), dict(load_tokenizers(directory)))

    @property
    def objective(self) -> str:
        """The pretraining objective that a finetuning on pairs assumes."""
        objectives = family_of(self.config).objectives
        return next((kind for kind in _USUAL_OBJECTIVES if kind in objectives), min(objectives))

    @property
    def is_decoder(self) -> bool:
        """Whether it is a decoder alone, which could be untied."""
        return self._untied is not None

    @property
    def is_tied(self) -> bool:
        """Whether it is a decoder whose output embeddings are its input embeddings."""
        return self._untied not in (None, self.config)

    @property
    def _untied(self) -> dict[str, Any] | None:
        try:
            return family_of(self.config).untied(self.config)
        except UserError:
            return None

    @property
    def vocabulary_kind(self) -> VocabularyKind:
        """Of a new vocabulary: a byte-level model's is byte-level too, because it gives back all text."""
        kind = kind_like(self.tokenizers["decoder"])
        return "unigram" if kind in SENTENCEPIECE_KINDS else kind

    @property
    def parameters(self) -> int:
        family = family_of(self.config)
        return family.parameters(self.config).total

    @property
    def max_length(self) -> int | None:
        """The length in tokens of the longest sequence that it accepts."""
        return family_of(self.config).position_limit(self.config)

    def new_languages(self, pairs: Sequence[Languages]) -> dict[str, str]:
        """Languages of the pairs for which it lacks a code, where it marks languages, each with an initialiser.

        Raises UserError for names that make no code, and for several targets of a model that marks none.
        """
        new: dict[str, str] = {}
        try:
            formats = {pair.target: self._format(pair, new) for pair in pairs}
        except UserError as error:
            raise UserError(error.what, where=self.name, hint=error.hint) from error
        require_marked_targets(formats, self.name)
        return new

    def _format(self, pair: Languages, new: dict[str, str]) -> SequenceFormat:
        """The format in which it marks a pair; languages that it lacks are added to `new`."""
        tokenizers = with_languages(self.tokenizers, new)
        try:
            return family_of(self.config).sequence_format(
                self.config, tokenizers["encoder"], tokenizers["decoder"], pair
            )
        except MissingCodeError as error:
            if error.language in new:
                raise
            new[error.language] = MEAN_OF_CODES
            return self._format(pair, new)

    def warnings_about(self, pairs: Sequence[tuple[str, str]], languages: Languages) -> list[str]:
        """Signs that pairs are not a text and its translation, or are not in the model's direction, one a line.

        The direction shows where the sides have vocabularies of their own: the exchanged texts need fewer tokens.
        Raises ArgumentError if both sides of all pairs are equal.
        """
        equal = sum(source == target for source, target in pairs)
        if equal == len(pairs) > 0:
            hint = "Line N of one file must be the translation of line N of the other."
            raise ArgumentError("both sides are the same text", where="pairs", hint=hint)
        warnings = []
        try:
            languages_of(checkpoint_directions(self.directory), self.tokenizers.values(), languages)
        except ArgumentError as error:  # which finetuning can change
            warnings.append(f"[warning]  {error.what}: finetuning must teach it the other direction")
        if 2 * equal > len(pairs):
            warnings.append(f"[warning]  {equal:,} of {len(pairs):,} pairs have the same text on both sides")
        encoder, decoder = self.tokenizers["encoder"], self.tokenizers["decoder"]
        sources, targets = zip(*pairs[:: max(1, len(pairs) // SAMPLE)], strict=True) if pairs else ((), ())
        as_named = _cost(encoder, sources) + _cost(decoder, targets)
        exchanged = _cost(encoder, targets) + _cost(decoder, sources)
        if encoder.fingerprint != decoder.fingerprint and exchanged < EXCHANGED * as_named:
            warnings.append(
                "[warning]  the texts fit the model the other way round: its vocabularies segment them into "
                f"{percent(1 - exchanged / as_named)} fewer tokens if source and target are exchanged"
            )
        return warnings

    def languages(self, requested: Languages | None) -> Languages:
        """The requested languages, or else those that the model's files name. Raises UserError if there are neither."""
        languages = requested or checkpoint_languages(self.directory)
        if languages is None:
            hint = "Name them by `languages`: en and fr, or en_XX and fr_XX of models with such codes."
            raise ArgumentError("the model does not say what languages it is for", where="languages", hint=hint)
        return languages


def _cost(tokenizer: Tokenizer, texts: Sequence[str]) -> int:
    """The tokens of texts, where unknown ones count more."""
    unknown = tokenizer.special.get("unk", -1)
    return sum(len(ids) + (UNKNOWN_COST - 1) * ids.count(unknown) for ids in tokenizer.encode_batch(texts))
