"""What models make of texts: translations, and continuations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from subgraft.api.given import LanguagePair, located, pair_of
from subgraft.api.models import Model, load
from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings
from subgraft.errors import UserError
from subgraft.inference.ctranslate2_directory import ExportedModel, is_exported
from subgraft.inference.ctranslate2_search import ExportedContinuer, ExportedTranslator
from subgraft.models.families import Family, family_of
from subgraft.models.hub import read_config, require_model
from subgraft.stages.continuation import continuer
from subgraft.stages.evaluate import translator
from subgraft.vocabulary.tokenizer import Tokenizer


def translate(
    model: Model | Path | str,
    texts: Sequence[str],
    *,
    languages: LanguagePair | None = None,
    beam: int = 4,
    batch_size: int = 32,
) -> list[str]:
    """A translation of each text, as `subgraft generate` writes them.

    model: one in memory, or a directory, an export of one to CTranslate2, a hub id, or models:/NAME@ALIAS.
    languages: of source and target, for models with language codes; by default those that the model was made for.
    batch_size: sentences at a time.

    Raises UserError for a model that writes no text or has no encoder, and for languages that it does not know.
    """
    return _outputs(model, texts, languages, beam, batch_size, None, prompts=False)


def generate(
    model: Model | Path | str,
    texts: Sequence[str],
    *,
    languages: LanguagePair | None = None,
    beam: int = 4,
    batch_size: int = 32,
    max_tokens: int | None = None,
) -> list[str]:
    """As `translate`; a model without an encoder continues each text, by `max_tokens` at most."""
    return _outputs(model, texts, languages, beam, batch_size, max_tokens, prompts=True)


def _outputs(
    model: Model | Path | str,
    texts: Sequence[str],
    languages: LanguagePair | None,
    beam: int,
    batch_size: int,
    max_tokens: int | None,
    *,
    prompts: bool,
) -> list[str]:
    """prompts: whether a model without an encoder may continue them; else UserError is raised for it."""
    if isinstance(texts, str):
        raise UserError("expected a list of texts, found one", where="texts", hint="Give [text].")
    pair, settings = pair_of(languages) if languages else None, MeasurementSettings(beam=beam, batch_size=batch_size)
    if isinstance(model, Model):
        _require_writer(family_of(model.bundle.model), "the model")
        return _of_model(model, texts, pair, settings, max_tokens, prompts=prompts)
    place = located(model)
    if is_exported(Path(place)):
        return _of_export(Path(place), texts, pair, settings, max_tokens, prompts=prompts)
    _require_writer(family_of(read_config(require_model(place))), str(model))  # before weights are read
    return _of_model(load(place), texts, pair, settings, max_tokens, prompts=prompts)


def _require_writer(family: Family, where: str) -> None:
    """Raises UserError for a family whose models write no text."""
    if not family.generates:
        hint = "`subgraft assemble` makes an encoder-decoder of it, which is finetuned before it writes anything."
        raise UserError(f"{family.model_type} models write no text", where=where, hint=hint)


def _require_fitting(*, translates: bool, prompts: bool, max_tokens: int | None) -> None:
    """Raises UserError where a model without an encoder is to translate, or one with an encoder takes `max_tokens`."""
    if not translates and not prompts:
        raise UserError("this model has no encoder, so it cannot translate", where="the model")
    if translates and max_tokens is not None:
        hint = "Leave it out: outputs are limited by the length of their sources."
        raise UserError("this model has an encoder", where="--max-tokens", hint=hint)


def _of_model(
    model: Model,
    texts: Sequence[str],
    pair: Languages | None,
    settings: MeasurementSettings,
    max_tokens: int | None,
    *,
    prompts: bool,
) -> list[str]:
    bundle, languages = model.bundle, pair or model.languages
    _refuse_codes(texts, bundle.encoder)
    translates = "encoder" in bundle.tokenizers
    _require_fitting(translates=translates, prompts=prompts, max_tokens=max_tokens)
    if translates:
        return translator(bundle, languages, settings)(texts, settings.batch_size)
    return continuer(bundle, languages, settings, max_tokens)(texts, settings.batch_size)


def _of_export(
    directory: Path,
    texts: Sequence[str],
    pair: Languages | None,
    settings: MeasurementSettings,
    max_tokens: int | None,
    *,
    prompts: bool,
) -> list[str]:
    exported, beam, ratio = ExportedModel.open(directory), settings.beam, settings.max_length_ratio
    translates = "encoder" in exported.sides
    _require_fitting(translates=translates, prompts=prompts, max_tokens=max_tokens)
    if translates:
        return ExportedTranslator(exported, pair, beam=beam, max_length_ratio=ratio)(texts, settings.batch_size)
    go_on = ExportedContinuer(exported, pair, beam=beam, max_length_ratio=ratio, max_tokens=max_tokens)
    return go_on(texts, settings.batch_size)


def _refuse_codes(texts: Sequence[str], tokenizer: Tokenizer) -> None:
    """Raises UserError for a text that begins with the code of a language, which would be read as text."""
    for number, text in enumerate(texts, 1):
        code = next((code for code in tokenizer.languages if text.startswith(code)), None)
        if code is not None:
            hint = "Leave it out of the text, and say --languages SOURCE-TARGET."
            raise UserError(f"the text begins with the language code {code}", where=f"line {number}", hint=hint)
