# mypy: allow-untyped-calls
"""Export for transformers: AutoTokenizer and AutoModelFor… load the model without Subgraft, with the same outputs.

The tokenizer adds the special tokens, and generation_config.json has the start of decoding, both for the languages of
the export. A Marian with two SentencePiece vocabularies gets its native files. Other models with two vocabularies get a
tokenizer class, and a split mBART a model class, which AutoTokenizer and AutoModelForSeq2SeqLM load with
trust_remote_code only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
import torch
from tokenizers.models import WordLevel
from transformers import AutoTokenizer, PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.base.limits import MAX_VOCABULARY_SIZE
from subgraft.base.security.terminal_escaping import say
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName
from subgraft.modeling.bundle import DEFAULT_MAX_LENGTH, Bundle
from subgraft.modeling.exporting import two_vocabularies
from subgraft.modeling.families import InputLayout, SequenceFormat, Tables, family_of
from subgraft.modeling.families.heads import is_headed, kind_of_class, longest_input
from subgraft.modeling.generation_settings import with_new_ids
from subgraft.modeling.heads import AUTO_CLASSES, require_head_of_transformers
from subgraft.modeling.hub import require_model
from subgraft.modeling.inference.search import end_tokens
from subgraft.modeling.load import save_without_tokenizers
from subgraft.modeling.sides import replace_tables, shares_table, side
from subgraft.modeling.tokenizers import languages_at
from subgraft.subwords.vocabulary.directory import GENERIC_CLASS
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_spec import replace_added, select_tokens

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
    if is_headed(bundle.model) or ("encoder" not in bundle.tokenizers and family_of(bundle.model).generates):
        _require_same_ids(bundle, languages, out)
    return loading._replace(model_code="auto_map" in config)


def write_tokenizers(
    bundle: Bundle, out: Path, languages: Languages | None, *, own_texts: bool = False
) -> tuple[Bundle, Loading]:
    """Write tokenizers for transformers, and set the model's generation settings to what `generate` needs.

    Returns the model with the token ids of its published layout, and how transformers loads it. Consumes the bundle.

    own_texts: Whether a decoder's tokenizer adds the special tokens that it adds already, not those that `generate`
    puts before a text.
    """
    if is_headed(bundle.model):
        layout = bundle.input_layout(languages)
        texts = _Texts(layout, pairs=True, own=own_texts and "encoder" not in bundle.tokenizers)
        padding = bundle.model.config.pad_token_id
        roles = {} if padding is None else {"pad_token": bundle.encoder.pieces[padding]}
        _write(texts.added_by(bundle.encoder), bundle.encoder, out, _settings(bundle, layout) | roles)
        return bundle, Loading(_auto_class(bundle), model_code=False, tokenizer_code=False)
    bundle = renumbered(bundle)
    form = bundle.sequence_format(languages)
    _set_generation(bundle, form)
    return bundle, _save_tokenizers(bundle, form, out, languages, own_texts)


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


@dataclass(frozen=True)
class _Texts:
    """The special tokens that an exported tokenizer adds.

    Attributes:
        layout: Those around a text and around a pair.
        pairs: Whether pairs must have them too; otherwise the tokenizer's own layout of pairs is retained.
        own: Whether the tokenizer adds those that it adds already instead.
    """

    layout: InputLayout
    pairs: bool = False
    own: bool = False

    def added_by(self, tokenizer: Tokenizer) -> tokenizers.Tokenizer:
        """The tokenizer with a post-processor that adds them, if possible its own, which may also trim offsets."""
        own = tokenizer.specification.get("post_processor")
        for post_processor in (own, self._with_other_tokens(own, tokenizer)):
            if self.own or (post_processor is not None and self._are_added_by(post_processor)):
                break
        else:
            post_processor = self._template(tokenizer)
            steps = own.get("processors", [own]) if own else []
            if trimming := [step for step in steps if step["type"] == "ByteLevel"]:  # which add no tokens
                post_processor = {"type": "Sequence", "processors": [*trimming, post_processor]}
        changed = {**tokenizer.specification, "post_processor": post_processor}
        backend: tokenizers.Tokenizer = tokenizers.Tokenizer.from_str(json.dumps(changed, ensure_ascii=False))
        return backend

    def _are_added_by(self, post_processor: Any) -> bool:
        """Whether a post-processor adds these tokens to a text, and to a pair if it must."""
        text, pair = _processed(post_processor)
        expected = self.layout.pair(*_TWO_TEXTS)
        same_types = not self.layout.segments or pair.type_ids == expected.types
        same_pairs = pair.ids == expected.ids and same_types
        return text.ids == self.layout.single(_TWO_TEXTS[0]).ids and (same_pairs or not self.pairs)

    def _with_other_tokens(self, post_processor: Any, tokenizer: Tokenizer) -> Any:
        """The post-processor with this layout's tokens, such as another language's code, in place of as many others."""
        if post_processor is None:
            return None
        ids, (first,) = _processed(post_processor)[0].ids, _TWO_TEXTS[0]
        begin, end = ids[: ids.index(first)], ids[ids.index(first) + 1 :]
        if (len(begin), len(end)) != (len(self.layout.begin), len(self.layout.end)):
            return None
        new = dict(zip((*begin, *end), (*self.layout.begin, *self.layout.end), strict=True))
        return replace_added(post_processor, lambda piece, i: (tokenizer.pieces[new.get(i, i)], new.get(i, i)))

    def _template(self, tokenizer: Tokenizer) -> dict[str, Any]:
        layout, second = self.layout, int(self.layout.segments)

        def tokens(ids: Sequence[int], segment: int = 0) -> list[dict[str, Any]]:
            return [{"SpecialToken": {"id": tokenizer.pieces[i], "type_id": segment}} for i in ids]

        def text(name: str, segment: int = 0) -> dict[str, Any]:
            return {"Sequence": {"id": name, "type_id": segment}}

        single = [*tokens(layout.begin), text("A"), *tokens(layout.end)]
        pair = [*tokens(layout.begin), text("A"), *tokens(layout.separator)]
        pair += [text("B", second), *tokens(layout.end, second)]
        if layout.last_segment:
            single[-1:] = pair[-1:] = tokens(layout.end[-1:], 2)
        special = {tokenizer.pieces[i]: i for i in (*layout.begin, *layout.separator, *layout.end)}
        named = {piece: {"id": piece, "ids": [i], "tokens": [piece]} for piece, i in special.items()}
        return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": named}


# Two texts of a token each, with ids that no special token has.
_TWO_TEXTS = ([MAX_VOCABULARY_SIZE], [MAX_VOCABULARY_SIZE + 1])


def _processed(post_processor: Any) -> tuple[tokenizers.Encoding, tokenizers.Encoding]:
    """The first of two texts, and both as a pair, with what a post-processor adds."""
    backend = tokenizers.Tokenizer(WordLevel({"a": _TWO_TEXTS[0][0], "b": _TWO_TEXTS[1][0]}, unk_token="a"))
    specification = {**json.loads(backend.to_str()), "post_processor": post_processor}
    backend = tokenizers.Tokenizer.from_str(json.dumps(specification))
    return backend.encode("a"), backend.encode("a", "b")


def _require_same_ids(bundle: Bundle, languages: Languages | None, out: Path) -> None:
    """Raises UserError if AutoTokenizer encodes a text, or a pair for a classifying head, differently.

    For some model types it always uses one class: a Qwen2's text is segmented as by Qwen's own tokenizer, whatever
    tokenizer_config.json says.
    """
    hf_tokenizer: Any = AutoTokenizer.from_pretrained(out, local_files_only=True, trust_remote_code=False)
    ids = [hf_tokenizer(text)["input_ids"] for text in _SAMPLES]
    if is_headed(bundle.model):
        layout, texts = bundle.input_layout(languages), bundle.encoder.encode_batch(_SAMPLES)
        same = ids == [layout.single(text).ids for text in texts]
        same = same and hf_tokenizer(*_SAMPLES[:2])["input_ids"] == layout.pair(texts[0], texts[1]).ids
    else:
        start = bundle.sequence_format(None).start
        same = ids == [[start, *text] for text in bundle.decoder.encode_batch(_SAMPLES)]
    if not same:
        model_type, tokenizer_class = bundle.model.config.model_type, type(hf_tokenizer).__name__
        raise UserError(
            f"AutoTokenizer reads every {model_type} vocabulary as {tokenizer_class}, which segments text differently",
            where=str(bundle.model.name_or_path),
            hint="Extend the model's own vocabulary (`subgraft vocab extend`), or learn one with `--kind "
            "byte-level-bpe --like MODEL`. `subgraft generate` writes with the model as it is.",
        )


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
    if bundle.max_positions < DEFAULT_MAX_LENGTH and settings.max_length is settings.max_new_tokens is None:
        settings.max_length = bundle.max_positions
    if "encoder" in bundle.tokenizers:
        settings.decoder_start_token_id = form.start
        settings.forced_bos_token_id = form.target_beginning


def _save_tokenizers(
    bundle: Bundle, form: SequenceFormat, out: Path, languages: Languages | None, own_texts: bool
) -> Loading:
    loading = Loading(_auto_class(bundle), model_code=False, tokenizer_code=False)
    family, config = family_of(bundle.model), bundle.model.config.to_dict()
    separator, longest = () if family.generates else family.separator(form.source_ending), bundle.max_positions
    layout = InputLayout(form.source_beginning, separator, form.source_ending, family.has_segments(config), longest)
    settings = _settings(bundle, layout)
    if "encoder" not in bundle.tokenizers:
        layout = InputLayout((form.start,), (form.start,), (), False, longest)
        published = bundle.decoder.backend.post_processor is not None
        if published and not own_texts and not bundle.decoder.backend.num_special_tokens_to_add(False):
            piece = bundle.decoder.pieces[form.start]
            say(
                f"the exported tokenizer puts {piece} before texts, as `generate` does; the model's does not",
                to=sys.stderr,
            )
        _write(_Texts(layout, own=own_texts).added_by(bundle.decoder), bundle.decoder, out, settings)
        return loading
    codes = {"source_lang": languages.source, "target_lang": languages.target} if languages else {}
    native = {**bundle.encoder.settings, **settings, **codes}
    if family.save_published_tokenizers(bundle.encoder, bundle.decoder, out, native):
        return loading._replace(prompt=" ".join(bundle.encoder.pieces[token] for token in form.source_beginning))
    source = _Texts(layout).added_by(bundle.encoder)
    if bundle.encoder.fingerprint == bundle.decoder.fingerprint:
        _write(source, bundle.encoder, out, settings)
        return loading
    beginning = () if form.target_beginning is None else (form.target_beginning,)
    target_layout = InputLayout(beginning, form.target_ending, form.target_ending, False, longest)
    target = _Texts(target_layout).added_by(bundle.decoder)
    (out / two_vocabularies.TARGET_FILE).write_text(target.to_str(), encoding="utf-8")
    code = Path(two_vocabularies.__file__)
    (out / code.name).write_text(code.read_text(encoding="utf-8"), encoding="utf-8")
    named = {"tokenizer_class": two_vocabularies.TwoVocabularyTokenizer.__name__}
    named["auto_map"] = {"AutoTokenizer": [f"{code.stem}.{named['tokenizer_class']}", None]}  # type: ignore[assignment]
    _write(source, bundle.encoder, out, settings | named)
    return loading._replace(tokenizer_code=True)


def _settings(bundle: Bundle, layout: InputLayout) -> dict[str, Any]:
    """Settings of the model's that its tokenizer lacks, and the limit on the length of its input."""
    own, family = bundle.encoder.settings, family_of(bundle.model)
    settings: dict[str, Any] = {"padding_side": "left"} if family.pads_left else {}
    if layout.segments and not family.generates:
        settings["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    settings = {name: value for name, value in settings.items() if name not in own}
    limits = [longest_input(bundle.model.config.to_dict()) or DEFAULT_MAX_LENGTH, bundle.max_positions]
    if isinstance(stated := own.get("model_max_length"), int | float):
        limits.append(int(stated))
    return settings | ({"model_max_length": min(limits)} if min(limits) < DEFAULT_MAX_LENGTH else {})


def _write(backend: tokenizers.Tokenizer, tokenizer: Tokenizer, out: Path, settings: Mapping[str, Any]) -> None:
    """Write tokenizer.json, and tokenizer_config.json with a class that uses tokenizer.json unchanged."""
    plain = {"clean_up_tokenization_spaces": False, **tokenizer.settings, "tokenizer_class": GENERIC_CLASS}
    (out / "tokenizer.json").write_text(backend.to_str(), encoding="utf-8")
    config = json.dumps({**plain, **tokenizer.roles, **settings}, indent=2, ensure_ascii=False, sort_keys=True)
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
    shared = shares_table(model)
    tables: dict[SideName, Tables] = {}
    for name, order in orders.items():
        old, new_order = side(model, name), torch.tensor(order)
        untied = old.output is not None and not old.tied
        tables[name] = Tables(
            input=tables["encoder"].input if shared and tables else old.input.weight.detach()[new_order],
            output=old.output.weight.detach()[new_order] if untied and old.output is not None else None,
            bias=None if old.bias is None else old.bias.detach().flatten()[new_order],
            padding_id=None if old.padding_id is None else order.index(old.padding_id),
        )
    model_in_order = replace_tables(model, tables)
    _renumber_settings(model_in_order.config, orders["decoder"])
    _renumber_settings(model_in_order.generation_config, orders["decoder"])
    encoder = _in_order(bundle.encoder, orders["encoder"])
    is_shared = bundle.encoder.fingerprint == bundle.decoder.fingerprint
    return Bundle(model_in_order, encoder, encoder if is_shared else _in_order(bundle.decoder, orders["decoder"]))


def _in_order(tokenizer: Tokenizer, order: Sequence[int]) -> Tokenizer:
    return tokenizer.with_specification(select_tokens(tokenizer.specification, order))


def _renumber_settings(settings: Any, order: Sequence[int]) -> None:
    """Replace the decoder's token ids in a configuration, except the padding id, which the new embeddings have set."""
    new_ids = {old: new_id for new_id, old in enumerate(order)}
    values, _ = with_new_ids(vars(settings), lambda token, role: new_ids.get(token, token))
    for name, value in values.items():
        if name != "pad_token_id":
            setattr(settings, name, value)
