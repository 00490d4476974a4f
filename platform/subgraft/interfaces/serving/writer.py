"""A model that answers requests as they come, through the engine that is asked for, or the fastest that has it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypeAlias

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings
from subgraft.config.settings_base import DecodingEngine
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.llama_cpp import LlamaCppCompleter, LlamaCppModel, require_engine_at
from subgraft.modeling.families import family_of
from subgraft.modeling.gguf_files import gguf_at
from subgraft.modeling.heads import head_of
from subgraft.modeling.hub import require_model
from subgraft.modeling.inference.complete import Completer, ExportedCompleter, TorchCompleter
from subgraft.modeling.inference.ctranslate2_directory import ExportedModel, is_exported
from subgraft.modeling.inference.ctranslate2_search import ExportedTranslator
from subgraft.modeling.inference.ctranslate2_search import engine as open_exported
from subgraft.modeling.tokenizers import checkpoint_directions, languages_at
from subgraft.pipeline.compute.outputs import translator
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.setup import device
from subgraft.training.understanding.predictor import Predictor

# Translates texts with a beam of this size.
Write: TypeAlias = Callable[[Sequence[str], int], list[str]]


class Source(NamedTuple):
    """A text to translate. direction, beam: None for those that the server was started with."""

    text: str
    direction: str | None = None
    beam: int | None = None


@dataclass(frozen=True)
class Writer:
    """Translates texts, and shows their segmentation.

    engine: the engine's name on the page. languages: the direction of `write`, if it is known.
    directions: of a model with several directions, the translator of each by its name.
    beam: for requests that name none.
    """

    engine: str
    encoder: Tokenizer
    decoder: Tokenizer
    write: Write
    languages: Languages | None = None
    directions: Mapping[str, Write] = field(default_factory=dict)
    beam: int = 1

    def answer(self, sources: Sequence[Source]) -> list[str]:
        """An output for each source."""
        outputs = [""] * len(sources)
        for direction, beam in dict.fromkeys((source.direction, source.beam) for source in sources):
            indices = [index for index, source in enumerate(sources) if source[1:] == (direction, beam)]
            write = self.write if direction is None else self.directions[direction]
            written = write([sources[index].text for index in indices], beam or self.beam)
            for index, output in zip(indices, written, strict=True):
                outputs[index] = output
        return outputs

    def source_pieces(self, text: str) -> list[str]:
        return [self.encoder.pieces[token] for token in self.encoder.encode(text)]

    def target_pieces(self, text: str) -> list[str]:
        return [self.decoder.pieces[token] for token in self.decoder.encode(text)]


# A model that is served.
Served: TypeAlias = Writer | Completer | Predictor


@contextmanager
def open_model(
    model: str, languages: Languages | None, beam: int, engine: DecodingEngine | None = None
) -> Iterator[Served]:
    """The model of a directory, an export or a hub id, until the end of the context; with a head it predicts labels.

    languages: of models with language codes; by default those that the model's files name, which may be several
    directions. engine: what runs it; by default CTranslate2 if that supports it, else transformers. Raises UserError if
    the languages are unknown, if the engine does not support the model, and for a model that reads something other than
    text.
    """
    with tempfile.TemporaryDirectory(prefix="subgraft-serve-") as folder:
        yield _opened(model, languages, beam, engine, Path(folder))


def _opened(model: str, languages: Languages | None, beam: int, engine: DecodingEngine | None, folder: Path) -> Served:
    """folder: where an export to CTranslate2 may be written and stay."""
    if (file := gguf_at(model)) is not None:
        _require(engine, "llamacpp", "a GGUF runs in llama.cpp")
        return LlamaCppCompleter(LlamaCppModel.of_file(file))
    if is_exported(Path(model)):
        _require(engine, "ctranslate2", "an export to CTranslate2 runs there")
        exported = ExportedModel.open(Path(model))
        return _of_export(exported, exported.languages_for(languages), (), beam)
    directory = require_model(model)
    if engine == "llamacpp":
        require_engine_at(directory, model)
    directions = () if languages else checkpoint_directions(directory)
    languages = languages_at(directory, languages)
    bundle = Bundle.load(directory)
    if engine == "llamacpp":
        return LlamaCppCompleter(LlamaCppModel.of_bundle(bundle, model))
    if head_of(bundle.model) is not None:
        return Predictor(bundle, languages, model)
    if family_of(bundle.model).has_source:
        hint = "`subgraft generate` writes its texts."
        raise UserError("this model writes texts for sources, so it is not served", where=model, hint=hint)
    bundle.sequence_format(languages)  # an error here is not one of the export to CTranslate2
    if _is_exported_to(directory, folder, languages, engine):
        return _of_export(ExportedModel.open(folder), languages, directions, beam)
    if "encoder" not in bundle.tokenizers:
        bundle.model.to(device())  # type: ignore[arg-type]
        return TorchCompleter(bundle)

    def search(pair: Languages | None, beam: int) -> Callable[[Sequence[str]], list[str]]:
        return translator(bundle, pair, MeasurementSettings(beam=beam))

    return _writer("PyTorch", (bundle.encoder, bundle.decoder), search, languages, directions, beam)


def _of_export(
    exported: ExportedModel, languages: Languages | None, directions: Sequence[Languages], beam: int
) -> Served:
    if exported.head is not None:
        return Predictor.load(exported.directory, languages)
    if "encoder" not in exported.sides:
        return ExportedCompleter(exported)
    ratio, running = MeasurementSettings().max_length_ratio, open_exported(exported)

    def search(pair: Languages | None, beam: int) -> Callable[[Sequence[str]], list[str]]:
        return ExportedTranslator(exported, pair, beam=beam, max_length_ratio=ratio, running=running)

    return _writer("CTranslate2", (exported.encoder, exported.decoder), search, languages, directions, beam)


def _writer(
    engine: str,
    tokenizers: tuple[Tokenizer, Tokenizer],
    search: Callable[[Languages | None, int], Callable[[Sequence[str]], list[str]]],
    languages: Languages | None,
    directions: Sequence[Languages],
    beam: int,
) -> Writer:
    """search: makes the translator of a direction with a beam of this size."""
    search = cache(search)

    def for_any_beam(pair: Languages | None) -> Write:
        return lambda texts, beam: search(pair, beam)(texts)

    by_name = {pair.name: for_any_beam(pair) for pair in directions} if len(directions) > 1 else {}
    return Writer(engine, *tokenizers, for_any_beam(languages), languages, by_name, beam)


def _require(engine: DecodingEngine | None, needed: DecodingEngine, why: str) -> None:
    """Raises UserError for another engine than that of an export."""
    if engine not in (None, needed):
        raise UserError(why, where="--engine", hint="Leave it out.")


def _is_exported_to(model: Path, folder: Path, languages: Languages | None, engine: DecodingEngine | None) -> bool:
    """Export the model, and return whether CTranslate2 runs it. Raises UserError if only that would do."""
    if engine == "transformers" or (engine is None and find_spec("ctranslate2") is None):
        return False
    from subgraft.modeling.exporting.ctranslate2 import export_ctranslate2

    try:
        export_ctranslate2(model, folder, languages=languages)
    except UserError:
        if engine is not None:
            raise
        return False
    return True
