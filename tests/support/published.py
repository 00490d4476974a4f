"""Checkpoints as they are published, small: the files of each by name and form, a vocabulary of its class, few weights.

Vocabularies are trained on the built-in corpus by the libraries that the published ones were trained with. What lies
in a directory next to weights is what the hub has there: some have tokenizer.json, some a SentencePiece model alone.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB_CODES

from subgraft.config.corpora import Languages
from subgraft.data.sources.generated import corpus

WIDTH, LAYERS, HEADS, INNER, POSITIONS = 16, 1, 2, 24, 64
TWO_STACKS: dict[str, Any] = {
    "d_model": WIDTH,
    "encoder_layers": LAYERS,
    "decoder_layers": LAYERS,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": INNER,
    "decoder_ffn_dim": INNER,
    "max_position_embeddings": POSITIONS,
    "init_std": 0.5,
}
BERT_LIKE: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "initializer_range": 0.5,
}
DECODER: dict[str, Any] = {**BERT_LIKE, "num_key_value_heads": 1, "max_position_embeddings": POSITIONS}
ENGLISH_GERMAN = Languages(source="en", target="de")


@dataclass(frozen=True)
class Checkpoint:
    """One published checkpoint.

    name: as people call it.  publish: writes its directory.  languages: its value for --languages, if any.
    prompt: what transformers' users put before a text, which is not part of our input.  settings: of its tokenizer.
    as_file: whether tokenizer.json is read as it stands: transformers 5 rebuilds a T5's, with the third piece for
    what is unknown, which in MADLAD-400 is the end.
    """

    name: str
    publish: Callable[[Path], None]
    languages: Languages | None = None
    prompt: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    as_file: bool = False


@cache
def english(count: int = 1200) -> tuple[str, ...]:
    return tuple(pair[0] for pair in corpus.pairs("everyday", "train", count))


@cache
def german(count: int = 1200) -> tuple[str, ...]:
    return tuple(pair[1] for pair in corpus.pairs("everyday", "train", count))


@cache
def sentencepiece_model(kind: str, size: int, languages: str = "en de", **options: Any) -> bytes:
    """A trained SentencePiece model, with the normalisation that all published ones here have."""
    lines = [*(english() if "en" in languages else ()), *(german() if "de" in languages else ())]
    # Published ones know every character of a keyboard.
    lines += ["Straße 10 % (§ 5) „ja“ – 7,50 €; “no” … " + " ".join(map(chr, range(33, 127)))] * 20
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type=kind,
        vocab_size=size,
        num_threads=1,
        minloglevel=2,
        **{"character_coverage": 1.0, "normalization_rule_name": "nmt_nfkc", **options},
    )
    return model.getvalue()


def _pieces(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(len(processor))]


def _json(directory: Path, **files: Any) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / f"{name}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")


def _seen(directory: Path) -> int:
    """How many ids the tokenizer has that transformers makes of the directory; it needs the model's type there."""
    return len(transformers.AutoTokenizer.from_pretrained(directory))


def _write_tokenizer_json(directory: Path) -> None:
    """As transformers makes it of the other files."""
    built = transformers.AutoTokenizer.from_pretrained(directory)
    built.backend_tokenizer.save(str(directory / "tokenizer.json"))


def _weights(
    directory: Path, kind: type[PreTrainedModel], config: PreTrainedConfig, extra: Mapping[str, Any] | None = None
) -> PreTrainedModel:
    """config.json, weights and generation settings of a model drawn here; `extra` is added to config.json."""
    torch.manual_seed(3)
    model = kind(config)
    model.train(False)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") and "layer_norm" not in name:
                parameter.normal_(0.0, 0.2)
    model.save_pretrained(directory)
    content = json.loads((directory / "config.json").read_text()) | dict(extra or {})
    _json(directory, config={name: value for name, value in content.items() if value is not None})
    return model


# Marian.


def opus_mt(directory: Path, codes: Sequence[str] = (), separate: bool = False, end: int = 0, **config: Any) -> None:
    """Helsinki-NLP/opus-mt: two SentencePiece models, one numbering, the padding id last.

    codes: of target languages.  separate: whether each side has a numbering of its own; both are then of one size.
    end: the id of the end of a sentence, which lies anywhere in opus-mt-tc-big.
    """
    directory.mkdir(parents=True, exist_ok=True)
    size = 500 if separate else 520
    sides = {"source": sentencepiece_model("unigram", 500, "en"), "target": sentencepiece_model("unigram", size, "de")}
    for side, model in sides.items():
        (directory / f"{side}.spm").write_bytes(model)
    source, target = (_pieces(model) for model in sides.values())
    sets = [[*source, *codes], target] if separate else [[*source, *target, *codes]]
    numberings = [_numbering(pieces, end) for pieces in sets]
    _json(
        directory,
        tokenizer_config={"source_lang": "en", "target_lang": "mul" if codes else "de", "model_max_length": 512}
        | ({"separate_vocabs": True} if separate else {}),
        **dict(zip(("vocab", "target_vocab"), numberings, strict=False)),
    )
    padding = len(numberings[0]) - 1
    described = transformers.MarianConfig(  # type: ignore[call-arg]
        **TWO_STACKS,
        vocab_size=len(numberings[0]),
        decoder_vocab_size=len(numberings[-1]),
        share_encoder_decoder_embeddings=not separate,
        pad_token_id=padding,
        decoder_start_token_id=padding,
        eos_token_id=end,
        forced_eos_token_id=end,
        bos_token_id=0,
        activation_function="swish",
        scale_embedding=True,
        bad_words_ids=[[padding]],
        **config,
    )
    extra = {"add_final_layer_norm": False, "normalize_before": False, "static_position_embeddings": True}
    _weights(directory, transformers.MarianMTModel, described, {**extra, "num_beams": 4, "max_length": 512})


def _numbering(pieces: Iterable[str], end: int) -> dict[str, int]:
    special = ("<s>", "</s>", "<unk>")
    ordered = ["<unk>", *dict.fromkeys(piece for piece in pieces if piece not in special), "<pad>"]
    ordered.insert(end, "</s>")
    return {piece: i for i, piece in enumerate(ordered)}


def opus_mt_many(directory: Path) -> None:
    opus_mt(directory, (">>fra<<", ">>deu<<", ">>cmn_Hans<<"))


# mBART.


def mbart(directory: Path, tokenizer: str, sizes: Mapping[str, Any] | None = None, **config: Any) -> None:
    """facebook/mbart: a SentencePiece model alone; codes and mask are added by the tokenizer's class."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "sentencepiece.bpe.model").write_bytes(sentencepiece_model("unigram", 600))
    _json(directory, config={"model_type": "mbart"}, tokenizer_config={"tokenizer_class": tokenizer})
    described = transformers.MBartConfig(
        **TWO_STACKS,
        vocab_size=_seen(directory),
        scale_embedding=True,
        forced_eos_token_id=2,
        **{"decoder_start_token_id": None, **config},
    )
    _weights(
        directory,
        transformers.MBartForConditionalGeneration,
        described,
        {"normalize_before": True, "add_final_layer_norm": True, "num_beams": 5, "tokenizer_class": tokenizer},
    )


def mbart_cc25(directory: Path) -> None:
    """Its config.json names no start for the decoder, but one in an example; there is no generation_config.json."""
    mbart(directory, "MBartTokenizer")
    (directory / "generation_config.json").unlink()
    (directory / "tokenizer_config.json").unlink()
    content = json.loads((directory / "config.json").read_text())
    content.pop("tokenizer_class")
    content["task_specific_params"] = {"translation_en_to_ro": {"decoder_start_token_id": 250020}}
    _json(directory, config=content)


def mbart_50(directory: Path, **config: Any) -> None:
    mbart(directory, "MBart50Tokenizer", decoder_start_token_id=2, **config)


def mbart_50_to_english(directory: Path) -> None:
    """It names the code that every output begins with."""
    mbart_50(directory)
    code = transformers.AutoTokenizer.from_pretrained(directory).convert_tokens_to_ids("en_XX")
    for name in ("config", "generation_config"):
        content = json.loads((directory / f"{name}.json").read_text())
        _json(directory, **{name: {**content, "forced_bos_token_id": code}})


# M2M-100 and NLLB.


def _m2m100(directory: Path, vocabulary: int, **other: Any) -> None:
    described = transformers.M2M100Config(
        **TWO_STACKS,
        vocab_size=vocabulary,
        scale_embedding=True,
        decoder_start_token_id=2,
        encoder_layerdrop=0.05,
        decoder_layerdrop=0.05,
    )
    _weights(directory, transformers.M2M100ForConditionalGeneration, described, other)


def m2m100(directory: Path) -> None:
    """facebook/m2m100_418M: vocab.json numbers the pieces of a SentencePiece model; eight rows are nobody's."""
    directory.mkdir(parents=True, exist_ok=True)
    model = sentencepiece_model("bpe", 600)
    (directory / "sentencepiece.bpe.model").write_bytes(model)
    pieces = [piece for piece in _pieces(model) if piece not in ("<s>", "</s>", "<unk>")]
    ordered = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    roles = {"bos": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>"}
    special = {f"{role}_token": piece for role, piece in roles.items()}
    settings = {**special, "tokenizer_class": "M2M100Tokenizer", "num_madeup_words": 8, "model_max_length": 1024}
    _json(
        directory,
        vocab={piece: i for i, piece in enumerate(ordered)},
        config={"model_type": "m2m_100"},
        tokenizer_config=settings,
        special_tokens_map=special,
    )
    _m2m100(directory, len(ordered) + 100 + 8)


def nllb(directory: Path, legacy: bool = False) -> None:
    """facebook/nllb-200: a SentencePiece model and tokenizer.json, and a row at the end that is nobody's."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "sentencepiece.bpe.model").write_bytes(sentencepiece_model("bpe", 600))
    settings = {"tokenizer_class": "NllbTokenizer", "src_lang": "eng_Latn", "tgt_lang": None, "model_max_length": 1024}
    settings |= {"legacy_behaviour": True} if legacy else {}
    _json(directory, config={"model_type": "m2m_100"}, tokenizer_config=settings)
    backend: Any = transformers.AutoTokenizer.from_pretrained(directory).backend_tokenizer
    codes = [tokenizers.AddedToken(code, special=True, normalized=False) for code in NLLB_CODES]
    backend.add_special_tokens(codes)
    content = json.loads(backend.to_str())
    for piece, added in content["post_processor"]["special_tokens"].items():
        added["ids"] = [backend.token_to_id(piece)]
    _json(directory, tokenizer=content)
    _json(directory, special_tokens_map={"additional_special_tokens": NLLB_CODES})
    _m2m100(directory, _seen(directory) + 1, tokenizer_class="NllbTokenizer", max_length=200)


# T5.


T5_SHAPE: dict[str, Any] = {
    "d_model": WIDTH,
    "d_kv": WIDTH // HEADS,
    "d_ff": INNER,
    "num_layers": LAYERS,
    "num_decoder_layers": LAYERS,
    "num_heads": HEADS,
    "relative_attention_num_buckets": 8,
    "decoder_start_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
OWN_PROJECTION: dict[str, Any] = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
T5_SPECIAL = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}


def t5(directory: Path) -> None:
    """google-t5/t5-small: a table of more rows than there are pieces."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "spiece.model").write_bytes(sentencepiece_model("unigram", 600, **T5_SPECIAL))
    _json(directory, config={"model_type": "t5"}, tokenizer_config={"model_max_length": 512})
    _write_tokenizer_json(directory)
    config = transformers.T5Config(**T5_SHAPE, vocab_size=_seen(directory) + 28)
    prefix = {"translation_en_to_de": {"prefix": "translate English to German: ", "num_beams": 4, "max_length": 300}}
    _weights(
        directory,
        transformers.T5ForConditionalGeneration,
        config,
        {"task_specific_params": prefix, "n_positions": 512, "output_past": True, "tie_word_embeddings": None},
    )


def t5_v1_1(directory: Path) -> None:
    """google/t5-v1_1-small and flan-t5-small: a projection of its own, gated layers."""
    t5(directory)
    config = transformers.T5Config(**T5_SHAPE, **OWN_PROJECTION, vocab_size=_seen(directory) + 28)
    _weights(directory, transformers.T5ForConditionalGeneration, config, {"tie_word_embeddings": False})


def mt5(directory: Path) -> None:
    """google/mt5-small: a model type of its own, and a SentencePiece model alone."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "spiece.model").write_bytes(sentencepiece_model("unigram", 600, **T5_SPECIAL))
    special = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    settings = {**special, "extra_ids": 0, "tokenizer_class": "T5Tokenizer", "additional_special_tokens": None}
    _json(directory, config={"model_type": "mt5"}, tokenizer_config=settings, special_tokens_map=special)
    config = transformers.MT5Config(**T5_SHAPE, **OWN_PROJECTION, vocab_size=_seen(directory) + 12)
    _weights(directory, transformers.MT5ForConditionalGeneration, config, {"tokenizer_class": "T5Tokenizer"})


def madlad400(directory: Path) -> None:
    """google/madlad400-3b-mt: a T5 whose SentencePiece model has a piece for each target language."""
    directory.mkdir(parents=True, exist_ok=True)
    order = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1}
    model = sentencepiece_model("unigram", 600, user_defined_symbols="<2de>,<2fr>,<2zh_Hant>", **order)
    (directory / "spiece.model").write_bytes(model)
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<s>"}
    backend = _of_sentencepiece(model)
    backend.save(str(directory / "tokenizer.json"))
    settings = {**special, "extra_ids": 0, "tokenizer_class": "T5Tokenizer", "additional_special_tokens": []}
    _json(directory, config={"model_type": "t5"}, tokenizer_config=settings, special_tokens_map=special)
    shape = {**T5_SHAPE, "eos_token_id": 2, "pad_token_id": 1, "decoder_start_token_id": 0}
    config = transformers.T5Config(**shape, **OWN_PROJECTION, vocab_size=len(_pieces(model)))
    _weights(directory, transformers.T5ForConditionalGeneration, config, {"tokenizer_class": "T5Tokenizer"})


def _of_sentencepiece(model: bytes) -> tokenizers.Tokenizer:
    """As a T5's tokenizer.json reads: precompiled characters, white space, ▁; user-defined pieces are added tokens."""
    from subgraft.subwords.vocabulary.sentencepiece_model import parse

    proto = parse(model)
    built = tokenizers.Tokenizer(models.Unigram([(piece.piece, piece.score) for piece in proto.pieces], 0, False))
    built.normalizer = tokenizers.normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    words = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    built.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), words])
    built.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    for piece in proto.pieces:
        if piece.type in (2, 3):
            built.add_special_tokens([tokenizers.AddedToken(piece.piece, special=True)])
        elif piece.type == 4:
            built.add_tokens([tokenizers.AddedToken(piece.piece, normalized=False)])
    built.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", built.token_to_id("</s>"))]
    )
    return built


# Byte-level BPE.


@cache
def byte_level(size: int, special: tuple[str, ...], splitting: str = "gpt2", prefix: bool = False) -> str:
    """A trained tokenizer.json. splitting: GPT-2's own, or the pattern that Llama 3 and Qwen cut words by."""
    built = tokenizers.Tokenizer(models.BPE(unk_token=None))
    if splitting == "gpt2":
        built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=True)
    else:
        pattern = (
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
            r"|\s+(?!\S)|\s+"
        )
        built.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        built.normalizer = tokenizers.normalizers.NFC()
    built.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    first = [] if splitting == "qwen" else list(special)
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=first, initial_alphabet=alphabet, show_progress=False)
    built.train_from_iterator([*english(), *german()], trainer)
    built.add_special_tokens([tokenizers.AddedToken(piece, special=True) for piece in special])
    return str(built.to_str())


def _with_symbols(message: str, symbols: Iterable[str], normalized: bool) -> str:
    """A tokenizer.json with further added tokens, which are not special."""
    built = tokenizers.Tokenizer.from_str(message)
    built.add_tokens([tokenizers.AddedToken(symbol, normalized=normalized) for symbol in symbols])
    return str(built.to_str())


def _write_byte_level(directory: Path, message: str, both: bool = True) -> int:
    """tokenizer.json and, as older ones have it, vocab.json and merges.txt. How many pieces there are."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tokenizer.json").write_text(message, encoding="utf-8")
    model = json.loads(message)["model"]
    if both:
        _json(directory, vocab=model["vocab"])
        merges: Iterable[Any] = model["merges"]
        lines = [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]
        text = "".join(f"{line}\n" for line in ("#version: 0.2", *lines))
        (directory / "merges.txt").write_text(text, encoding="utf-8")
    return int(tokenizers.Tokenizer.from_str(message).get_vocab_size())


def bart(directory: Path) -> None:
    """facebook/bart-base: GPT-2's kind of vocabulary under XLM-R's special tokens."""
    content = json.loads(byte_level(600, ("<s>", "<pad>", "</s>", "<unk>", "<mask>")))
    ends = {"sep": ["</s>", 2], "cls": ["<s>", 0]}
    content["post_processor"] = {"type": "RobertaProcessing", **ends, "trim_offsets": True, "add_prefix_space": False}
    size = _write_byte_level(directory, json.dumps(content, ensure_ascii=False))
    _json(directory, tokenizer_config={"model_max_length": 1024})
    config = transformers.BartConfig(**TWO_STACKS, vocab_size=size, forced_eos_token_id=2, decoder_start_token_id=2)
    extra = {"add_bias_logits": False, "normalize_before": False, "no_repeat_ngram_size": 3, "early_stopping": True}
    _weights(directory, transformers.BartForConditionalGeneration, config, {**extra, "num_beams": 4})
    content = json.loads((directory / "generation_config.json").read_text())
    _json(directory, generation_config={**content, "forced_bos_token_id": 0, "no_repeat_ngram_size": 3})


def pegasus(directory: Path) -> None:
    """google/pegasus-xsum: a SentencePiece model behind 105 pieces of its own, of which two mask."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "spiece.model").write_bytes(sentencepiece_model("unigram", 600, **T5_SPECIAL))
    settings = {"tokenizer_class": "PegasusTokenizer", "model_max_length": 512}
    _json(directory, config={"model_type": "pegasus"}, tokenizer_config=settings)
    _write_tokenizer_json(directory)
    ids: dict[str, Any] = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": 1}
    shape = {**TWO_STACKS, "scale_embedding": True, "activation_function": "relu", **ids}
    config = transformers.PegasusConfig(**shape, vocab_size=_seen(directory))
    extra = {"add_final_layer_norm": True, "normalize_before": True, "static_position_embeddings": True}
    _weights(directory, transformers.PegasusForConditionalGeneration, config, {**extra, "num_beams": 8})


def gpt2(directory: Path) -> None:
    """openai-community/gpt2: one token that begins, ends and is unknown."""
    size = _write_byte_level(directory, byte_level(600, ("<|endoftext|>",)))
    _json(directory, tokenizer_config={"model_max_length": 1024})
    shape: dict[str, Any] = {
        "n_embd": WIDTH,
        "n_layer": LAYERS,
        "n_head": HEADS,
        "n_positions": POSITIONS,
        "initializer_range": 0.5,
    }
    end: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 0}
    config = transformers.GPT2Config(**shape, **end, vocab_size=size)
    _weights(directory, transformers.GPT2LMHeadModel, config, {"n_ctx": POSITIONS, "summary_type": "cls_index"})


def llama_2(directory: Path) -> None:
    """meta-llama/Llama-2: SentencePiece BPE with bytes; the projection is a table of its own, weights are bf16."""
    directory.mkdir(parents=True, exist_ok=True)
    model = sentencepiece_model(
        "bpe", 800, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False
    )
    (directory / "tokenizer.model").write_bytes(model)
    settings = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False, "legacy": False}
    _json(directory, config={"model_type": "llama"}, tokenizer_config=settings)
    _write_tokenizer_json(directory)
    config = transformers.LlamaConfig(**DECODER, vocab_size=_seen(directory), tie_word_embeddings=False)
    config.dtype = torch.bfloat16
    _weights(directory, transformers.LlamaForCausalLM, config)
    _as_type(directory, torch.bfloat16)


def llama_3(directory: Path, *further: str) -> None:
    """meta-llama/Llama-3.2-1B: byte-level BPE, a tied projection, several ends."""
    special = ("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|reserved_special_token_0|>", *further)
    size = _write_byte_level(directory, byte_level(600, special, "qwen"), both=False)
    ids = {piece: size - len(special) + i for i, piece in enumerate(special)}
    settings = {"bos_token": special[0], "eos_token": special[1], "tokenizer_class": "PreTrainedTokenizerFast"}
    _json(directory, tokenizer_config=settings)
    ends: dict[str, Any] = {"bos_token_id": ids[special[0]], "eos_token_id": [ids[special[1]], ids[special[2]]]}
    rope: dict[str, Any] = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    rope |= {"original_max_position_embeddings": 32, "rope_theta": 500000.0}
    config = transformers.LlamaConfig(
        **DECODER, **ends, vocab_size=size, head_dim=8, tie_word_embeddings=True, rope_parameters=rope
    )
    _weights(directory, transformers.LlamaForCausalLM, config)


def mistral_7b(directory: Path) -> None:
    """mistralai/Mistral-7B-v0.1: Llama's kind of vocabulary, attention within a window."""
    llama_2(directory)
    config = transformers.MistralConfig(**DECODER, vocab_size=_seen(directory), sliding_window=16)
    _weights(directory, transformers.MistralForCausalLM, config)
    _as_type(directory, torch.bfloat16)


def phi_3_mini(directory: Path) -> None:
    """microsoft/Phi-3-mini-4k-instruct: Llama's vocabulary, added tokens of turns, rows behind these."""
    llama_2(directory)
    turns = ("<|endoftext|>", "<|assistant|>", "<|end|>", "<|user|>")
    backend = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    backend.add_special_tokens([tokenizers.AddedToken(piece, special=True, normalized=False) for piece in turns])
    backend.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer.model").unlink()
    settings = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": False, "add_eos_token": False, "legacy": False}
    special = {"bos_token": "<s>", "eos_token": turns[0], "pad_token": turns[0], "unk_token": "<unk>"}
    _json(directory, tokenizer_config={**settings, **special})
    size = backend.get_vocab_size()
    end = size - len(turns)
    ids: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": end, "pad_token_id": end}
    config = transformers.Phi3Config(**DECODER, **ids, vocab_size=size + 20, sliding_window=2047)
    _weights(directory, transformers.Phi3ForCausalLM, config, {"original_max_position_embeddings": POSITIONS})
    _as_type(directory, torch.bfloat16)


def gemma(directory: Path, kind: str) -> None:
    """google/gemma-2b, gemma-2-2b and gemma-3-1b-pt: SentencePiece BPE with bytes and symbols, no space put first."""
    directory.mkdir(parents=True, exist_ok=True)
    options = {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "add_dummy_prefix": False}
    model = sentencepiece_model(
        "bpe",
        800,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        user_defined_symbols="<start_of_turn>,<end_of_turn>,<table>,\n\n,\n\n\n,▁▁,▁▁▁▁",
        **options,
    )
    (directory / "tokenizer.model").write_bytes(model)
    special = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
    settings = {**special, "tokenizer_class": "GemmaTokenizer", "add_bos_token": True, "add_eos_token": False}
    _gemma_pieces(directory)
    _json(directory, config={"model_type": kind}, tokenizer_config=settings)
    _write_tokenizer_json(directory)
    configs = {
        "gemma": transformers.GemmaConfig,
        "gemma2": transformers.Gemma2Config,
        "gemma3_text": transformers.Gemma3TextConfig,
    }
    classes = {
        "gemma": transformers.GemmaForCausalLM,
        "gemma2": transformers.Gemma2ForCausalLM,
        "gemma3_text": transformers.Gemma3ForCausalLM,
    }
    ids = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}
    attention = {} if kind == "gemma" else {"sliding_window": 16, "query_pre_attn_scalar": 12}
    # Published caps are 50 and 30, which small logits hardly reach.
    caps = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0} if kind == "gemma2" else {}
    config: Any = configs[kind](**DECODER, **ids, **attention, **caps, head_dim=12, vocab_size=_seen(directory) + 16)
    _weights(directory, classes[kind], config)
    if kind != "gemma2":  # published in fp32
        _as_type(directory, torch.bfloat16)


def _gemma_pieces(directory: Path) -> None:
    """The names of Gemma's special pieces, which SentencePiece's options cannot spell in one training."""
    from subgraft.subwords.vocabulary.sentencepiece_model import parse

    path = directory / "tokenizer.model"
    proto = parse(path.read_bytes())
    names = {"<s>": "<bos>", "</s>": "<eos>"}
    for piece in proto.pieces:
        piece.piece = names.get(piece.piece, piece.piece)
    path.write_bytes(proto.SerializeToString())


def opt_350m(directory: Path) -> None:
    """facebook/opt-350m: embeddings narrower than the layers, norms behind each of their parts."""
    opt_125m(directory, word_embed_proj_dim=WIDTH // 2, do_layer_norm_before=False)


def opt_125m(directory: Path, **other: Any) -> None:
    """facebook/opt-125m: vocab.json and merges.txt alone, with XLM-R's special tokens; texts begin with an end."""
    special = ("<s>", "<pad>", "</s>", "<unk>")
    size = _write_byte_level(directory, byte_level(600, special))
    (directory / "tokenizer.json").unlink()
    names = {"bos_token": "</s>", "eos_token": "</s>", "unk_token": "</s>", "pad_token": "<pad>"}
    settings = {**names, "add_bos_token": True, "add_prefix_space": False, "tokenizer_class": "GPT2Tokenizer"}
    _json(directory, tokenizer_config=settings, special_tokens_map=names)
    shape: dict[str, Any] = {
        "hidden_size": WIDTH,
        "word_embed_proj_dim": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "ffn_dim": INNER,
        "max_position_embeddings": POSITIONS,
        "init_std": 0.5,
    }
    ids: dict[str, Any] = {"bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1}
    config = transformers.OPTConfig(**{**shape, **other}, **ids, vocab_size=size + 8)
    _weights(directory, transformers.OPTForCausalLM, config, {"prefix": "</s>", "_remove_final_layer_norm": False})


def pythia_70m(directory: Path) -> None:
    """EleutherAI/pythia-70m: byte-level BPE behind NFC, runs of spaces, a token that begins, ends and is unknown."""
    runs = [" " * length for length in range(24, 1, -1)]
    content = json.loads(_with_symbols(byte_level(600, ("<|endoftext|>", "<|padding|>")), runs, normalized=True))
    content["normalizer"] = {"type": "NFC"}
    size = _write_byte_level(directory, json.dumps(content, ensure_ascii=False), both=False)
    end = "<|endoftext|>"
    names = {"bos_token": end, "eos_token": end, "unk_token": end}
    settings = {**names, "add_prefix_space": False, "tokenizer_class": "GPTNeoXTokenizer"}
    _json(directory, tokenizer_config=settings, special_tokens_map=names)
    shape: dict[str, Any] = {**BERT_LIKE, "max_position_embeddings": POSITIONS, "rotary_pct": 0.25}
    shape |= {"num_attention_heads": 1, "bos_token_id": 0, "eos_token_id": 0}
    config = transformers.GPTNeoXConfig(**shape, vocab_size=size + 22)
    _weights(directory, transformers.GPTNeoXForCausalLM, config)
    _as_type(directory, torch.float16)


def bloom_560m(directory: Path) -> None:
    """bigscience/bloom-560m: tokenizer.json alone, and rows behind the pieces."""
    special = ("<unk>", "<s>", "</s>", "<pad>")
    size = _write_byte_level(directory, byte_level(600, special), both=False)
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    _json(directory, tokenizer_config={**names, "add_prefix_space": False, "tokenizer_class": "BloomTokenizer"})
    ids: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3, "initializer_range": 0.5}
    config = transformers.BloomConfig(hidden_size=WIDTH, n_layer=LAYERS, n_head=HEADS, vocab_size=size + 28, **ids)
    _weights(directory, transformers.BloomForCausalLM, config, {"seq_length": 2048, "skip_bias_add": True})


def qwen(directory: Path, kind: str) -> None:
    """Qwen/Qwen2.5-0.5B and Qwen3-0.6B: added tokens behind the pieces, and rows behind these; no beginning."""
    special = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    marks = ["<tool_call>", "</tool_call>", "<|fim_prefix|>", *(("<think>", "</think>") if kind == "qwen3" else ())]
    pieces = _with_symbols(byte_level(600, special, "qwen"), marks, normalized=False)
    size = _write_byte_level(directory, pieces)
    settings = {"bos_token": None, "eos_token": special[0], "pad_token": special[0]}
    settings["tokenizer_class"] = "Qwen2Tokenizer"
    _json(directory, tokenizer_config={**settings, "add_prefix_space": False, "model_max_length": 131072})
    text_end = size - len(marks) - len(special)
    end = {"bos_token_id": text_end, "eos_token_id": text_end}
    configs = {"qwen2": transformers.Qwen2Config, "qwen3": transformers.Qwen3Config}
    classes = {"qwen2": transformers.Qwen2ForCausalLM, "qwen3": transformers.Qwen3ForCausalLM}
    heads = {"head_dim": 16} if kind == "qwen3" else {}
    config: Any = configs[kind](**DECODER, **end, **heads, vocab_size=size + 20, tie_word_embeddings=True)
    _weights(directory, classes[kind], config)
    _as_type(directory, torch.bfloat16)


QWEN_CHAT = (
    "{%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}"
    "{%- else %}{{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{%- endif %}"
    "{%- for message in messages %}{%- if message.role != 'system' or not loop.first %}"
    "{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)


def qwen_instruct(directory: Path) -> None:
    """Qwen/Qwen2.5-0.5B-Instruct: a turn and a text have ends of their own, and there is a template of turns."""
    qwen(directory, "qwen2")
    config, tokenizer, generation = (
        json.loads((directory / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("config", "tokenizer_config", "generation_config")
    )
    text_end = config["bos_token_id"]
    turn_end = text_end + 2
    config |= {"eos_token_id": turn_end, "max_position_embeddings": 256}
    tokenizer |= {"eos_token": "<|im_end|>", "unk_token": None, "chat_template": QWEN_CHAT}
    ids = {"bos_token_id": text_end, "pad_token_id": text_end, "eos_token_id": [turn_end, text_end]}
    drawn = {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.05}
    _json(directory, config=config, tokenizer_config=tokenizer, generation_config={**generation, **ids, **drawn})


# Encoders.


def mbert(directory: Path) -> None:
    """google-bert/bert-base-multilingual-cased: vocab.txt and tokenizer.json."""
    from subgraft.subwords.vocabulary.learn import learn

    directory.mkdir(parents=True, exist_ok=True)
    pieces = learn([*english(), *german()], kind="wordpiece", size=500).pieces
    (directory / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    _json(directory, config={"model_type": "bert"}, tokenizer_config={"do_lower_case": False, "model_max_length": 512})
    _write_tokenizer_json(directory)
    config = transformers.BertConfig(
        **BERT_LIKE, vocab_size=len(pieces), pad_token_id=0, max_position_embeddings=POSITIONS
    )
    _weights(directory, transformers.BertForMaskedLM, config, {"directionality": "bidi", "pooler_fc_size": 768})


def distilbert(directory: Path) -> None:
    """distilbert/distilbert-base-multilingual-cased: names of its own for sizes."""
    mbert(directory)
    for name in ("config.json", "generation_config.json"):
        (directory / name).unlink(missing_ok=True)
    sizes: dict[str, Any] = {"dim": WIDTH, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": INNER}
    config = transformers.DistilBertConfig(
        **sizes, vocab_size=500, max_position_embeddings=POSITIONS, pad_token_id=0, initializer_range=0.5
    )
    _weights(
        directory, transformers.DistilBertForMaskedLM, config, {"sinusoidal_pos_embds": False, "tie_weights_": True}
    )


def electra_generator(directory: Path) -> None:
    """google/electra-small-generator: BERT's vocabulary in lower case, embeddings narrower than hidden states."""
    from subgraft.subwords.vocabulary.learn import learn

    directory.mkdir(parents=True, exist_ok=True)
    pieces = learn([line.lower() for line in (*english(), *german())], kind="wordpiece", size=500).pieces
    (directory / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    _json(directory, config={"model_type": "electra"}, tokenizer_config={"do_lower_case": True})
    _write_tokenizer_json(directory)
    config = transformers.ElectraConfig(
        **BERT_LIKE, embedding_size=WIDTH // 2, vocab_size=len(pieces), max_position_embeddings=POSITIONS
    )
    _weights(directory, transformers.ElectraForMaskedLM, config, {"summary_type": "first"})


def deberta_v3(directory: Path) -> None:
    """microsoft/deberta-v3-base: spm.model alone, relative positions, the newer head, and no class in config.json."""
    options = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3}
    names = {"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "spm.model").write_bytes(sentencepiece_model("unigram", 600, **options, **names))
    _json(
        directory, config={"model_type": "deberta-v2"}, tokenizer_config={"do_lower_case": False, "vocab_type": "spm"}
    )
    relative: dict[str, Any] = {
        "position_biased_input": False,
        "relative_attention": True,
        "position_buckets": 8,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": ["p2c", "c2p"],
    }
    config = transformers.DebertaV2Config(
        **BERT_LIKE,
        vocab_size=_seen(directory) + 23,
        type_vocab_size=0,
        max_position_embeddings=POSITIONS,
        **relative,
        legacy=False,
    )
    published = {"pos_att_type": "p2c|c2p", "legacy": None, "architectures": None}
    _weights(directory, transformers.DebertaV2ForMaskedLM, config, published)


def modernbert(directory: Path) -> None:
    """answerdotai/ModernBERT-base: byte-level BPE with BERT's special tokens behind the pieces."""
    special = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
    content = json.loads(byte_level(600, special, "qwen"))
    content["normalizer"] = {"type": "NFC"}
    ids = {token["content"]: token["id"] for token in content["added_tokens"]}
    first, last, end = (
        {"SpecialToken": {"id": piece, "type_id": i}} for i, piece in ((0, "[CLS]"), (0, "[SEP]"), (1, "[SEP]"))
    )
    known = {piece: {"id": piece, "ids": [ids[piece]], "tokens": [piece]} for piece in ("[CLS]", "[SEP]")}
    single = [first, {"Sequence": {"id": "A", "type_id": 0}}, last]
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}, end],
        "special_tokens": known,
    }
    size = _write_byte_level(directory, json.dumps(content, ensure_ascii=False), both=False)
    names = {f"{role}_token": f"[{role.upper()}]" for role in ("unk", "cls", "sep", "pad", "mask")}
    _json(directory, tokenizer_config={**names, "tokenizer_class": "PreTrainedTokenizerFast"})
    roles: dict[str, Any] = {"bos_token_id": ids["[CLS]"], "eos_token_id": ids["[SEP]"], "pad_token_id": ids["[PAD]"]}
    roles |= {"cls_token_id": ids["[CLS]"], "sep_token_id": ids["[SEP]"], "local_attention": 16}
    config = transformers.ModernBertConfig(
        **BERT_LIKE, **roles, vocab_size=size + 24, max_position_embeddings=POSITIONS
    )
    _weights(directory, transformers.ModernBertForMaskedLM, config, {"position_embedding_type": "absolute"})


def xlm_roberta(directory: Path) -> None:
    """FacebookAI/xlm-roberta-base: a SentencePiece model and tokenizer.json; positions count from the padding id."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "sentencepiece.bpe.model").write_bytes(sentencepiece_model("unigram", 600))
    _json(directory, config={"model_type": "xlm-roberta"}, tokenizer_config={"model_max_length": 512})
    _write_tokenizer_json(directory)
    config = transformers.XLMRobertaConfig(
        **BERT_LIKE,
        vocab_size=_seen(directory),
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        max_position_embeddings=POSITIONS + 2,
        pad_token_id=1,
    )
    _weights(directory, transformers.XLMRobertaForMaskedLM, config, {"output_past": True})


def roberta(directory: Path) -> None:
    """FacebookAI/roberta-base: GPT-2's kind of vocabulary, in three files; positions count from the padding id."""
    bart(directory)
    for name in ("generation_config.json", "config.json"):
        (directory / name).unlink()
    config = transformers.RobertaConfig(
        **BERT_LIKE,
        vocab_size=600,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        max_position_embeddings=POSITIONS + 2,
        pad_token_id=1,
    )
    _weights(directory, transformers.RobertaForMaskedLM, config)


# Other forms of the same weights.


def _as_type(directory: Path, dtype: torch.dtype) -> None:
    path = directory / "model.safetensors"
    save_file({name: one.to(dtype) for name, one in load_file(path).items()}, path, metadata={"format": "pt"})
    content = json.loads((directory / "config.json").read_text())
    content.pop("dtype", None)
    _json(directory, config={**content, "torch_dtype": str(dtype).removeprefix("torch.")})


def half(directory: Path) -> None:
    _as_type(directory, torch.float16)


def sharded(directory: Path) -> None:
    """Weights in several files, and the index that says which is where."""
    weights = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    places = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(sorted(weights))}
    for place in set(places.values()):
        chosen = {name: tensor for name, tensor in weights.items() if places[name] == place}
        save_file(chosen, directory / place, metadata={"format": "pt"})
    size = sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    index = {"metadata": {"total_size": size}, "weight_map": places}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


CODES_OF_50 = Languages(source="en_XX", target="de_DE")
CHECKPOINTS: Mapping[str, Checkpoint] = {
    one.name: one
    for one in (
        Checkpoint("opus-mt-en-de", opus_mt),
        Checkpoint("opus-mt-en-mul", opus_mt_many, ENGLISH_GERMAN, prompt=">>deu<< "),
        Checkpoint("mbart-large-cc25", mbart_cc25, CODES_OF_50, settings={"src_lang": "en_XX"}),
        Checkpoint("mbart-large-50", mbart_50, CODES_OF_50, settings={"src_lang": "en_XX"}),
        Checkpoint("mbart-large-50-many-to-many-mmt", mbart_50, ENGLISH_GERMAN, settings={"src_lang": "en_XX"}),
        Checkpoint("mbart-large-50-one-to-many-mmt", mbart_50, ENGLISH_GERMAN, settings={"src_lang": "en_XX"}),
        Checkpoint(
            "mbart-large-50-many-to-one-mmt",
            mbart_50_to_english,
            Languages(source="de_DE", target="en_XX"),
            settings={"src_lang": "de_DE"},
        ),
        Checkpoint("nllb-200-distilled-600M", nllb, ENGLISH_GERMAN, settings={"src_lang": "eng_Latn"}),
        Checkpoint("m2m100_418M", m2m100, ENGLISH_GERMAN, settings={"src_lang": "en"}),
        Checkpoint("t5-small", t5),
        Checkpoint("flan-t5-small", t5_v1_1),
        Checkpoint("mt5-small", mt5),
        Checkpoint("madlad400-3b-mt", madlad400, ENGLISH_GERMAN, prompt="<2de> ", as_file=True),
        Checkpoint("bart-base", bart),
        Checkpoint("pegasus-xsum", pegasus),
        Checkpoint("bert-base-multilingual-cased", mbert),
        Checkpoint("distilbert-base-multilingual-cased", distilbert),
        Checkpoint("ModernBERT-base", modernbert),
        Checkpoint("electra-small-generator", electra_generator),
        Checkpoint("deberta-v3-base", deberta_v3),
        Checkpoint("roberta-base", roberta),
        Checkpoint("xlm-roberta-base", xlm_roberta),
        Checkpoint("gpt2", gpt2),
        Checkpoint("Llama-2-7b", llama_2),
        Checkpoint("Llama-3.2-1B", llama_3),
        Checkpoint("Qwen2.5-0.5B", lambda directory: qwen(directory, "qwen2")),
        Checkpoint("Qwen2.5-0.5B-Instruct", qwen_instruct),
        Checkpoint("Qwen3-0.6B", lambda directory: qwen(directory, "qwen3")),
        Checkpoint("Mistral-7B-v0.1", mistral_7b),
        Checkpoint("gemma-2b", lambda directory: gemma(directory, "gemma")),
        Checkpoint("gemma-2-2b", lambda directory: gemma(directory, "gemma2")),
        Checkpoint("gemma-3-1b-pt", lambda directory: gemma(directory, "gemma3_text")),
        Checkpoint("Phi-3-mini-4k-instruct", phi_3_mini),
        Checkpoint("opt-125m", opt_125m),
        Checkpoint("opt-350m", opt_350m),
        Checkpoint("pythia-70m", pythia_70m),
        Checkpoint("bloom-560m", bloom_560m),
    )
}
