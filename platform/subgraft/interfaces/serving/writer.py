"""A model that answers requests as they come, through the engine that is asked for, or the fastest that has it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
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
    directions: tuple[Languages, ...] = ()
    if (file := gguf_at(model)) is not None:
        _require(engine, "llamacpp", "a GGUF runs in llama.cpp")
        yield LlamaCppCompleter(LlamaCppModel.of_file(file))
        return
    if is_exported(Path(model)):
        _require(engine, "ctranslate2", "an export to CTranslate2 runs there")
    with tempfile.TemporaryDirectory(prefix="subgraft-serve-") as folder:
        directory = Path(model)
        if not is_exported(directory):
            directory = require_model(model)
            if engine == "llamacpp":
                require_engine_at(directory, model)
            directions = () if languages else checkpoint_directions(directory)
            languages = languages_at(directory, languages)
            bundle = Bundle.load(directory)
            if engine == "llamacpp":
                yield LlamaCppCompleter(LlamaCppModel.of_bundle(bundle, model))
                return
            if head_of(bundle.model) is not None:
                yield Predictor(bundle, languages, model)
                return
            if family_of(bundle.model).has_source:
                hint = "`subgraft generate` writes its texts."
                raise UserError("this model writes texts for sources, so it is not served", where=model, hint=hint)
            bundle.sequence_format(languages)  # an error here is not one of the export to CTranslate2
            if not _is_exported_to(directory, Path(folder), languages, engine):
                if "encoder" not in bundle.tokenizers:
                    bundle.model.to(device())  # type: ignore[arg-type]
                    yield TorchCompleter(bundle)
                    return

                def search(pair: Languages | None, beam: int) -> Callable[[Sequence[str]], list[str]]:
                    return translator(bundle, pair, MeasurementSettings(beam=beam))

                by_direction = {pair.name: _for_any_beam(search, pair) for pair in _several(directions)}
                write = _for_any_beam(search, languages)
                yield Writer("PyTorch", bundle.encoder, bundle.decoder, write, languages, by_direction, beam)
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
        ratio, running = MeasurementSettings().max_length_ratio, open_exported(exported)

        def search_exported(pair: Languages | None, beam: int) -> Callable[[Sequence[str]], list[str]]:
            return ExportedTranslator(exported, pair, beam=beam, max_length_ratio=ratio, running=running)

        by_name = {pair.name: _for_any_beam(search_exported, pair) for pair in _several(directions)}
        write = _for_any_beam(search_exported, languages)
        yield Writer("CTranslate2", exported.encoder, exported.decoder, write, languages, by_name, beam)


def _for_any_beam(
    search: Callable[[Languages | None, int], Callable[[Sequence[str]], list[str]]], pair: Languages | None
) -> Write:
    """A translator of this direction, which is made once for each size of the beam."""
    by_beam = cache(partial(search, pair))
    return lambda texts, beam: by_beam(beam)(texts)


def _several(directions: Sequence[Languages]) -> Sequence[Languages]:
    """The directions, where there is more than one."""
    return directions if len(directions) > 1 else ()


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
