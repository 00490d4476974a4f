"""A model with the tokenizers of its sides: what a model directory holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel

from subgraft.config.base import SideName
from subgraft.config.corpora import Languages
from subgraft.models.hub import position_limit
from subgraft.models.load import load_model, save_model
from subgraft.models.sequence_format import SequenceFormat, sequence_format
from subgraft.models.sides import side_names
from subgraft.models.tokenizers import load_tokenizers
from subgraft.vocabulary.tokenizer import Tokenizer


@dataclass(frozen=True)
class Bundle:
    """A model and the tokenizer of each side: one object where sides share a vocabulary, or where there is one side."""

    model: PreTrainedModel
    encoder: Tokenizer
    decoder: Tokenizer

    @classmethod
    def load(cls, directory: Path | str) -> Bundle:
        tokenizers = load_tokenizers(directory)
        return cls(load_model(directory), tokenizers.get("encoder", tokenizers["decoder"]), tokenizers["decoder"])

    def save(self, directory: Path) -> None:
        save_model(self.model, self.tokenizers, directory)

    @property
    def tokenizers(self) -> dict[SideName, Tokenizer]:
        both: dict[SideName, Tokenizer] = {"encoder": self.encoder, "decoder": self.decoder}
        return {name: both[name] for name in side_names(self.model)}

    @property
    def padding(self) -> tuple[int, int]:
        """Padding ids of source and target."""
        return self.encoder.special["pad"], self.decoder.special["pad"]

    @property
    def max_positions(self) -> int:
        """The longest sequence the model takes, in tokens."""
        limit = position_limit(self.model.config.to_dict())
        assert limit is not None
        return limit

    def sequence_format(self, languages: Languages) -> SequenceFormat:
        return sequence_format(self.model.config.model_type, self.encoder, self.decoder, languages)
