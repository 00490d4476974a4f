"""A model that is asked for translations as they come: through CTranslate2 where it can be, else through torch."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings
from subgraft.errors import UserError
from subgraft.inference.ctranslate2_directory import ExportedModel, is_exported
from subgraft.inference.ctranslate2_search import ExportedTranslator
from subgraft.models.bundle import Bundle
from subgraft.stages.evaluate import translator
from subgraft.vocabulary.tokenizer import Tokenizer


@dataclass(frozen=True)
class Writer:
    """Translates texts, and shows how its vocabularies cut them. engine: what it runs on, as a page names it."""

    engine: str
    encoder: Tokenizer
    decoder: Tokenizer
    write: Callable[[Sequence[str]], list[str]]

    def source_pieces(self, text: str) -> list[str]:
        return [self.encoder.pieces[token] for token in self.encoder.encode(text)]

    def target_pieces(self, text: str) -> list[str]:
        return [self.decoder.pieces[token] for token in self.decoder.encode(text)]


@contextmanager
def opened(model: str, languages: Languages | None, beam: int) -> Iterator[Writer]:
    """The model of a directory, an export or a hub id, until the end of the context.

    Raises UserError for a model that does not translate, and for one with language codes where no languages are given.
    """
    with tempfile.TemporaryDirectory(prefix="subgraft-serve-") as folder:
        directory = Path(model)
        if not is_exported(directory):
            bundle = Bundle.load(model)
            _check(bundle, languages, model)
            if not _is_exported_to(model, Path(folder), languages):
                yield _of_bundle(bundle, languages, beam)
                return
            directory = Path(folder)
        exported = ExportedModel.open(directory)
        if "encoder" not in exported.sides:
            raise UserError("this model has no encoder, so it cannot translate", where=model)
        ratio = MeasurementSettings().max_length_ratio
        translate = ExportedTranslator(exported, languages, beam=beam, max_length_ratio=ratio)
        yield Writer("CTranslate2", exported.encoder, exported.decoder, translate)


def _check(bundle: Bundle, languages: Languages | None, model: str) -> None:
    if "encoder" not in bundle.tokenizers:
        raise UserError("this model has no encoder, so it cannot translate", where=model)
    if languages is None and bundle.decoder.languages:
        hint = f"Give --languages SOURCE-TARGET; the model knows: {', '.join(sorted(bundle.decoder.languages))}."
        raise UserError("a model with language codes: say what it is to translate", where=model, hint=hint)


def _is_exported_to(model: str, folder: Path, languages: Languages | None) -> bool:
    """Whether CTranslate2 is there and has such models."""
    if find_spec("ctranslate2") is None:
        return False
    from subgraft.exporting.ctranslate2 import export_ctranslate2

    try:
        export_ctranslate2(model, folder, languages=languages)
    except UserError:
        return False
    return True


def _of_bundle(bundle: Bundle, languages: Languages | None, beam: int) -> Writer:
    settings = MeasurementSettings(beam=beam)
    translate = translator(bundle, languages or Languages(source="en", target="en"), settings)
    return Writer("PyTorch", bundle.encoder, bundle.decoder, translate)
