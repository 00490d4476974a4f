"""Models in memory, and their outputs: translations and continuations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from subgraft.base.errors import ArgumentError, UserError
from subgraft.base.files import require_path
from subgraft.base.limits import MAX_BEAM_SIZE
from subgraft.base.progress import ProgressCallback
from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings
from subgraft.config.settings_base import DecodingEngine, SideName
from subgraft.data.text.features import FEATURES, Features
from subgraft.interfaces.api.arguments import LanguagePair, located, one_of, pair_of, path_of, require_whole, shown
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.llama_cpp import LlamaCppContinuer, LlamaCppModel, require_engine_at
from subgraft.modeling.families import Family, Head, family_of
from subgraft.modeling.gguf_files import gguf_at
from subgraft.modeling.heads import head_of
from subgraft.modeling.hub import family_at, pinned, read_config, require_model
from subgraft.modeling.inference.ctranslate2_directory import ExportedModel, is_exported
from subgraft.modeling.inference.ctranslate2_search import ExportedContinuer, ExportedTranslator
from subgraft.modeling.inference.prompts import ChatTemplate
from subgraft.modeling.inference.write_text import Writer, written_for
from subgraft.modeling.tokenizers import checkpoint_directions, languages_of, write_languages
from subgraft.orchestration.store.outputs import new_directory
from subgraft.pipeline.compute.continuation import continuer_by_engine
from subgraft.pipeline.compute.outputs import translator_by_engine
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.conditioned import source_read

if TYPE_CHECKING:
    from subgraft.embeddings.transplanting.transplant import TransplantReport


@dataclass(frozen=True, repr=False)
class Model:
    """A model that was loaded or made; functions that take it do not modify it.

    bundle: the transformers model (`bundle.model`) and the tokenizer of each side (`bundle.tokenizers`).
    languages: those that it was made for, where its files say so.
    reports: after a transfer, by side, how the new tokens were initialised.
    further_directions: those in addition to `languages`.
    source: the directory or hub id that it was loaded from.
    original: after a transfer, the source of the model that was transferred, and its vocabularies' fingerprints.
    """

    bundle: Bundle
    languages: Languages | None = None
    reports: Mapping[SideName, TransplantReport] = field(default_factory=dict)
    further_directions: tuple[Languages, ...] = ()
    source: str = ""
    original: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Family, sizes and languages in one line."""
        model, tokenizers = self.bundle.model, self.bundle.tokenizers
        sizes = {side: f"{len(tokenizer):,}" for side, tokenizer in tokenizers.items()}
        shared = len({id(tokenizer) for tokenizer in tokenizers.values()}) == 1
        vocabulary = next(iter(sizes.values())) if shared else " + ".join(sizes.values())
        facts = [family_of(model).in_words(model.config.to_dict()), f"{model.num_parameters():,} parameters"]
        facts += [] if (head := head_of(model)) is None else [str(head)]
        facts += [f"vocabulary of {vocabulary} pieces", str(model.dtype).removeprefix("torch.")]
        facts += [f"{self.languages.source}-{self.languages.target}"] if self.languages else []
        return f"<Model: {', '.join(facts)}>"

    def save(self, out: Path | str) -> None:
        """Write it into an absent or empty directory, atomically; `load` and all commands read it."""
        with new_directory(path_of("out", out)) as place:
            self.write(place)

    def languages_for(self, requested: Languages | None) -> Languages | None:
        """The requested languages, or else its own. Raises ArgumentError for those that it cannot be used for."""
        return languages_of(self._directions, self.bundle.tokenizers.values(), requested)

    @property
    def _directions(self) -> tuple[Languages, ...]:
        return (self.languages, *self.further_directions) if self.languages else ()

    def write(self, directory: Path) -> None:
        """Write its files into an existing directory."""
        self.bundle.save(directory)
        write_languages(self._directions, directory)
        if self.reports:
            from subgraft.pipeline.compute.transfer import write_reports

            write_reports(self.reports, directory, self.original)


def load(model: Path | str) -> Model:
    """The model of a directory, a hub id, or models:/NAME@ALIAS.

    Raises UserError if it contains none, for an unknown family, and for weights that are not in safetensors.
    """
    name = located(model)
    directory = require_model(name)
    source = str(directory.absolute()) if Path(name).is_dir() else pinned(str(name), directory)
    return replace(of_directory(directory), source=source)


def of_directory(directory: Path) -> Model:
    """The model of a directory in which `require_model` has found one."""
    directions = checkpoint_directions(directory)
    return Model(Bundle.load(directory), directions[0] if directions else None, further_directions=directions[1:])


def translate(
    model: Model | Path | str,
    texts: Sequence[str],
    *,
    languages: LanguagePair | None = None,
    beam: int | None = None,
    batch_size: int = 32,
    progress: ProgressCallback | None = None,
) -> list[str]:
    """A translation of each text, as `subgraft generate` writes them.

    model: one in memory, or a directory, an export of one to CTranslate2, a hub id, or models:/NAME@ALIAS.
    languages: of source and target, for models with language codes; by default those that the model was made for.
    beam: by default 4.  batch_size: sentences at a time.
    progress: called after each batch with the sentences done and their total.

    Raises UserError for a model that writes no text or has no encoder, and for languages that it does not know.
    """
    return _outputs(model, replace(_request(model, texts, languages, beam, batch_size), progress=progress))


def generate(
    model: Model | Path | str,
    texts: Sequence[str] | Sequence[np.ndarray],
    *,
    languages: LanguagePair | None = None,
    beam: int | None = None,
    batch_size: int = 32,
    max_tokens: int | None = None,
    chat: bool = False,
    engine: DecodingEngine | None = None,
    progress: ProgressCallback | None = None,
) -> list[str]:
    """As `translate`; a model without an encoder continues each text, by `max_tokens` at most.

    model: it may be a GGUF or an export to one too, which llama.cpp runs.  beam: 4, or 1 with llama.cpp.
    chat: it answers each text as a user's turn, by its tokenizer's chat template, in `max_tokens` or 512 tokens.
    Raises UserError for one without such a template.
    engine: "transformers", "ctranslate2" or "llamacpp"; by default that of an export, and transformers for models.
    Raises UserError if it does not support the model.

    One that writes for classes takes the label of a class in place of each text; one that reads features takes rows of
    them [n, k], which `features_in` reads from a file.
    """
    require_whole("max_tokens", max_tokens, 1, optional=True)
    request = _request(model, texts, languages, beam, batch_size, engine)
    return _outputs(model, replace(request, prompts=True, max_tokens=max_tokens, chat=chat, progress=progress))


def features_in(path: Path | str, tensor: str = FEATURES) -> Sequence[np.ndarray]:
    """The rows of features [n, k] of each example in a safetensors file, in the forms that a corpus of them may have.

    They are read from the file when they are used. Raises UserError for a file of anything else.
    """
    features = Features.open(require_path(Path(path)), tensor)
    features.require_finite()
    return features


@dataclass(frozen=True)
class _GenerationRequest:
    """The texts and settings of a generation.

    where: the model, as messages name it.  prompts: whether a model without an encoder may continue the texts.
    chat: whether it answers them as turns of a conversation.  engine: the one that was asked for, if any.
    """

    where: str
    texts: Sequence[Any]
    languages: Languages | None
    settings: MeasurementSettings
    prompts: bool = False
    max_tokens: int | None = None
    chat: bool = False
    progress: ProgressCallback | None = None
    engine: DecodingEngine | None = None

    def require_fitting(self, *, translates: bool) -> None:
        """Raises UserError for translation without an encoder, and for `max_tokens` or `chat` with one."""
        if not translates and not self.prompts:
            hint = "`subgraft generate` continues or answers texts; `evaluate --hypotheses` scores its outputs."
            raise UserError("this model has no encoder, so it cannot translate", where=self.where, hint=hint)
        if translates and self.max_tokens is not None:
            hint = "Leave it out: outputs are limited by the length of their sources."
            raise ArgumentError("this model has an encoder", where="max_tokens", hint=hint)
        if translates and self.chat:
            hint = "Leave it out: it has no conversations."
            raise ArgumentError("this model has an encoder", where="chat", hint=hint)

    def template(self, tokenizer: Tokenizer) -> ChatTemplate | None:
        """The tokenizer's chat template, if `chat` needs it. Raises UserError if it has none."""
        return ChatTemplate.of(tokenizer, self.where) if self.chat else None


def _request(
    model: Model | Path | str,
    texts: Sequence[Any],
    languages: LanguagePair | None,
    beam: int | None,
    batch_size: int,
    engine: DecodingEngine | None = None,
) -> _GenerationRequest:
    if isinstance(texts, str):
        raise ArgumentError("expected a list of texts, found one", where="texts", hint="Give [text].")
    if not _are_texts(texts):
        raise ArgumentError(f"expected a list of texts, found {shown(texts)}", where="texts")
    require_whole("beam", beam, 1, MAX_BEAM_SIZE, optional=True)
    require_whole("batch_size", batch_size, 1)
    if engine is not None:
        one_of("engine", engine, get_args(DecodingEngine))
    where = "the model" if isinstance(model, Model) else str(model)
    pair = None if languages is None else pair_of(languages)
    if engine is None and isinstance(model, str | Path) and gguf_at(model) is not None:
        engine = "llamacpp"
    if engine == "llamacpp":
        if beam not in (None, 1):
            raise ArgumentError("llama.cpp has no beam search", where="beam", hint="Leave it out.")
        beam = 1
    settings = MeasurementSettings(beam=beam or 4, batch_size=batch_size, engine=engine or "transformers")
    return _GenerationRequest(where, texts, pair, settings, engine=engine)


def _are_texts(texts: Any) -> bool:
    """Whether it is a sequence of texts or of arrays; features in a file are not read."""
    if isinstance(texts, Features):
        return True
    return isinstance(texts, Sequence) and all(isinstance(text, str | np.ndarray) for text in texts)


def _outputs(model: Model | Path | str, request: _GenerationRequest) -> list[str]:
    if isinstance(model, Model):
        _require_writer(family_of(model.bundle.model), head_of(model.bundle.model), request.where)
        return _generate_with_model(model, request)
    path = located(model)
    if (file := gguf_at(path)) is not None:
        _require_engine("llamacpp", request, "a GGUF runs in llama.cpp")
        return _generate_with_gguf(file, request)
    if is_exported(Path(path)):
        _require_engine("ctranslate2", request, "an export to CTranslate2 runs there")
        return _generate_with_export(Path(path), request)
    directory = require_model(path)
    config = read_config(directory)
    _require_writer(family_at(directory, request.where), head_of(config), request.where)  # before weights are read
    if request.engine == "llamacpp":
        require_engine_at(directory, request.where)
    return _generate_with_model(of_directory(directory), request)


def _require_engine(engine: DecodingEngine, request: _GenerationRequest, why: str) -> None:
    """Raises ArgumentError for another engine than that of an export."""
    if request.engine not in (None, engine):
        raise ArgumentError(why, where="engine", hint="Leave it out.")


def _require_writer(family: Family, head: Head | None, where: str) -> None:
    """Raises UserError for a family whose models write no text, and for a model with a classifying head."""
    if head is not None:
        hint = "`subgraft predict` predicts with it."
        raise UserError(f"this {family.model_type} model has {head}, and writes no text", where=where, hint=hint)
    if not family.generates:
        hint = "`subgraft assemble` makes an encoder-decoder of it, which is finetuned before it writes anything."
        raise UserError(f"{family.model_type} models write no text", where=where, hint=hint)


def _generate_with_model(model: Model, request: _GenerationRequest) -> list[str]:
    bundle, languages, settings = model.bundle, model.languages_for(request.languages), request.settings
    _refuse_codes(request.texts, bundle.encoder)
    translates = "encoder" in bundle.tokenizers
    request.require_fitting(translates=translates)
    if translates:
        return translator_by_engine(bundle, languages, settings)(request.texts, settings.batch_size, request.progress)
    if family_of(bundle.model).has_source:
        for name, value in (("chat", request.chat), ("engine", request.engine not in (None, "transformers"))):
            if value:
                raise ArgumentError("this model writes for a source", where=name, hint="Leave it out.")
        write = Writer(bundle, settings, request.max_tokens or bundle.max_positions)
        return written_for(write, source_read(bundle), request.texts, request.progress)
    answer = continuer_by_engine(bundle, languages, settings, request.max_tokens, request.template(bundle.decoder))
    return answer(request.texts, settings.batch_size, request.progress)


def _generate_with_export(directory: Path, request: _GenerationRequest) -> list[str]:
    exported, settings = ExportedModel.open(directory), request.settings
    exported.languages_for(request.languages)
    _require_writer(exported.family, exported.head, request.where)
    beam, ratio, max_tokens = settings.beam, settings.max_length_ratio, request.max_tokens
    translates = "encoder" in exported.sides
    request.require_fitting(translates=translates)
    write: ExportedTranslator | ExportedContinuer
    if translates:
        write = ExportedTranslator(exported, request.languages, beam=beam, max_length_ratio=ratio)
    else:
        chat = request.template(exported.decoder)
        write = ExportedContinuer(
            exported, request.languages, beam=beam, max_length_ratio=ratio, max_tokens=max_tokens, chat=chat
        )
    return write(request.texts, settings.batch_size, request.progress)


def _generate_with_gguf(file: Path, request: _GenerationRequest) -> list[str]:
    request.require_fitting(translates=False)
    model = LlamaCppModel.of_file(file)
    limits: dict[str, Any] = {"max_tokens": request.max_tokens, "chat": request.template(model.tokenizer)}
    write = LlamaCppContinuer(model, max_length_ratio=request.settings.max_length_ratio, **limits)
    return write(request.texts, request.settings.batch_size, request.progress)


def _refuse_codes(texts: Sequence[str], tokenizer: Tokenizer) -> None:
    """Raises UserError for a text that begins with the code of a language, which would be read as text."""
    for number, text in enumerate(texts, 1) if not isinstance(texts, Features) else ():
        code = next((code for code in tokenizer.languages if text.startswith(code)), None)
        if code is not None:
            hint = "Leave it out of the text, and name source and target by `languages`."
            raise UserError(f"the text begins with the language code {code}", where=f"line {number}", hint=hint)
