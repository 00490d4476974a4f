"""Add languages to a model: their codes are added to its vocabulary, with embeddings derived from those of other codes.

A code is not text, so it has no similar tokens. Its embeddings are initialised with the mean of the other codes'
embeddings, with a copy of those of one code, or by sampling from the codes' normal distribution. All other embeddings
are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from subgraft.config.settings_base import SideName
from subgraft.embeddings.initialisers.new_rows import NewRows
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import language_code
from subgraft.modeling.sides import FloatTables, Side, Tables, replace_tables, shares_table, side
from subgraft.modeling.tokenizers import DRAWN_LIKE_CODES, MEAN_OF_CODES, with_languages
from subgraft.subwords.vocabulary.extend import with_codes
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


def add_languages(bundle: Bundle, languages: Mapping[str, str], seed: int = 0) -> Bundle:
    """The model with codes for additional languages. The input model must not be used afterwards.

    Args:
        bundle: The model; spare rows beyond its vocabulary, such as M2M-100's, are used before its tables grow.
        languages: The initialiser of each: `mean`, `random-matched`, or the language whose code's embedding is copied.
        seed: The seed of `random-matched`.

    Raises:
        UserError: As `with_languages` does.
    """
    if not languages:
        return bundle
    old, shared = bundle.tokenizers, shares_table(bundle.model)
    new = with_languages(old, languages)
    extended: dict[SideName, Tokenizer] = {
        name: tokenizer for name, tokenizer in old.items() if new[name] is not tokenizer
    }
    if shared and len(extended) == 1:  # the ids of one side are those of the other
        extended = dict.fromkeys(old, next(iter(extended.values())))
    tables: dict[SideName, Tables] = {
        name: _extend_tables(side(bundle.model, name), tokenizer, languages, seed)
        for name, tokenizer in extended.items()
    }
    if shared:
        tables["encoder"] = replace(tables["encoder"], input=tables["decoder"].input)
    return Bundle.of_sides(replace_tables(bundle.model, tables), new)


def with_codes_of(vocabulary: Tokenizer, model: Tokenizer, languages: Iterable[str]) -> Tokenizer:
    """A new vocabulary with the model's codes of these languages; missing codes are appended to its tokens.

    Args:
        vocabulary: The new vocabulary of a side of the model.
        model: The current vocabulary of that side, after `add_languages`.
        languages: The languages that were added.
    """
    ids = dict(zip(model.languages.values(), model.languages, strict=True))
    codes = [ids[language_code(model, language)] for language in languages] if model.languages else []
    missing = [code for code in codes if code not in vocabulary.languages]
    return with_codes(vocabulary, missing) if missing else vocabulary


@torch.no_grad()
def _extend_tables(upstream: Side, tokenizer: Tokenizer, languages: Mapping[str, str], seed: int) -> Tables:
    """A side's tables with the rows of the new codes, which take the ids from len(tokenizer) on."""
    tables = FloatTables.of(upstream)
    joined, size = tables.joined(), len(tokenizer) + len(languages)
    codes = joined[sorted(tokenizer.languages.values())]
    # The seeds differ, because the two sides of a model must not get the same noise.
    randomness = torch.Generator().manual_seed(2 * seed + (upstream.name == "decoder"))
    noise = torch.randn(len(languages), codes.shape[1], generator=randomness)
    variance, mean = torch.var_mean(codes, dim=0, correction=0)
    code_rows = []
    for noise_row, initialiser in zip(noise, languages.values(), strict=True):
        if initialiser == MEAN_OF_CODES:
            code_rows.append(mean)
        elif initialiser == DRAWN_LIKE_CODES:
            code_rows.append(mean + noise_row * variance.sqrt())
        else:
            code_rows.append(joined[language_code(tokenizer, initialiser)])
    rows = NewRows.of_joined(torch.stack(code_rows), tables, {})

    def with_rows(table: Tensor, new: Tensor) -> Tensor:
        return torch.cat([table[: len(tokenizer)], new.to(table.dtype), table[size:]])

    return Tables(
        with_rows(upstream.input.weight.detach(), rows.input),
        None if rows.output is None or upstream.output is None else with_rows(upstream.output.weight, rows.output),
        None if rows.bias is None or upstream.bias is None else with_rows(upstream.bias.flatten(), rows.bias),
        upstream.padding_id,
    )
