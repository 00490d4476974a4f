# mypy: allow-untyped-calls
"""A model whose tokens have the ids that the layout asks for which its family is published in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from subgraft.config.settings_base import SideName
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import Tables, family_of
from subgraft.modeling.sides import replace_tables, shares_table, side
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_spec import as_tokenizer, keeping, specification_of

_LISTS = ("bad_words_ids", "suppress_tokens", "begin_suppress_tokens")


def renumbered(bundle: Bundle) -> Bundle:
    """The bundle with the token order of its family's `published_numbering`; the same object if it has that order.

    Rows without a token are dropped. Consumes the model.
    """
    model = bundle.model
    orders = family_of(model).published_numbering(bundle.encoder, bundle.decoder)
    rows = {name: len(side(model, name).input.weight) for name in orders}
    if all(list(order) == list(range(rows[name])) for name, order in orders.items()):
        return bundle
    made = _with_orders(model, orders)
    _translate(made.config, orders["decoder"])
    _translate(made.generation_config, orders["decoder"])
    encoder = _in_order(bundle.encoder, orders["encoder"])
    one = bundle.encoder.fingerprint == bundle.decoder.fingerprint
    return Bundle(made, encoder, encoder if one else _in_order(bundle.decoder, orders["decoder"]))


def _with_orders(model: PreTrainedModel, orders: Mapping[SideName, Sequence[int]]) -> PreTrainedModel:
    shared = shares_table(model)
    tables: dict[SideName, Tables] = {}
    for name, order in orders.items():
        old, chosen = side(model, name), torch.tensor(order)
        untied = old.output is not None and not old.tied
        tables[name] = Tables(
            input=tables["encoder"].input if shared and tables else old.input.weight.detach()[chosen],
            output=old.output.weight.detach()[chosen] if untied and old.output is not None else None,
            bias=None if old.bias is None else old.bias.detach().flatten()[chosen],
            padding_id=None if old.padding_id is None else order.index(old.padding_id),
        )
    return replace_tables(model, tables)


def _in_order(tokenizer: Tokenizer, order: Sequence[int]) -> Tokenizer:
    return as_tokenizer(keeping(specification_of(tokenizer), order), tokenizer)


def _translate(settings: Any, order: Sequence[int]) -> None:
    """Replace the decoder's token ids in a configuration; padding ids were replaced with the embeddings."""
    new = {old: at for at, old in enumerate(order)}
    for name, value in list(vars(settings).items()):
        named = name.endswith("_token_id") and name not in ("pad_token_id", "encoder_pad_token_id")
        if named or name in _LISTS:
            setattr(settings, name, _translated(value, new))


def _translated(value: Any, new: Mapping[int, int]) -> Any:
    if isinstance(value, list):
        return [_translated(each, new) for each in value]
    return new.get(value, value)
