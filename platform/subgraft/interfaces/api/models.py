"""A model in memory, with its tokenizers and what is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName
from subgraft.embeddings.transplanting.transplant import TransplantReport
from subgraft.interfaces.api.arguments import located, path_of
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of
from subgraft.modeling.hub import require_model
from subgraft.modeling.tokenizers import checkpoint_languages
from subgraft.orchestration.store.outputs import new_directory
from subgraft.pipeline.stages.transfer import write_reports


@dataclass(frozen=True, repr=False)
class Model:
    """A model that was loaded or made; what is made of it leaves it as it was.

    bundle: the transformers model (`bundle.model`) and the tokenizer of each side (`bundle.tokenizers`).
    languages: those that it was made for, where its files say so.
    reports: after a transfer, by side, how the new tokens were initialised.
    """

    bundle: Bundle
    languages: Languages | None = None
    reports: Mapping[SideName, TransplantReport] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Family, sizes and languages: what a model is, in one line."""
        model, tokenizers = self.bundle.model, self.bundle.tokenizers
        sizes = {side: f"{len(tokenizer):,}" for side, tokenizer in tokenizers.items()}
        shared = len({id(tokenizer) for tokenizer in tokenizers.values()}) == 1
        vocabulary = next(iter(sizes.values())) if shared else " + ".join(sizes.values())
        told = [family_of(model).in_words(model.config.to_dict()), f"{model.num_parameters():,} parameters"]
        told += [f"vocabulary of {vocabulary} pieces", str(model.dtype).removeprefix("torch.")]
        told += [f"{self.languages.source}-{self.languages.target}"] if self.languages else []
        return f"<Model: {', '.join(told)}>"

    def save(self, out: Path | str) -> None:
        """Into a directory that is absent or empty, which `load` and all commands read: whole, or not at all."""
        with new_directory(path_of("out", out)) as place:
            self.write(place)

    def write(self, directory: Path) -> None:
        """Its files, into a directory that is there."""
        self.bundle.save(directory)
        if self.reports:
            write_reports(self.reports, directory)


def load(model: Path | str) -> Model:
    """The model of a directory, a hub id, or models:/NAME@ALIAS.

    Raises UserError where it holds none, for an unknown family, and for weights that are not in safetensors.
    """
    return of_directory(require_model(located(model)))


def of_directory(directory: Path) -> Model:
    """The model of a directory in which `require_model` has found one."""
    return Model(Bundle.load(directory), checkpoint_languages(directory))
