"""A model that answers requests as they come, through CTranslate2 if it supports the model, else through torch."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of
from subgraft.modeling.heads import head_of
from subgraft.modeling.hub import require_model
from subgraft.modeling.inference.complete import Completer, ExportedCompleter, TorchCompleter
from subgraft.modeling.inference.ctranslate2_directory import ExportedModel, is_exported
from subgraft.modeling.inference.ctranslate2_search import ExportedTranslator, engine
from subgraft.modeling.tokenizers import checkpoint_directions, languages_at
from subgraft.pipeline.compute.outputs import translator
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.setup import device
from subgraft.training.understanding.predictor import Predictor


@dataclass(frozen=True)
class Writer:
    """Translates texts, and shows their segmentation.

    engine: the engine's name on the page. languages: the direction of `write`, if it is known.
    directions: of a model with several directions, the translator of each by its name.
    """

    engine: str
    encoder: Tokenizer
    decoder: Tokenizer
    write: Callable[[Sequence[str]], list[str]]
    languages: Languages | None = None
    directions: Mapping[str, Callable[[Sequence[str]], list[str]]] = field(default_factory=dict)

    def answer(self, items: Sequence[tuple[str | None, str]]) -> list[str]:
        """An output for each direction and text; None is the direction of `write`."""
        outputs = [""] * len(items)
        for direction in dict.fromkeys(name for name, _ in items):
            indices = [index for index, (name, _) in enumerate(items) if name == direction]
            write = self.write if direction is None else self.directions[direction]
            for index, output in zip(indices, write([items[index][1] for index in indices]), strict=True):
                outputs[index] = output
        return outputs

    def source_pieces(self, text: str) -> list[str]:
        return [self.encoder.pieces[token] for token in self.encoder.encode(text)]

    def target_pieces(self, text: str) -> list[str]:
        return [self.decoder.pieces[token] for token in self.decoder.encode(text)]


# A model that is served.
Served: TypeAlias = Writer | Completer | Predictor


@contextmanager
def open_model(model: str, languages: Languages | None, beam: int) -> Iterator[Served]:
    """The model of a directory, an export or a hub id, until the end of the context; with a head it predicts labels.

    languages: of models with language codes; by default those that the model's files name, which may be several
    directions. Raises UserError if they are unknown, and for a model that reads something other than text.
    """
    directions: tuple[Languages, ...] = ()
    with tempfile.TemporaryDirectory(prefix="subgraft-serve-") as folder:
        directory = Path(model)
        if not is_exported(directory):
            directory = require_model(model)
            directions = () if languages else checkpoint_directions(directory)
            languages = languages_at(directory, languages)
            bundle = Bundle.load(directory)
            if head_of(bundle.model) is not None:
                yield Predictor(bundle, languages, model)
                return
            if family_of(bundle.model).has_source:
                hint = "`subgraft generate` writes its texts."
                raise UserError("this model writes texts for sources, so it is not served", where=model, hint=hint)
            bundle.sequence_format(languages)  # an error here is not one of the export to CTranslate2
            if not _is_exported_to(directory, Path(folder), languages):
                if "encoder" not in bundle.tokenizers:
                    bundle.model.to(device())  # type: ignore[arg-type]
                    yield TorchCompleter(bundle)
                    return
                settings = MeasurementSettings(beam=beam)
                translate = translator(bundle, languages, settings)
                by_direction = {pair.name: translator(bundle, pair, settings) for pair in _several(directions)}
                yield Writer("PyTorch", bundle.encoder, bundle.decoder, translate, languages, by_direction)
                return
            directory = Path(folder)
        exported = ExportedModel.open(directory)
        if is_exported(Path(model)):
            languages = exported.languages_for(languages)
        if exported.head is not None:
            yield Predictor.load(directory, languages)
            return
        if "encoder" not in exported.sides:
            yield ExportedCompleter(exported)
            return
        ratio = MeasurementSettings().max_length_ratio
        translator_of = partial(
            ExportedTranslator, exported, beam=beam, max_length_ratio=ratio, running=engine(exported)
        )
        by_name = {pair.name: translator_of(languages=pair) for pair in _several(directions)}
        write = translator_of(languages=languages)
        yield Writer("CTranslate2", exported.encoder, exported.decoder, write, languages, by_name)


def _several(directions: Sequence[Languages]) -> Sequence[Languages]:
    """The directions, where there is more than one."""
    return directions if len(directions) > 1 else ()


def _is_exported_to(model: Path, folder: Path, languages: Languages | None) -> bool:
    """Export the model, and return whether CTranslate2 is installed and supports it."""
    if find_spec("ctranslate2") is None:
        return False
    from subgraft.modeling.exporting.ctranslate2 import export_ctranslate2

    try:
        export_ctranslate2(model, folder, languages=languages)
    except UserError:
        return False
    return True
