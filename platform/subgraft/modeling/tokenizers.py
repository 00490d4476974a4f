"""The tokenizers of a model directory, one per side, and the languages that its files name.

A tokenizer that both sides share is at the root; otherwise each side has a folder, `encoder/` and `decoder/`. (For a
language model with a text source, the source's tokenizer is in `encoder/`.) Published layouts are supported as well: a
Marian's two SentencePiece models, an mBART's or a GPT-2's single vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path

from subgraft.base.errors import ArgumentError, UserError
from subgraft.base.json_io import object_in
from subgraft.config.corpora import UNDETERMINED, Languages
from subgraft.config.settings_base import SideName
from subgraft.modeling.families import Family, is_same_language, language_code, new_code, vocabulary_sizes
from subgraft.modeling.hub import SMALL_FILES, adapter_base, family_at, read_config, resolve_model
from subgraft.subwords.vocabulary.extend import with_codes
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

SIDES: tuple[SideName, ...] = ("encoder", "decoder")
# The initialisers of the embedding of a new language's code; the name of another language copies that of its code.
MEAN_OF_CODES, DRAWN_LIKE_CODES = "mean", "random-matched"
# The languages of a model that was saved outside a store.
LANGUAGES = "languages.json"


def load_tokenizers(model: Path | str) -> dict[SideName, Tokenizer]:
    """The tokenizer of each side of a model directory or hub id; the same object if they share it.

    Raises UserError if a vocabulary is missing or has more tokens than config.json has rows, or the model's family is
    not supported.
    """
    directory = resolve_model(model, SMALL_FILES)
    directory = adapter_base(directory, str(model)) or directory
    tokenizers = tokenizers_at(directory, family_at(directory, str(model), body=True))
    sizes: Mapping[SideName, int] = {}
    with suppress(UserError):  # sizes that config.json leaves to transformers are compared when the model is loaded
        sizes = vocabulary_sizes(read_config(directory))
    require_rows(tokenizers, sizes, str(model))
    return tokenizers


def tokenizers_at(directory: Path, family: Family) -> dict[SideName, Tokenizer]:
    """The tokenizer of each side of a model of this family, whose config.json may be in another directory."""
    separate_sides = SIDES if family.has_source else family.sides
    if all((directory / side).is_dir() for side in separate_sides):
        return {side: Tokenizer.load(directory / side) for side in separate_sides}
    published = family.published_tokenizers(directory)
    return published or dict.fromkeys(family.sides, Tokenizer.load(directory))


def require_rows(tokenizers: Mapping[SideName, Tokenizer], rows: Mapping[SideName, int], where: str = "") -> None:
    """Raises UserError if a side has fewer embeddings than its vocabulary has tokens; spare ones are allowed."""
    for side in (side for side in SIDES if side in tokenizers and side in rows):
        tokenizer, table = tokenizers[side], rows[side]
        if len(tokenizer) > table:
            added = " ".join(tokenizer.pieces[table:][:5])
            hint = "Give the vocabulary that it was trained with; or, if tokens were added to it, resize the embeddings"
            hint += ": model.resize_token_embeddings(len(tokenizer)) in transformers, and save both."
            what = f"the model's {side} has {table:,} rows for {len(tokenizer):,} tokens, and none for {added}"
            raise UserError(what, where=where, hint=hint)


def with_languages(tokenizers: Mapping[SideName, Tokenizer], languages: Mapping[str, str]) -> dict[SideName, Tokenizer]:
    """Add codes for new languages after the existing tokens; a tokenizer of both sides stays one object.

    Args:
        tokenizers: The tokenizer of each side; a tokenizer without language codes is not changed.
        languages: The initialiser of each new code's embedding by language, as in `upstream.new_languages`.

    Raises:
        UserError: A language already has a code, its name cannot become a code, its initialiser is a language without a
            code, or the model has no language codes.
    """
    extended = {each.fingerprint: each for each in tokenizers.values() if each.languages}
    if languages and not extended:
        raise UserError("the vocabulary has no language codes, so it cannot get a new one")
    for (fingerprint, old), (language, initialiser) in product(list(extended.items()), languages.items()):
        _require_start(old, language, initialiser)
        extended[fingerprint] = with_codes(extended[fingerprint], [new_code(extended[fingerprint], language)])
    return {side: extended.get(each.fingerprint, each) for side, each in tokenizers.items()}


def _require_start(tokenizer: Tokenizer, language: str, initialiser: str) -> None:
    """Raises UserError if the initialiser of a new language is a language that the vocabulary has no code for."""
    if initialiser in (MEAN_OF_CODES, DRAWN_LIKE_CODES):
        return
    try:
        language_code(tokenizer, initialiser)
    except UserError as error:
        hint = f"Write {MEAN_OF_CODES}, {DRAWN_LIKE_CODES} or a language of the model. {error.hint}"
        raise UserError(f"'{language}' cannot start as '{initialiser}': {error.what}", hint=hint) from error


def save_tokenizers(tokenizers: Mapping[SideName, Tokenizer], directory: Path) -> None:
    """Write the tokenizers of all sides in the layout that `load_tokenizers` reads."""
    if len({tokenizer.fingerprint for tokenizer in tokenizers.values()}) == 1:
        next(iter(tokenizers.values())).save(directory)
        return
    for side, tokenizer in tokenizers.items():
        tokenizer.save(directory / side)


def checkpoint_languages(directory: Path) -> Languages | None:
    """The languages of a model, if its files name them: models made by Subgraft, and published bilingual Marians."""
    directory = adapter_base(directory) or directory
    if named := _named_directions(directory):
        return named[0]
    recipe = object_in(directory / "record.json").get("recipe")
    recorded = recipe.get("languages") if isinstance(recipe, dict) else None
    if isinstance(recorded, dict) and {"source", "target"} <= recorded.keys():
        return Languages(source=str(recorded["source"]), target=str(recorded["target"]))
    settings = object_in(directory / "tokenizer_config.json")
    pair = str(settings.get("source_lang")), str(settings.get("target_lang"))
    # A multilingual model has its tokenizer's default languages there, or the name of a group.
    single = settings.get("tokenizer_class") in (None, "MarianTokenizer")
    return Languages(source=pair[0], target=pair[1]) if single and all(len(code) == 2 for code in pair) else None


def write_languages(directions: Sequence[Languages], directory: Path) -> None:
    """Name the languages of a model in its directory, where `checkpoint_languages` finds them."""
    if directions:
        named = {"directions": [pair.model_dump() for pair in directions]}
        (directory / LANGUAGES).write_text(json.dumps(named, indent=1) + "\n", encoding="utf-8")


def checkpoint_directions(directory: Path) -> tuple[Languages, ...]:
    """All directions that a model was finetuned on, where its files name them; `checkpoint_languages` is the first."""
    directory = adapter_base(directory) or directory
    if named := _named_directions(directory):
        return named
    first = checkpoint_languages(directory)
    recipe = object_in(directory / "record.json").get("recipe")
    other_directions = recipe.get("further_directions") if isinstance(recipe, dict) else None
    pairs = list(other_directions.values()) if isinstance(other_directions, dict) else []
    valid = [each for each in pairs if isinstance(each, dict) and {"source", "target"} <= each.keys()]
    others = [Languages(source=str(each["source"]), target=str(each["target"])) for each in valid]
    return () if first is None else tuple(dict.fromkeys((first, *others)))


def _named_directions(directory: Path) -> tuple[Languages, ...]:
    """The directions in the file of `write_languages`; none without it."""
    named = object_in(directory / LANGUAGES).get("directions")
    pairs = [pair for pair in named if isinstance(pair, dict)] if isinstance(named, list) else []
    return tuple(
        Languages(source=str(pair["source"]), target=str(pair["target"]))
        for pair in pairs
        if {"source", "target"} <= pair.keys()
    )


def languages_at(directory: Path, requested: Languages | None) -> Languages | None:
    """As `languages_of` a model in a directory."""
    if requested is None:
        return checkpoint_languages(directory)
    return languages_of(checkpoint_directions(directory), load_tokenizers(directory).values(), requested)


def languages_of(
    known: Sequence[Languages], tokenizers: Iterable[Tokenizer], requested: Languages | None
) -> Languages | None:
    """The languages that a model is used for: the requested ones, or else the first of those that its files name.

    Raises ArgumentError for languages that contradict the files of a model without language codes, which can be used
    for no others.
    """
    if requested is None:
        return known[0] if known else None
    determined = known and not any(UNDETERMINED in (pair.source, pair.target) for pair in known)
    if not determined or any(tokenizer.languages for tokenizer in tokenizers):
        return requested
    for pair in known:
        if is_same_language(requested.source, pair.source) and is_same_language(requested.target, pair.target):
            return requested
    names = ", ".join(pair.name for pair in known)
    hint = f"It has no language codes, so it is of use for {names} alone: leave `languages` out."
    raise ArgumentError(f"the model is for {names}, not for {requested.name}", where="languages", hint=hint)
