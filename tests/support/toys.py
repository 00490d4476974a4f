"""Small vocabularies and models that tests build for themselves, over sentences invented here."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining, PreTrainedModel

from subgraft.config.corpora import Languages
from subgraft.config.models import (
    BartSettings,
    BertSettings,
    GPT2Settings,
    LlamaSettings,
    M2M100Settings,
    MarianSettings,
    MBartSettings,
    T5Settings,
)
from subgraft.contrib.xlnet.settings import XLNetSettings
from subgraft.modeling.families import FAMILIES, Config, SequenceFormat, family_of
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.blocks import Blocks
from vocabularies import with_room

SHAPE: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "attention_heads": 2,
    "ffn_dim": 24,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "max_positions": 40,
}
_GERMAN_STEMS = "dank freund kind nachbar arzt schrift tag vertrau garten haus buch stadt land wort herz spiel"
_GERMAN_ENDINGS = ["", "", "er", "lich", "bar", "schaft", "haft", "los", "heit", "erin"]
_ENGLISH_STEMS = "thank friend child neighbour doctor write day trust garden house book town land word heart play"
_ENGLISH_ENDINGS = ["", "", "er", "ly", "able", "ship", "like", "less", "hood", "ing"]


def sequence_format(
    config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
) -> SequenceFormat:
    """The special tokens around sequences of the model of a config.json."""
    return family_of(config).sequence_format(config, source, target, languages)


def mbart_blocks(lines: Sequence[str], tokenizer: Tokenizer, language: str, limit: int, **settings: Any) -> Blocks:
    """The blocks of lines for an mBART's denoising."""
    languages = Languages(source=language, target=language)
    form = sequence_format({"model_type": "mbart"}, tokenizer, tokenizer, languages)
    return Blocks(lines, tokenizer, form, FAMILIES["mbart"].sentence_separator(tokenizer), limit, **settings)


def sentences(stems: str, endings: Sequence[str], count: int, seed: int) -> list[str]:
    """Sentences of three to six words, each a stem or a compound of two, with an ending."""
    chooser = random.Random(seed)

    def word() -> str:
        return "".join(chooser.choices(stems.split(), k=chooser.choice((1, 1, 2)))) + chooser.choice(endings)

    return [" ".join(word() for _ in range(chooser.randint(3, 6))) + "." for _ in range(count)]


def german(count: int = 400, seed: int = 1) -> list[str]:
    return sentences(_GERMAN_STEMS, _GERMAN_ENDINGS, count, seed)


def english(count: int = 400, seed: int = 1) -> list[str]:
    return sentences(_ENGLISH_STEMS, _ENGLISH_ENDINGS, count, seed)


@cache
def german_tokenizer(size: int = 90, kind: str = "unigram") -> Tokenizer:
    return learn(german(), kind=kind, size=size)  # type: ignore[arg-type]


@cache
def english_tokenizer(size: int = 80) -> Tokenizer:
    return learn(english(), kind="unigram", size=size)


@cache
def multilingual_tokenizer() -> Tokenizer:
    """As mBART's: both languages, with a mask and language codes."""
    return learn(english() + german(), kind="unigram", size=110, mask=True, languages=("de_DE", "en_XX"))


@cache
def joint_tokenizer() -> Tokenizer:
    """As T5's: one vocabulary of both languages, without language codes."""
    return learn(english() + german(), kind="unigram", size=110)


@cache
def masking_tokenizer(kind: str = "unigram") -> Tokenizer:
    """As BART's: one language, with a mask and without language codes."""
    size = with_room(kind, 110)
    return learn(english() + german(), kind=kind, size=size, mask=True)  # type: ignore[arg-type]


@cache
def cased_tokenizer() -> Tokenizer:
    """As multilingual BERT's: WordPiece of both languages."""
    return learn(english() + german(), kind="wordpiece", size=150)


@cache
def fitted_tokenizer(size: int = 180) -> Tokenizer:
    """A downstream vocabulary with the special tokens of the multilingual one, many of its words unseen there."""
    return learn(german(400, 7), kind="unigram", size=size, like=multilingual_tokenizer())


def one_stack(shape: dict[str, Any], layers: str) -> dict[str, Any]:
    """A shape as settings of one stack; layers: the field that says how many."""
    absent = ("encoder_layers", "decoder_layers", "activation_dropout")
    return {"layers": shape[layers], **{name: value for name, value in shape.items() if name not in absent}}


def build_marian(encoder: Tokenizer, decoder: Tokenizer, *, seed: int, **shape: Any) -> PreTrainedModel:
    return FAMILIES["marian"].build(MarianSettings(**shape), encoder, decoder, seed)


def build_mbart(tokenizer: Tokenizer, *, seed: int, **shape: Any) -> PreTrainedModel:
    return FAMILIES["mbart"].build(MBartSettings(**shape), tokenizer, tokenizer, seed)


def build_bert(tokenizer: Tokenizer, *, seed: int, **shape: Any) -> PreTrainedModel:
    return FAMILIES["bert"].build(BertSettings(**one_stack(shape, "encoder_layers")), tokenizer, tokenizer, seed)


def marian(seed: int = 1) -> PreTrainedModel:
    return _perturbed(build_marian(english_tokenizer(), german_tokenizer(), seed=seed, **SHAPE))


def mbart(seed: int = 1) -> PreTrainedModel:
    return _perturbed(build_mbart(multilingual_tokenizer(), seed=seed, **SHAPE))


def bert(seed: int = 1, tied: bool = True) -> BertForMaskedLM:
    built = build_bert(cased_tokenizer(), seed=seed, **SHAPE)
    if not tied:
        torch.manual_seed(4)
        built = BertForMaskedLM(BertConfig(**{**built.config.to_dict(), "tie_word_embeddings": False}))
    assert isinstance(built, BertForMaskedLM)
    with torch.no_grad():
        built.cls.predictions.decoder.bias.copy_(torch.linspace(-0.5, 0.5, len(cased_tokenizer())))
    built.eval()
    return built


def bert2bert(seed: int = 1, tied: bool = True) -> PreTrainedModel:
    return FAMILIES["bert"].assemble(bert(seed, tied), cased_tokenizer(), seed)


def gpt2(seed: int = 1) -> PreTrainedModel:
    settings = GPT2Settings(**one_stack(SHAPE, "decoder_layers"))
    made = FAMILIES["gpt2"].build(settings, german_tokenizer(), german_tokenizer(), seed)
    made.eval()
    return made


def llama(seed: int = 1, tied: bool = False) -> PreTrainedModel:
    shape = one_stack(SHAPE, "decoder_layers")
    del shape["dropout"]
    settings = LlamaSettings(**shape, key_value_heads=1, tied=tied)
    made = FAMILIES["llama"].build(settings, german_tokenizer(), german_tokenizer(), seed)
    made.eval()
    return made


def bart(seed: int = 1, kind: str = "unigram") -> PreTrainedModel:
    tokenizer = masking_tokenizer(kind)
    return _perturbed(FAMILIES["bart"].build(BartSettings(**SHAPE), tokenizer, tokenizer, seed))


def output_bias(model: PreTrainedModel) -> Tensor:
    """What a Marian or an mBART adds to its logits [1, V], to be changed in place."""
    bias = model.final_logits_bias
    assert isinstance(bias, Tensor)
    return bias


def generated(model: PreTrainedModel, *inputs: Tensor, **settings: Any) -> Tensor:
    """Token ids that a model generates [B, T]."""
    ids = model.generate(*inputs, **settings)  # type: ignore[operator]
    assert isinstance(ids, Tensor)
    return ids


def m2m100(seed: int = 1) -> PreTrainedModel:
    settings, tokenizer = M2M100Settings(**SHAPE), multilingual_tokenizer()
    model: PreTrainedModel = FAMILIES["m2m_100"].build(settings, tokenizer, tokenizer, seed).eval()
    return model


def t5(seed: int = 1, tied: bool = True) -> PreTrainedModel:
    """As T5 1.0, or, not tied, as T5 1.1: gated layers, and a projection that is trained away from the table."""
    shape = {**SHAPE, "tied": tied, "gated": not tied}
    model: Any = FAMILIES["t5"].build(T5Settings(**shape), joint_tokenizer(), joint_tokenizer(), seed).eval()
    if not tied:
        with torch.no_grad():
            model.lm_head.weight.add_(
                torch.linspace(-0.2, 0.2, model.lm_head.weight.numel()).view_as(model.lm_head.weight)
            )
    built: PreTrainedModel = model
    return built


def xlnet(seed: int = 1, **changes: Any) -> Any:
    """With embeddings large enough that what it reads shows in what it computes."""
    settings = XLNetSettings(**one_stack({**SHAPE, **changes}, "decoder_layers"))
    made: Any = FAMILIES["xlnet"].build(settings, multilingual_tokenizer(), multilingual_tokenizer(), seed).eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "norm" not in name:
                parameter.normal_(0.0, 0.3, generator=torch.Generator().manual_seed(seed + len(name)))
    return made


def _perturbed(model: PreTrainedModel) -> PreTrainedModel:
    """In evaluation mode, and with a bias that is not zero, so that a test sees where it goes."""
    bias = output_bias(model)
    bias.copy_(torch.linspace(-0.5, 0.5, bias.numel()))
    model.eval()
    return model


def write_config(directory: Path, family: str) -> None:
    (directory / "config.json").write_text(json.dumps({"model_type": family}))


def publish_marian(directory: Path, *, kind: str, separate: bool) -> None:
    """A directory in the published layout, its SentencePiece models trained here."""
    directory.mkdir(exist_ok=True)
    models: dict[str, list[str]] = {}
    for name, lines in (("source", english(500)), ("target", [*german(500), "Straße ß."] * 2)):
        vocabulary = learn(lines, kind=kind, size=90, character_coverage=1.0)  # type: ignore[arg-type]
        vocabulary.save(directory / name)
        shutil.move(directory / name / "sentencepiece.model", directory / f"{name}.spm")
        shutil.rmtree(directory / name)
        models[name] = [vocabulary.pieces[i] for i in range(len(vocabulary)) if i not in vocabulary.special_ids]
    write_config(directory, "marian")
    configuration = {"source_lang": "en", "target_lang": "de", "separate_vocabs": separate}
    (directory / "tokenizer_config.json").write_text(json.dumps(configuration))

    def number(pieces: Sequence[str]) -> str:
        ordered = ["</s>", "<unk>", *dict.fromkeys(pieces), ">>deu<<", "<pad>"]
        return json.dumps({piece: i for i, piece in enumerate(ordered)}, ensure_ascii=False)

    if separate:
        (directory / "vocab.json").write_text(number(models["source"]), encoding="utf-8")
        (directory / "target_vocab.json").write_text(number(models["target"]), encoding="utf-8")
    else:
        (directory / "vocab.json").write_text(number(models["target"] + models["source"]), encoding="utf-8")


def publish_bert(directory: Path, *, pretraining: bool) -> PreTrainedModel:
    """A directory with the files of bert-base-multilingual-cased; the model that lies in it.

    pretraining: with the head for next sentences, layer normalisation under its first names and positions as a weight,
    as the earliest published files are; else as BertForMaskedLM is saved today.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = cased_tokenizer()
    model = bert()
    if pretraining:
        torch.manual_seed(2)
        whole = BertForPreTraining(model.config).eval()
        whole.cls.predictions.bias.data.normal_()
        weights = {name: tensor.clone() for name, tensor in whole.state_dict().items()}
        for tied in ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias"):
            del weights[tied]
        for new, old in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
            weights = {name.replace(new, old): tensor for name, tensor in weights.items()}
        weights["bert.embeddings.position_ids"] = torch.arange(SHAPE["max_positions"])[None]
        save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
        whole.config.save_pretrained(directory)
        model = whole
    else:
        model.save_pretrained(directory)
    config = json.loads((directory / "config.json").read_text())
    config |= {"architectures": [type(model).__name__], "directionality": "bidi", "pooler_fc_size": 16}
    for later in ("dtype", "is_decoder", "add_cross_attention", "tie_word_embeddings", "bos_token_id", "eos_token_id"):
        config.pop(later, None)
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "vocab.txt").write_text("".join(f"{piece}\n" for piece in tokenizer.pieces), encoding="utf-8")
    described = {"do_lower_case": False, "model_max_length": SHAPE["max_positions"]}
    (directory / "tokenizer_config.json").write_text(json.dumps(described))
    return model


def publish_mbart(directory: Path) -> PreTrainedModel:
    """A directory with the files of mbart-large-cc25, its vocabulary trained here; the model that lies in it."""
    directory.mkdir(parents=True, exist_ok=True)
    learn(english() + german(), kind="unigram", size=110).save(directory)
    (directory / "tokenizer.json").unlink()
    (directory / "sentencepiece.model").rename(directory / "sentencepiece.bpe.model")
    write_config(directory, "mbart")
    settings = {"tokenizer_class": "MBartTokenizer", "src_lang": "en_XX", "tgt_lang": "de_DE"}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    model = _perturbed(build_mbart(Tokenizer.load(directory), seed=1, **SHAPE))
    model.save_pretrained(directory)
    (directory / "generation_config.json").unlink()
    config = json.loads((directory / "config.json").read_text())
    config |= {"forced_eos_token_id": 2, "num_beams": 5, "max_length": SHAPE["max_positions"], "normalize_before": True}
    config["task_specific_params"] = {"translation_en_to_ro": {"decoder_start_token_id": 120}}
    (directory / "config.json").write_text(json.dumps(config))
    return model
