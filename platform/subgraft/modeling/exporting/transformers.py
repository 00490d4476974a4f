# mypy: allow-untyped-calls
"""Export for transformers: AutoTokenizer and AutoModelFor… load the model without Subgraft, with the same outputs.

The tokenizer adds the special tokens, and generation_config.json has the start of decoding, both for the languages of
the export. A Marian with two SentencePiece vocabularies gets its native files. Other models with two vocabularies get a
tokenizer class, and a split mBART a model class, which AutoTokenizer and AutoModelForSeq2SeqLM load with
trust_remote_code only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
import torch
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName
from subgraft.modeling.bundle import DEFAULT_MAX_LENGTH, Bundle
from subgraft.modeling.exporting import two_vocabularies
from subgraft.modeling.families import InputLayout, SequenceFormat, Tables, family_of
from subgraft.modeling.families.heads import is_headed, kind_of_class, longest_input
from subgraft.modeling.heads import AUTO_CLASSES, require_head_of_transformers
from subgraft.modeling.hub import require_model
from subgraft.modeling.inference.search import end_tokens
from subgraft.modeling.load import save_without_tokenizers
from subgraft.modeling.sides import replace_tables, shares_table, side
from subgraft.modeling.tokenizers import languages_at
from subgraft.subwords.vocabulary.directory import CHAT_TEMPLATE
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_spec import select_tokens

_LISTS = ("bad_words_ids", "suppress_tokens", "begin_suppress_tokens")
# Texts that different kinds of tokenizers segment differently: spaces, digits, accents, punctuation, scripts.
_SAMPLES = ("A text, and  «another» – 12.5 %.", " naïve Straße 2024\tx", "don't I'LL 日本語 ½ e\u0301")


class Loading(NamedTuple):
    """How transformers loads an export.

    Attributes:
        model_class: The auto class of the model.
        model_code: Whether the model requires trust_remote_code.
        tokenizer_code: Whether the tokenizer requires trust_remote_code.
        prompt: The text that users write before every source, if the tokenizer does not add it.
    """

    model_class: str
    model_code: bool
    tokenizer_code: bool
    prompt: str = ""


def export_transformers(model: Path | str, out: Path, languages: Languages | None = None) -> Loading:
    """Write weights, generation settings and tokenizer to an empty directory.

    If transformers has no class for the model, the part that it has a class for is written (`Family.for_transformers`).

    Args:
        model: A model directory or hub id.
        out: The empty directory.
        languages: For models with language codes; by default those in the model's files.

    Raises:
        UserError: Languages are required and unknown, the vocabulary lacks a special token, transformers has no layout
            for the vocabularies, or the model is a language model with a source.
    """
    directory = require_model(model)
    languages = languages_at(directory, languages)
    bundle = Bundle.load(directory)
    if family_of(bundle.model).has_source:
        hint = "`subgraft generate` writes with it."
        raise UserError("transformers has no class for a language model with a source", where=str(model), hint=hint)
    require_head_of_transformers(bundle.model, str(model))
    bundle = replace(bundle, model=family_of(bundle.model).for_transformers(bundle.model))
    bundle, loading = write_tokenizers(bundle, out, languages)
    save_without_tokenizers(bundle.model, out)
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    if is_headed(bundle.model):
        _require_same_pairs(bundle, bundle.input_layout(languages), out)
    elif "encoder" not in bundle.tokenizers and family_of(bundle.model).generates:
        _require_same_texts(bundle, bundle.sequence_format(None), out)
    return loading._replace(model_code="auto_map" in config)


def write_tokenizers(bundle: Bundle, out: Path, languages: Languages | None) -> tuple[Bundle, Loading]:
    """Write tokenizers for transformers, and set the model's generation settings to what `generate` needs.

    Returns the model with the token ids of its published layout, and how transformers loads it. Consumes the bundle.
    """
    if is_headed(bundle.model):
        _write_for_head(bundle, out, languages)
        return bundle, Loading(_auto_class(bundle), model_code=False, tokenizer_code=False)
    bundle = renumbered(bundle)
    form = bundle.sequence_format(languages)
    _set_generation(bundle, form)
    code, prompt = _save_tokenizers(bundle, form, out, languages)
    return bundle, Loading(_auto_class(bundle), model_code=False, tokenizer_code=code, prompt=prompt)


def _auto_class(bundle: Bundle) -> str:
    if (kind := kind_of_class(type(bundle.model).__name__)) is not None:
        return AUTO_CLASSES[kind]
    family = family_of(bundle.model)
    if family.auto_class is not None:
        return family.auto_class
    if not family.generates:
        both = family.predicts_next_sentence(bundle.model.config.to_dict())
        return "AutoModelForPreTraining" if both else "AutoModelForMaskedLM"
    return "AutoModelForSeq2SeqLM" if "encoder" in bundle.tokenizers else "AutoModelForCausalLM"


def _write_for_head(bundle: Bundle, out: Path, languages: Languages | None) -> None:
    """Write the tokenizer of a model with a classifying head: special tokens of texts and pairs, segments, padding."""
    tokenizer, layout = bundle.encoder, bundle.input_layout(languages)
    special_tokens = {tokenizer.pieces[token]: token for token in (*layout.begin, *layout.separator, *layout.end)}
    begin, separator, end = ([tokenizer.pieces[i] for i in ids] for ids in (layout.begin, layout.separator, layout.end))
    second = int(layout.segments)
    single, pair = [*begin, "$A", *end], [*begin, "$A", *separator, f"$B:{second}", *(f"{p}:{second}" for p in end)]
    if layout.last_segment:
        single[-1] = pair[-1] = f"{end[-1]}:2"
    backend: tokenizers.Tokenizer = tokenizers.Tokenizer.from_str(tokenizer.backend.to_str())
    backend.post_processor = TemplateProcessing(single=single, pair=pair, special_tokens=list(special_tokens.items()))
    padding = bundle.model.config.pad_token_id
    inputs = ["input_ids", *(["token_type_ids"] if layout.segments else []), "attention_mask"]
    padding_side = "left" if family_of(bundle.model).pads_left else "right"
    settings: dict[str, Any] = {"model_input_names": inputs, "padding_side": padding_side}
    settings |= {} if padding is None else {"pad_token": tokenizer.pieces[padding]}
    _write(backend, tokenizer, out, settings | _limit(bundle))


def _require_same_pairs(bundle: Bundle, layout: InputLayout, out: Path) -> None:
    """Raises UserError if AutoTokenizer encodes a text or a pair differently for a model with a classifying head."""
    hf_tokenizer: Any = AutoTokenizer.from_pretrained(out, local_files_only=True, trust_remote_code=False)
    texts = bundle.encoder.encode_batch(_SAMPLES)
    first = [hf_tokenizer(text)["input_ids"] for text in _SAMPLES] == [layout.single(ids).ids for ids in texts]
    if not first or hf_tokenizer(*_SAMPLES[:2])["input_ids"] != layout.pair(texts[0], texts[1]).ids:
        raise _segmentation_error(bundle, hf_tokenizer)


def _set_generation(bundle: Bundle, form: SequenceFormat) -> None:
    """Set the generation settings that `generate` reads and that Subgraft passes as arguments."""
    model: PreTrainedModel = bundle.model
    settings: Any = model.generation_config if model.can_generate() else None
    if settings is None:
        return
    special = bundle.decoder.special
    ends = end_tokens(model, bundle.decoder)
    settings.eos_token_id = list(ends) if len(ends) > 1 else ends[0]
    settings.pad_token_id = special.get("pad", special["eos"])
    settings.bos_token_id = special.get("bos", settings.bos_token_id)
    settings.forced_eos_token_id = None
    if bundle.max_positions < DEFAULT_MAX_LENGTH:
        settings.max_length = bundle.max_positions
    if "encoder" in bundle.tokenizers:
        settings.decoder_start_token_id = form.start
        settings.forced_bos_token_id = form.target_beginning


def _require_same_texts(bundle: Bundle, form: SequenceFormat, out: Path) -> None:
    """Raises UserError if AutoTokenizer encodes texts differently for a decoder-only model.

    For some model types it always uses one class: a Qwen2's text is segmented as by Qwen's own tokenizer, whatever
    tokenizer_config.json says.
    """
    hf_tokenizer: Any = AutoTokenizer.from_pretrained(out, local_files_only=True, trust_remote_code=False)
    expected = [[form.start, *ids] for ids in bundle.decoder.encode_batch(_SAMPLES)]
    if [hf_tokenizer(text)["input_ids"] for text in _SAMPLES] == expected:
        return
    raise _segmentation_error(bundle, hf_tokenizer)


def _segmentation_error(bundle: Bundle, hf_tokenizer: Any) -> UserError:
    model_type, tokenizer_class = bundle.model.config.model_type, type(hf_tokenizer).__name__
    return UserError(
        f"AutoTokenizer reads every {model_type} vocabulary as {tokenizer_class}, which segments text differently",
        where=str(bundle.model.name_or_path),
        hint="Extend the model's own vocabulary (`subgraft vocab extend`), or learn one with `--kind byte-level-bpe "
        "--like MODEL`. `subgraft generate` writes with the model as it is.",
    )


class _Written(NamedTuple):
    """Written tokenizers: whether they need a class that transformers lacks, and `Loading.prompt`."""

    code: bool
    prompt: str = ""


def _save_tokenizers(bundle: Bundle, form: SequenceFormat, out: Path, languages: Languages | None) -> _Written:
    limit = _limit(bundle)
    if "encoder" not in bundle.tokenizers:
        _write(_with_special_tokens(bundle.decoder, (form.start,), ()), bundle.decoder, out, limit)
        return _Written(code=False)
    codes = {"source_lang": languages.source, "target_lang": languages.target} if languages else {}
    if family_of(bundle.model).save_published_tokenizers(bundle.encoder, bundle.decoder, out, {**limit, **codes}):
        return _Written(code=False, prompt=" ".join(bundle.encoder.pieces[token] for token in form.source_beginning))
    source = _with_special_tokens(bundle.encoder, form.source_beginning, form.source_ending)
    if bundle.encoder.fingerprint == bundle.decoder.fingerprint:
        _write(source, bundle.encoder, out, limit)
        return _Written(code=False)
    beginning = () if form.target_beginning is None else (form.target_beginning,)
    target = _with_special_tokens(bundle.decoder, beginning, form.target_ending)
    (out / two_vocabularies.TARGET_FILE).write_text(target.to_str(), encoding="utf-8")
    code = Path(two_vocabularies.__file__)
    (out / code.name).write_text(code.read_text(encoding="utf-8"), encoding="utf-8")
    named = {"tokenizer_class": two_vocabularies.TwoVocabularyTokenizer.__name__}
    named["auto_map"] = {"AutoTokenizer": [f"{code.stem}.{named['tokenizer_class']}", None]}  # type: ignore[assignment]
    _write(source, bundle.encoder, out, limit | named)
    return _Written(code=True)


def _limit(bundle: Bundle) -> dict[str, int]:
    longest = longest_input(bundle.model.config.to_dict()) or DEFAULT_MAX_LENGTH
    limit = min(longest, bundle.max_positions)
    return {"model_max_length": limit} if limit < DEFAULT_MAX_LENGTH else {}


def _with_special_tokens(tokenizer: Tokenizer, beginning: Sequence[int], ending: Sequence[int]) -> tokenizers.Tokenizer:
    """The tokenizer with a post-processor that adds these tokens around each text."""
    wrapped: tokenizers.Tokenizer = tokenizers.Tokenizer.from_str(tokenizer.backend.to_str())
    pieces = {tokenizer.pieces[token]: token for token in (*beginning, *ending)}
    template = [*(tokenizer.pieces[t] for t in beginning), "$A", *(tokenizer.pieces[t] for t in ending)]
    wrapped.post_processor = TemplateProcessing(single=template, special_tokens=list(pieces.items()))
    return wrapped


def _write(backend: tokenizers.Tokenizer, tokenizer: Tokenizer, out: Path, settings: Mapping[str, Any]) -> None:
    """Write tokenizer.json, and tokenizer_config.json with a class that uses tokenizer.json unchanged."""
    roles = {f"{role}_token": tokenizer.pieces[token] for role, token in tokenizer.special.items()}
    plain = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    plain |= {name: value for name, value in tokenizer.config.items() if name == CHAT_TEMPLATE}
    (out / "tokenizer.json").write_text(backend.to_str(), encoding="utf-8")
    config = json.dumps({**plain, **roles, **settings}, indent=2, ensure_ascii=False, sort_keys=True)
    (out / "tokenizer_config.json").write_text(config + "\n", encoding="utf-8")


def renumbered(bundle: Bundle) -> Bundle:
    """The bundle with the token order of its family's `published_numbering`; the same object if it has that order.

    Rows without a token are dropped. Consumes the model.
    """
    model = bundle.model
    orders = family_of(model).published_numbering(bundle.encoder, bundle.decoder)
    rows = {name: len(side(model, name).input.weight) for name in orders}
    if all(list(order) == list(range(rows[name])) for name, order in orders.items()):
        return bundle
    model_in_order = _with_orders(model, orders)
    _renumber_settings(model_in_order.config, orders["decoder"])
    _renumber_settings(model_in_order.generation_config, orders["decoder"])
    encoder = _in_order(bundle.encoder, orders["encoder"])
    is_shared = bundle.encoder.fingerprint == bundle.decoder.fingerprint
    return Bundle(model_in_order, encoder, encoder if is_shared else _in_order(bundle.decoder, orders["decoder"]))


def _with_orders(model: PreTrainedModel, orders: Mapping[SideName, Sequence[int]]) -> PreTrainedModel:
    shared = shares_table(model)
    tables: dict[SideName, Tables] = {}
    for name, order in orders.items():
        old, rows = side(model, name), torch.tensor(order)
        untied = old.output is not None and not old.tied
        tables[name] = Tables(
            input=tables["encoder"].input if shared and tables else old.input.weight.detach()[rows],
            output=old.output.weight.detach()[rows] if untied and old.output is not None else None,
            bias=None if old.bias is None else old.bias.detach().flatten()[rows],
            padding_id=None if old.padding_id is None else order.index(old.padding_id),
        )
    return replace_tables(model, tables)


def _in_order(tokenizer: Tokenizer, order: Sequence[int]) -> Tokenizer:
    return tokenizer.with_specification(select_tokens(tokenizer.specification, order))


def _renumber_settings(settings: Any, order: Sequence[int]) -> None:
    """Replace the decoder's token ids in a configuration, except padding ids, which the new embeddings have set."""
    new_ids = {old: new_id for new_id, old in enumerate(order)}
    for name, value in list(vars(settings).items()):
        is_token_id = name.endswith("_token_id") and name not in ("pad_token_id", "encoder_pad_token_id")
        if is_token_id or name in _LISTS:
            setattr(settings, name, _renumber(value, new_ids))


def _renumber(value: Any, new: Mapping[int, int]) -> Any:
    if isinstance(value, list):
        return [_renumber(each, new) for each in value]
    return new.get(value, value)
