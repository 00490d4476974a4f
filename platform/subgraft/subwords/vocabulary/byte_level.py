"""Learn a byte-level BPE vocabulary as in GPT-2, Qwen and Llama 3 (Radford et al. 2019, section 2.2)."""

from __future__ import annotations

import json
from collections.abc import Iterable

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers

from subgraft.subwords.vocabulary.entry import CHARACTER_OF_BYTE, Mark
from subgraft.subwords.vocabulary.learning_errors import empty_corpus, no_room_for_bytes, too_large
from subgraft.subwords.vocabulary.specials import SpecialTokens
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


def learn(lines: Iterable[str], size: int, special: SpecialTokens, like: Tokenizer | None) -> tokenizers.Tokenizer:
    """A tokenizer of exactly `size` pieces including all 256 bytes; words are split as in GPT-2, or as in `like`."""
    first, appended = list(special.first_pieces), len(special.last)
    smallest = len(first) + len(CHARACTER_OF_BYTE)
    if size < smallest:
        raise no_room_for_bytes(size + appended, smallest + appended)
    trainee = _pipeline(models.BPE(), like)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=first,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    text = [line for line in lines if not line.isspace()]
    if not any(text):
        raise empty_corpus()
    trainee.train_from_iterator(text, trainer=trainer)
    model = json.loads(trainee.to_str())["model"]
    if len(model["vocab"]) < size:
        raise too_large(size + appended, len(model["vocab"]) + appended)
    learnt = _pipeline(models.BPE(model["vocab"], [tuple(merge) for merge in model["merges"]]), like)
    learnt.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in first])
    return learnt


def _pipeline(model: models.BPE, like: Tokenizer | None) -> tokenizers.Tokenizer:
    built = tokenizers.Tokenizer(model)
    if like is not None and like.mark is Mark.BYTELEVEL:
        if like.backend.normalizer is not None:
            built.normalizer = like.backend.normalizer
        built.pre_tokenizer = like.backend.pre_tokenizer
        built.decoder = like.backend.decoder
    else:
        built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        built.decoder = decoders.ByteLevel()
    return built
