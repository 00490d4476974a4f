"""Searching with CTranslate2 for a model in memory: its current weights are exported through temporary files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.ctranslate2 import Comparison, described, require_ctranslate2, write_exported
from subgraft.modeling.inference.ctranslate2_directory import ExportedModel
from subgraft.modeling.inference.ctranslate2_search import ExportedContinuer, ExportedTranslator, engine
from subgraft.modeling.inference.fast_search import FastContinuer, FastTranslator

WITHOUT_IT = (
    "transformers can: write `engine: transformers` under evaluation, and `dev_engine: transformers` under finetune or "
    "pretrain for dev scores."
)


def fast_translator(
    bundle: Bundle, languages: Languages | None, *, beam: int, max_length_ratio: float, check: bool = True
) -> FastTranslator:
    """A translator with a copy of the model's current weights, on the GPU if there is one.

    check: whether both engines are compared first, as in an export. Raises UserError if CTranslate2 is not installed,
    does not support the model or computes something else.
    """
    exported, running = _loaded(bundle, languages, check)
    limits: dict[str, Any] = {"beam": beam, "max_length_ratio": max_length_ratio}
    search = ExportedTranslator(exported, languages, running=running, **limits)
    form = bundle.sequence_format(languages)
    return FastTranslator(
        search, bundle.model, bundle.encoder, bundle.decoder, form, max_positions=bundle.max_positions, **limits
    )


def fast_continuer(
    bundle: Bundle, languages: Languages | None, *, beam: int, max_length_ratio: float, max_tokens: int | None = None
) -> FastContinuer:
    """The same for a decoder-only model."""
    exported, running = _loaded(bundle, languages, check=True)
    limits: dict[str, Any] = {"beam": beam, "max_length_ratio": max_length_ratio, "max_tokens": max_tokens}
    search = ExportedContinuer(exported, languages, running=running, **limits)
    start = bundle.sequence_format(languages).start
    return FastContinuer(search, bundle.model, bundle.decoder, start, max_positions=bundle.max_positions, **limits)


def _loaded(bundle: Bundle, languages: Languages | None, check: bool) -> tuple[ExportedModel, Any]:
    """The exported model, whose files are deleted, and CTranslate2's engine; leaves the model in evaluation mode."""
    require_ctranslate2()
    bundle.model.eval()  # type: ignore[no-untyped-call]
    try:
        with tempfile.TemporaryDirectory(prefix="subgraft-ctranslate2-") as folder:
            exported = described(bundle, Path(folder), "float32", languages)
            comparison = Comparison(exported, bundle) if check else None
            write_exported(exported, bundle)
            running = engine(exported)
        if comparison is not None:
            comparison.check(running, str(bundle.model.name_or_path or bundle.model.config.model_type))
    except UserError as error:
        raise UserError(error.what, where=error.where, hint=error.hint or WITHOUT_IT) from error
    return exported, running
