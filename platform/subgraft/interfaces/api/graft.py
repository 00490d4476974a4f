# mypy: allow-untyped-calls
"""graft: a transformers model and tokenizer in, both with a task's vocabulary out."""

from __future__ import annotations

import copy
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from subgraft.base.errors import ArgumentError, UserError
from subgraft.base.json_io import read_object
from subgraft.config.settings_base import MAX_LOST_LINES, SENTENCEPIECE_KINDS, SideName
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.experiments.fit.choices import vocabulary_size
from subgraft.interfaces.api.arguments import (
    LanguagePair,
    new_languages_of,
    one_of,
    pair_of,
    require_share,
    require_whole,
)
from subgraft.interfaces.api.transfers import check_method, with_new_languages
from subgraft.interfaces.api.vocabularies import Text, lost_lines, text_lines, warn_of, words_of
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.transformers import write_tokenizers
from subgraft.modeling.families import family_of
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.pipeline.compute.transfer import transfer_bundle
from subgraft.subwords.vocabulary.directory import SETTINGS_OF_MODELS
from subgraft.subwords.vocabulary.extend import extend
from subgraft.subwords.vocabulary.learn import kind_like, learn
from subgraft.subwords.vocabulary.learning_errors import TooLargeError
from subgraft.subwords.vocabulary.spelling import remaining_unknown, words_beyond_limit
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Mode = Literal["replace", "extend"]


class Grafted(NamedTuple):
    """A model and its tokenizer, of transformers' own classes."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def graft(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Text,
    *,
    mode: Mode = "replace",
    size: int | None = None,
    method: str = "mean",
    languages: LanguagePair | None = None,
    seed: int = 1,
    new_languages: Mapping[str, str] = MappingProxyType({}),
    words: Sequence[str] = (),
    max_lost_lines: float = MAX_LOST_LINES,
    field: str = "text",
) -> Grafted:
    """Give a transformers model the vocabulary of a task's texts, for `transformers.Trainer` or a training loop.

    The model and tokenizer that are passed are not modified. Tokens of both vocabularies keep their embeddings.

    Args:
        model: of a family that Subgraft supports (docs/checkpoints.md), with its language modelling head or a
            classifying one.
        tokenizer: the model's.
        texts: the task's text, lines, files or folders (`Path`), or a table; of a model with an encoder, in both
            languages.
        mode: replace the vocabulary by one learnt on the texts, or extend it with the texts' most frequent subwords.
        size: subwords of the new vocabulary, or with `extend` those to add; by default what suits the amount of text,
            and no more than the text supports.
        method: the initialiser of new embeddings: mean, random, random-matched or avg; others need trained inputs, see
            `transfer`.
        languages: of models with language codes; by default the tokenizer's `src_lang` and `tgt_lang`.
        seed: of random initialisers.
        new_languages: languages that the model has no code for, each with the initialiser of its code's embedding:
            `mean` of the other codes', `random-matched`, or the language whose code's is copied.
        words: user-defined symbols of the new vocabulary: see `learn_vocabulary`.
        max_lost_lines: the share of lines that the new vocabulary may change and the old one gives back; a warning
            names fewer.
        field: the column of the text in JSON lines, data sets and tables.

    Raises:
        UserError: the family is not supported, the texts are empty, more lines would be lost, a new language has a
            code already or gets none, or transformers has no tokenizer class for the result (two different
            vocabularies of one model).
    """
    from transformers import AutoTokenizer

    one_of("mode", mode, get_args(Mode))
    require_whole("size", size, 1, optional=True)
    require_whole("seed", seed, 0)
    require_share("max_lost_lines", max_lost_lines)
    initialiser = Method(method, None, 10, seed)
    check_method(initialiser)
    code_initialisers = new_languages_of(new_languages)
    pair = _languages(tokenizer, languages)
    with tempfile.TemporaryDirectory(prefix="subgraft-graft-") as folder:
        source_folder, output = Path(folder) / "read", Path(folder) / "written"
        output.mkdir()
        tokenizers = _tokenizers(model, tokenizer, source_folder)
        bundle = with_new_languages(Bundle.of_sides(_copy_model(model), tokenizers), code_initialisers, seed)
        lines = list(text_lines(texts, field))
        vocabulary = _vocabulary(bundle.decoder, lines, mode, size, words_of(words))
        if mode == "extend":
            warn_of(remaining_unknown(vocabulary, Counter(chain.from_iterable(lines))))
        else:
            warn_of(words_beyond_limit(vocabulary, lines))
        warn_of(lost_lines(bundle.decoder, vocabulary, lines, max_lost_lines))
        sides = family_of(model).sides
        result = transfer_bundle(bundle, dict.fromkeys(sides, vocabulary), initialiser).bundle
        result, loading = write_tokenizers(result, output, pair, own_texts=True)
        if loading.tokenizer_code:
            raise UserError("transformers has no tokenizer class for this vocabulary", where="tokenizer")
        result.model.config.save_pretrained(output)  # which AutoTokenizer reads the class from
        loaded: Any = AutoTokenizer.from_pretrained(output, local_files_only=True, trust_remote_code=False)
    grafted = result.model.to(model.device)  # type: ignore[arg-type]
    grafted.train(model.training)
    return Grafted(grafted, loaded)


def _languages(tokenizer: PreTrainedTokenizerBase, languages: LanguagePair | None) -> Any:
    if languages is not None:
        return pair_of(languages)
    codes = getattr(tokenizer, "src_lang", None), getattr(tokenizer, "tgt_lang", None)
    return pair_of((codes[0], codes[1])) if codes[0] and codes[1] else None


def _tokenizers(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path
) -> Mapping[SideName, Tokenizer]:
    """The tokenizer of each side, read from the files that transformers writes to the folder."""
    if not hasattr(model, "config") or not hasattr(tokenizer, "save_pretrained"):
        raise ArgumentError("expected a model and a tokenizer of transformers", where="model")
    family_of(model)  # raises for an unsupported one, before anything is written
    tokenizer.save_pretrained(folder)
    settings = folder / "tokenizer_config.json"  # transformers saves what was passed when it was loaded
    live = {name: getattr(tokenizer, name) for name in SETTINGS_OF_MODELS if hasattr(tokenizer, name)}
    settings.write_text(json.dumps(read_object(settings) | live), encoding="utf-8")
    model.config.save_pretrained(folder)
    try:
        tokenizers = load_tokenizers(folder)
    except UserError as error:
        raise UserError(error.what, where="tokenizer", hint=error.hint) from error
    if len({side_tokenizer.fingerprint for side_tokenizer in tokenizers.values()}) > 1:
        hint = "`subgraft.transfer` gives each side a vocabulary of its own."
        raise UserError("this model has two vocabularies", where="tokenizer", hint=hint)
    return tokenizers


def _copy_model(model: PreTrainedModel) -> PreTrainedModel:
    """A copy on the CPU, in evaluation mode."""
    copied = copy.deepcopy(model).cpu()
    family_of(copied).post_init(copied)
    copied.eval()
    return copied


def _vocabulary(old: Tokenizer, lines: Sequence[str], mode: Mode, size: int | None, words: Sequence[str]) -> Tokenizer:
    """A vocabulary of the old one's kind; without a size, no larger than the text supports."""
    target_size = size if size is not None else vocabulary_size(sum(map(len, lines)))
    try:
        return _make_vocabulary(old, lines, mode, target_size, words)
    except TooLargeError as error:
        if size is not None:
            raise
        return _make_vocabulary(old, lines, mode, error.possible, words)


def _make_vocabulary(old: Tokenizer, lines: Sequence[str], mode: Mode, size: int, words: Sequence[str]) -> Tokenizer:
    if mode == "extend":
        return extend(old, lines, size, words=words)
    kind = kind_like(old)
    return learn(lines, kind=kind, size=size, byte_fallback=kind in SENTENCEPIECE_KINDS, like=old, words=words)
