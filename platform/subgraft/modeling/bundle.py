"""A model with the tokenizers of its sides: the contents of a model directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from transformers import PreTrainedModel

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName
from subgraft.modeling.families import DEFAULT_MAX_LENGTH as DEFAULT_MAX_LENGTH
from subgraft.modeling.families import InputLayout, SequenceFormat, family_of
from subgraft.modeling.heads import head_class, with_head
from subgraft.modeling.load import load_body, load_model, save_model
from subgraft.modeling.sides import row_counts, side_names
from subgraft.modeling.tokenizers import load_tokenizers, require_rows
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


@dataclass(frozen=True)
class Bundle:
    """A model and the tokenizer of each side: the same object if the sides share a vocabulary or there is one side.

    For a language model with a text source, `encoder` is the tokenizer of the source, although the model has no such
    side.
    """

    model: PreTrainedModel
    encoder: Tokenizer
    decoder: Tokenizer

    @classmethod
    def load(cls, directory: Path | str, *, dtype: torch.dtype | None = None, next_sentence: bool = False) -> Bundle:
        """Load a model directory; dtype, next_sentence: as in `load_model`."""
        tokenizers = load_tokenizers(directory)
        bundle = cls.of_sides(load_model(directory, dtype, next_sentence=next_sentence), tokenizers)
        require_rows(bundle.tokenizers, row_counts(bundle.model), str(directory))
        return bundle

    @classmethod
    def load_to_train(cls, directory: Path | str) -> Bundle:
        """Load a model directory with weights in fp32: in 16 bits most updates are smaller than their last digit."""
        return cls.load(directory, dtype=torch.float32)

    @classmethod
    def of_body(cls, directory: Path | str) -> Bundle:
        """The body of a model with a placeholder head of two labels, which finetuning replaces.

        With this head every step can load the directory of a body. Raises UserError as `load_body` does.
        """
        body = cls.of_sides(load_body(directory), load_tokenizers(directory))
        require_rows(body.tokenizers, row_counts(body.model), str(directory))
        if head_class(body.model.config, "sequence") is None:
            return cls.load(directory)
        return replace(body, model=with_head(body.model, "sequence", 2, seed=0, padding_id=body.padding[0]))

    @classmethod
    def of_sides(cls, model: PreTrainedModel, tokenizers: Mapping[SideName, Tokenizer]) -> Bundle:
        """A model of one or two sides; the tokenizer of a side that it lacks is the decoder's."""
        decoder = tokenizers["decoder"]
        return cls(model, tokenizers.get("encoder", decoder), decoder)

    def save(self, directory: Path) -> None:
        source: dict[SideName, Tokenizer] = {"encoder": self.encoder} if family_of(self.model).has_source else {}
        save_model(self.model, {**source, **self.tokenizers}, directory)

    @property
    def tokenizers(self) -> dict[SideName, Tokenizer]:
        both: dict[SideName, Tokenizer] = {"encoder": self.encoder, "decoder": self.decoder}
        return {name: both[name] for name in side_names(self.model)}

    @property
    def padding(self) -> tuple[int, int]:
        """The padding ids of source and target; those of the end token if there is none, because padding is masked."""
        special = self.encoder.special, self.decoder.special
        return special[0].get("pad", special[0]["eos"]), special[1].get("pad", special[1]["eos"])

    @property
    def max_positions(self) -> int:
        """The maximum length of the model's input, in tokens."""
        limit = family_of(self.model).position_limit(self.model.config.to_dict())
        return DEFAULT_MAX_LENGTH if limit is None else limit

    def input_layout(self, languages: Languages | None = None) -> InputLayout:
        """The tokens around one text and around a pair that a model with a classifying head reads.

        Raises UserError if the vocabulary lacks a special token, or has language codes and `languages` is None.
        """
        config = self.model.config.to_dict()
        return family_of(self.model).input_layout(config, self.encoder, languages)

    def sequence_format(self, languages: Languages | None) -> SequenceFormat:
        config = self.model.config.to_dict()
        return family_of(self.model).sequence_format(config, self.encoder, self.decoder, languages)
