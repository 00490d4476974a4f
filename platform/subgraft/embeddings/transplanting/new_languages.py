"""Languages that a model lacks: their codes join its vocabulary, each with an embedding made of other codes'.

A code is not text, so it has no similar tokens. Its embeddings start as the mean of the other codes', as those of one
of them, or are drawn from the normal distribution of theirs. All other embeddings stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from subgraft.config.domains import DRAWN_LIKE_CODES, MEAN_OF_CODES
from subgraft.config.settings_base import SideName
from subgraft.embeddings.initialisers.new_rows import FloatTables
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import language_code
from subgraft.modeling.sides import Side, Tables, replace_tables, shares_table, side
from subgraft.modeling.tokenizers import with_languages
from subgraft.subwords.vocabulary.extend import with_codes
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


def add_languages(bundle: Bundle, languages: Mapping[str, str], seed: int = 0) -> Bundle:
    """The model with codes for further languages. Its modules are reused: do not use it afterwards.

    Args:
        bundle: The model; rows beyond its vocabulary, such as M2M-100's, are taken before its tables grow.
        languages: The initialiser of each: `mean`, `random-matched`, or the language whose code's embedding is copied.
        seed: Of `random-matched`.

    Raises:
        UserError: As `with_languages` does.
    """
    if not languages:
        return bundle
    old, shared = bundle.tokenizers, shares_table(bundle.model)
    new = with_languages(old, languages)
    coded: dict[SideName, Tokenizer] = {name: each for name, each in old.items() if new[name] is not each}
    if shared and len(coded) == 1:  # the ids of one side are those of the other
        coded = dict.fromkeys(old, next(iter(coded.values())))
    tables: dict[SideName, Tables] = {
        name: _grown(side(bundle.model, name), each, languages, seed) for name, each in coded.items()
    }
    if shared:
        tables["encoder"] = replace(tables["encoder"], input=tables["decoder"].input)
    return Bundle.of_sides(replace_tables(bundle.model, tables), new)


def with_codes_of(vocabulary: Tokenizer, model: Tokenizer, languages: Iterable[str]) -> Tokenizer:
    """A new vocabulary with the model's codes of these languages: those that it lacks follow its tokens.

    Args:
        vocabulary: One that the model is to get.
        model: The vocabulary of that side of the model, after `add_languages`.
        languages: Those that were added.
    """
    ids = dict(zip(model.languages.values(), model.languages, strict=True))
    codes = [ids[language_code(model, language)] for language in languages] if model.languages else []
    lacking = [code for code in codes if code not in vocabulary.languages]
    return with_codes(vocabulary, lacking) if lacking else vocabulary


@torch.no_grad()
def _grown(upstream: Side, tokenizer: Tokenizer, languages: Mapping[str, str], seed: int) -> Tables:
    """A side's tables with the rows of the new codes, which take the ids from len(tokenizer) on."""
    tables = FloatTables.of(upstream)
    joined, size = tables.joined(), len(tokenizer) + len(languages)
    codes = joined[sorted(tokenizer.languages.values())]
    # The two sides of a model must not get the same noise.
    randomness = torch.Generator().manual_seed(2 * seed + (upstream.name == "decoder"))
    noise = torch.randn(len(languages), codes.shape[1], generator=randomness)
    variance, mean = torch.var_mean(codes, dim=0, correction=0)
    made = []
    for drawn, initialiser in zip(noise, languages.values(), strict=True):
        if initialiser == MEAN_OF_CODES:
            made.append(mean)
        elif initialiser == DRAWN_LIKE_CODES:
            made.append(mean + drawn * variance.sqrt())
        else:
            made.append(joined[language_code(tokenizer, initialiser)])
    rows = tables.rows(torch.stack(made), {})

    def with_rows(table: Tensor, new: Tensor) -> Tensor:
        return torch.cat([table[: len(tokenizer)], new.to(table.dtype), table[size:]])

    return Tables(
        with_rows(upstream.input.weight.detach(), rows.input),
        None if rows.output is None or upstream.output is None else with_rows(upstream.output.weight, rows.output),
        None if rows.bias is None or upstream.bias is None else with_rows(upstream.bias.flatten(), rows.bias),
        upstream.padding_id,
    )
