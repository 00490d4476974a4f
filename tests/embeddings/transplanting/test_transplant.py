from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoModelForSeq2SeqLM,
    MarianConfig,
    MarianMTModel,
    MBartForConditionalGeneration,
    PreTrainedModel,
)

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName, VocabularyKind
from subgraft.embeddings.methods.registry import METHODS
from subgraft.embeddings.transplanting.transplant import Method, Transplant, transplant
from subgraft.modeling.families.split_mbart import SplitMBartForConditionalGeneration
from subgraft.modeling.load import load_model, save_model
from subgraft.modeling.sides import shares_table, side
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import (
    SHAPE,
    bert,
    bert2bert,
    build_marian,
    cased_tokenizer,
    english_tokenizer,
    fitted_tokenizer,
    generated,
    german,
    german_tokenizer,
    gpt2,
    marian,
    mbart,
    multilingual_tokenizer,
    output_bias,
    publish_marian,
)

BERTS = ("bert", "encoder-decoder")


class Case(NamedTuple):
    model: PreTrainedModel
    source: dict[SideName, Tokenizer]
    target: Tokenizer


def case(family: str, tied: bool = True) -> Case:
    multilingual: dict[SideName, Tokenizer] = dict.fromkeys(("encoder", "decoder"), multilingual_tokenizer())
    cased: dict[SideName, Tokenizer] = dict.fromkeys(("encoder", "decoder"), cased_tokenizer())
    made = {
        "marian": lambda: Case(
            marian(),
            {"encoder": english_tokenizer(), "decoder": german_tokenizer()},
            learn(german(400, 7), kind="bpe", size=140),
        ),
        "mbart": lambda: Case(mbart(), multilingual, fitted_tokenizer()),
        "bert": lambda: Case(bert(tied=tied), cased, german_tokenizer(200, "wordpiece")),
        "encoder-decoder": lambda: Case(bert2bert(tied=tied), cased, german_tokenizer(200, "wordpiece")),
        "gpt2": lambda: Case(gpt2(), {"decoder": german_tokenizer()}, german_tokenizer(120, "wordpiece")),
    }[family]()
    return made if tied or family in BERTS else made._replace(model=untied(made.model))


def untied(model: PreTrainedModel) -> PreTrainedModel:
    config = type(model.config)(**{**model.config.to_dict(), "tie_word_embeddings": False})
    torch.manual_seed(4)
    separate: PreTrainedModel = type(model)(config).eval()
    if hasattr(separate, "final_logits_bias"):
        output_bias(separate).normal_()
    separate.generation_config = model.generation_config
    return separate


def inputs(family: str, tokenizers: Mapping[SideName, Tokenizer]) -> dict[str, torch.Tensor]:
    decoder = tokenizers["decoder"]
    target = torch.tensor([[decoder.special["bos"], *decoder.encode("dankbar freundlich")]])
    if family == "gpt2":
        return {"input_ids": target}
    encoder = tokenizers["encoder"]
    source = torch.tensor([[*encoder.encode("hand garden"), encoder.special["eos"]]])
    if family == "bert":
        return {"input_ids": source, "attention_mask": torch.ones_like(source)}
    return {"input_ids": source, "attention_mask": torch.ones_like(source), "decoder_input_ids": target}


SIDES: list[tuple[SideName, ...]] = [("decoder",), ("encoder",), ("encoder", "decoder")]
WITH_SIDES = ("marian", "mbart", "encoder-decoder")
EVERYTHING = [(family, tied, sides) for family in WITH_SIDES for tied in (True, False) for sides in SIDES]
EVERYTHING += [("bert", tied, ("encoder", "decoder")) for tied in (True, False)]
EVERYTHING += [("gpt2", True, ("decoder",)), ("gpt2", False, ("decoder",))]


@pytest.mark.parametrize(("family", "tied", "sides"), EVERYTHING)
def test_the_round_trip_gives_the_same_logits_and_generates(
    family: str, tied: bool, sides: tuple[SideName, ...], tmp_path: Path
) -> None:
    model, source, target = case(family, tied)
    result, reports, _ = transplant(model, source, dict.fromkeys(sides, target), Method("avg"))
    assert set(reports) == set(sides)
    tokenizers = source | dict.fromkeys(sides, target)
    save_model(result, tokenizers, tmp_path)
    again, loaded = load_model(tmp_path), load_tokenizers(tmp_path)
    batch = inputs(family, loaded)
    with torch.inference_mode():
        assert torch.equal(again(**batch).logits, result(**batch).logits)
    assert (side(again, "decoder").tied, side(result, "decoder").tied) == (tied, tied)
    assert again(**batch).logits.shape[-1] == len(loaded["decoder"])
    if family == "bert":
        return
    batch.pop("decoder_input_ids", None)
    start = {} if family == "gpt2" else {"decoder_start_token_id": loaded["decoder"].special["bos"]}
    beams = generated(again, **batch, **start, num_beams=2, max_length=6)
    assert torch.equal(beams, generated(result, **batch, **start, num_beams=2, max_length=6))
    assert isinstance(loaded["decoder"].decode(beams[0].tolist()), str)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", ["marian", "mbart", "encoder-decoder", "gpt2"])
def test_rows_of_seen_and_special_tokens_are_copied_and_nothing_else_changes(family: str, tied: bool) -> None:
    model, source, target = case(family, tied)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    old = side(model, "decoder")
    old_input, old_output = old.input.weight.clone(), old.output.weight.clone()  # type: ignore[union-attr]
    old_bias = None if old.bias is None else old.bias.clone().flatten()
    result, reports, _ = transplant(model, source, {"decoder": target}, Method("mean"))
    new = side(result, "decoder")
    origins = torch.from_numpy(align(source["decoder"], target).origins)
    copied = origins >= 0
    assert torch.equal(new.input.weight[copied], old_input[origins[copied]])
    assert torch.equal(new.output.weight[copied], old_output[origins[copied]])  # type: ignore[union-attr]
    if old_bias is not None:
        assert torch.equal(new.bias.flatten()[copied], old_bias[origins[copied]])  # type: ignore[union-attr]
    report = reports["decoder"]
    assert int(copied.sum()) == report.seen + report.special
    assert report.unseen > 10
    after = result.state_dict()
    tables = {name for name in before if name not in after or before[name].shape != after[name].shape}
    assert tables <= {
        "model.shared.weight",
        "model.decoder.embed_tokens.weight",
        "lm_head.weight",
        "final_logits_bias",
        "transformer.wte.weight",
        "decoder.bert.embeddings.word_embeddings.weight",
        "decoder.cls.predictions.decoder.weight",
        "decoder.cls.predictions.decoder.bias",
        "decoder.cls.predictions.bias",
    }
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items() if name not in tables)


PREPARED = {name for name, facts in METHODS.items() if facts.trained or facts.learning or facts.static or facts.donor}


@pytest.mark.parametrize("method", [name for name in METHODS if name not in PREPARED])
def test_transplanting_the_same_vocabulary_changes_no_logit(method: str) -> None:
    model, source, _ = case("mbart")
    batch = inputs("mbart", source)
    expected = model(**batch).logits
    result, reports, _ = transplant(model, source, {"decoder": source["decoder"]}, Method(method))
    assert torch.equal(result(**batch).logits, expected)
    assert reports["decoder"].unseen == 0


def test_a_padding_row_of_zeros_stays_one_wherever_padding_now_is() -> None:
    model, source, _ = case("mbart")
    target = german_with_padding_elsewhere()
    assert target.special["pad"] != source["decoder"].special["pad"]
    result, _, _ = transplant(model, source, {"decoder": target}, Method("random"))
    assert not side(result, "decoder").input.weight[target.special["pad"]].any()
    assert side(result, "decoder").padding_id == target.special["pad"] == result.config.pad_token_id
    assert side(result, "encoder").padding_id == source["encoder"].special["pad"]
    assert side(result, "decoder").input.weight[source["decoder"].special["pad"]].any()


def german_with_padding_elsewhere() -> Tokenizer:
    return learn(german(400, 7), kind="wordpiece", size=130, languages=("de_DE", "en_XX"))


def test_a_batch_padded_on_both_sides_equals_its_sentences_one_by_one(tmp_path: Path) -> None:
    """Encoder and decoder pad with different ids here: neither may leak into the other."""
    model, source, _ = case("mbart")
    target = german_with_padding_elsewhere()
    result, _, _ = transplant(model, source, {"decoder": target}, Method("avg"))
    save_model(result, source | {"decoder": target}, tmp_path)
    again = load_model(tmp_path)
    encoder, code = source["encoder"], target.languages["de_DE"]
    sentences = [[*encoder.encode(text), encoder.special["eos"]] for text in ("hand garden book", "land")]
    longest = max(map(len, sentences))
    padded = torch.tensor([ids + [encoder.special["pad"]] * (longest - len(ids)) for ids in sentences])
    settings = {"num_beams": 2, "max_length": 8, "decoder_start_token_id": code}
    batch = generated(again, padded, attention_mask=(padded != encoder.special["pad"]).long(), **settings)
    for ids, row in zip(sentences, batch.tolist(), strict=True):
        alone = torch.tensor([ids])
        single = generated(again, alone, attention_mask=torch.ones_like(alone), **settings)[0].tolist()
        assert row[: len(single)] == single
        assert set(row[len(single) :]) <= {target.special["pad"], target.special["eos"]}


def test_an_mbart_with_one_new_vocabulary_on_both_sides_stays_an_mbart(tmp_path: Path) -> None:
    model, source, target = case("mbart")
    result, reports, _ = transplant(model, source, {"encoder": target, "decoder": target}, Method("avg"))
    assert type(result) is MBartForConditionalGeneration
    assert shares_table(result)
    assert (reports["encoder"].unseen, reports["encoder"].side) == (reports["decoder"].unseen, "encoder")
    save_model(result, {"encoder": target, "decoder": target}, tmp_path)
    assert not list(tmp_path.glob("*.py"))
    assert type(AutoModelForSeq2SeqLM.from_pretrained(tmp_path)) is MBartForConditionalGeneration


def test_a_split_mbart_can_be_given_yet_another_vocabulary() -> None:
    model, source, target = case("mbart")
    split, _, _ = transplant(model, source, {"decoder": target}, Method("avg"))
    assert isinstance(split, SplitMBartForConditionalGeneration)
    other = fitted_tokenizer(150)
    again, reports, _ = transplant(split, source | {"decoder": target}, {"decoder": other}, Method("avg"))
    assert isinstance(again, SplitMBartForConditionalGeneration)
    assert side(again, "decoder").input.weight.shape[0] == 150
    assert reports["decoder"].special == len(other.special_ids)


def test_the_configuration_speaks_the_new_vocabulary() -> None:
    model, source, target = case("marian")
    source["decoder"] = german_tokenizer()
    model.generation_config.bad_words_ids = [[source["decoder"].special["pad"]], [20]]
    target = learn(german(400, 7), kind="wordpiece", size=140)
    result, reports, _ = transplant(model, source, {"decoder": target}, Method("avg"))
    for settings in (result.config, result.generation_config):
        assert settings.pad_token_id == settings.decoder_start_token_id == target.special["pad"]
        assert settings.eos_token_id == target.special["sep"]
    assert [target.special["pad"]] in result.generation_config.bad_words_ids
    assert result.config.decoder_vocab_size == 140
    assert all(setting.startswith("bad_words_ids") for setting in reports["decoder"].dropped)


@pytest.mark.parametrize("family", ["marian", "mbart", "gpt2"])
def test_seen_rows_can_be_initialised_too(family: str) -> None:
    model, source, target = case(family)
    old = side(model, "decoder").input.weight.clone()
    result, reports, _ = transplant(model, source, {"decoder": target}, Method("random", copy_shared_tokens=False))
    new = side(result, "decoder").input.weight
    for token, origin in enumerate(align(source["decoder"], target).origins.tolist()):
        same = origin >= 0 and torch.equal(new[token], old[origin])
        assert same == (token in target.special_ids and origin >= 0)
    report = reports["decoder"]
    assert report.seen == 0
    assert report.size == len(target) == report.special + report.unseen + report.others


def test_a_bert_has_one_table_and_so_one_vocabulary() -> None:
    model, source, target = case("bert")
    with pytest.raises(UserError, match="one embedding matrix"):
        transplant(model, source, {"decoder": target}, Method("avg"))
    model, source, _ = case("bert")
    both = {"encoder": german_tokenizer(200, "wordpiece"), "decoder": cased_tokenizer()}
    with pytest.raises(UserError, match="one embedding matrix"):
        transplant(model, source, both, Method("avg"))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_both_sides_made_of_a_bert_speak_vocabularies_of_their_own(kind: str) -> None:
    model, source, _ = case("encoder-decoder")
    target = {"encoder": english_tokenizer(), "decoder": german_tokenizer(120, kind)}
    result, reports, _ = transplant(model, source, target, Method("random", seed=2))  # type: ignore[arg-type]
    assert reports["decoder"].scale == pytest.approx(0.02), "as Devlin et al. drew their weights"
    for name, vocabulary in target.items():
        embeddings = side(result, name)  # type: ignore[arg-type]
        assert len(embeddings.input.weight) == len(vocabulary) == getattr(result.config, name).vocab_size
        assert embeddings.padding_id == embeddings.input.padding_idx == vocabulary.special["pad"]
        assert not embeddings.input.weight[vocabulary.special["pad"]].any()
    special = target["decoder"].special
    for settings in (result.config, result.generation_config):
        assert settings.decoder_start_token_id == special["bos"]
        assert (settings.eos_token_id, settings.pad_token_id) == (special["eos"], special["pad"])


def test_random_states_its_scale_and_follows_the_seed() -> None:
    def table(seed: int) -> torch.Tensor:
        model, source, target = case("marian")
        result, reports, _ = transplant(model, source, {"decoder": target}, Method("random", seed=seed))
        assert reports["decoder"].scale == pytest.approx(16**-0.5)
        return side(result, "decoder").input.weight

    assert torch.equal(table(1), table(1))
    assert not torch.equal(table(1), table(2))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"method": "magic"}, "unknown method 'magic'\n.*random, random-matched, mean"),
        ({"target": german_tokenizer}, "lacks special tokens that the model's decoder uses: language code"),
        ({"source": fitted_tokenizer}, r"has 110 rows for 180 tokens, and none for (?s:.*)resize_token_embeddings"),
    ],
)
def test_what_does_not_fit_is_refused_and_the_model_left_as_it_was(change: dict[str, object], complaint: str) -> None:
    model, source, target = case("mbart")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    if "source" in change:
        source["decoder"] = change["source"]()  # type: ignore[operator]
    if "target" in change:
        target = change["target"]()  # type: ignore[operator]
    with pytest.raises(UserError, match=complaint):
        transplant(model, source, {"decoder": target}, Method(str(change.get("method", "avg"))))
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in before.items())


def test_a_decoder_alone_has_no_encoder_to_transplant() -> None:
    model, source, target = case("gpt2")
    with pytest.raises(UserError, match="has no encoder"):
        transplant(model, source | {"encoder": target}, {"encoder": target}, Method("avg"))


def test_a_published_marian_is_transplanted(tmp_path: Path) -> None:
    """One table for both sides, padding last, and a decoder that is kept from padding by `bad_words_ids`."""
    publish_marian(tmp_path, kind="unigram", separate=False)
    source = load_tokenizers(tmp_path)
    padding = source["decoder"].special["pad"]
    ids = {"pad_token_id": padding, "decoder_start_token_id": padding, "eos_token_id": 0, "bos_token_id": 0}
    described = marian().config.to_dict() | ids | {"forced_eos_token_id": 0, "vocab_size": padding + 1}
    described |= {"share_encoder_decoder_embeddings": True, "decoder_vocab_size": padding + 1}
    config = MarianConfig(**{key: value for key, value in described.items() if key != "encoder_pad_token_id"})
    torch.manual_seed(1)
    published = MarianMTModel(config)
    published.generation_config.bad_words_ids = [[padding]]
    published.save_pretrained(tmp_path)
    target = german_tokenizer()
    result, reports, _ = transplant(load_model(tmp_path), source, {"decoder": target}, Method("avg"))
    assert reports["decoder"].seen > 10
    assert torch.equal(side(result, "encoder").input.weight, published.model.shared.weight)
    assert (side(result, "encoder").padding_id, side(result, "decoder").padding_id) == (padding, target.special["pad"])
    save_model(result, source | {"decoder": target}, tmp_path / "out")
    again = load_model(tmp_path / "out")
    assert side(again, "encoder").padding_id == padding
    assert again.generation_config.bad_words_ids == [[target.special["pad"]]]
    assert again.generation_config.forced_eos_token_id == target.special["eos"]
    sentence = torch.tensor([[*source["encoder"].encode("hand garden"), 0]])
    out = generated(again, sentence, attention_mask=torch.ones_like(sentence), num_beams=2, max_length=6)[0].tolist()
    assert out[0] == target.special["pad"]
    assert target.special["pad"] not in out[1:]
    assert len(target) > max(out)


SLASHED = [*german(400, 7), *["ø dankø dankøbar freundø øø"] * 400]  # the upstream text has no such character


def _transplanted(source: Tokenizer, target: Tokenizer, method: str) -> tuple[Tensor, Tensor, Transplant]:
    """The decoder's table before and after, and the transplant."""
    model = build_marian(english_tokenizer(), source, seed=1, **SHAPE)
    before = side(model, "decoder").input.weight.detach().clone()
    both: dict[SideName, Tokenizer] = {"encoder": english_tokenizer(), "decoder": source}
    made = transplant(model, both, {"decoder": target}, Method(method))
    return before, side(made.model, "decoder").input.weight.detach(), made


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("method", ["mean", "avg"])
def test_bytes_are_carried_over_as_bytes_and_make_no_other_row(method: str, kind: VocabularyKind) -> None:
    """But those of a token that the upstream vocabulary spells in nothing else."""
    source = learn(german(), kind="unigram", size=350, byte_fallback=True)
    target = learn(SLASHED, kind=kind, size=400, byte_fallback=True, character_coverage=1.0)
    before, after, made = _transplanted(source, target, method)
    for byte, token in target.byte_ids.items():
        assert torch.equal(after[token], before[source.byte_ids[byte]])
    slashed = target.ids[Entry("ø", False)]
    expected = before[[source.byte_ids[byte] for byte in "ø".encode()]].mean(0)
    torch.testing.assert_close(after[slashed], expected)
    report, matrix = made.reports["decoder"], made.matrices["decoder"]
    only_slashed = [i for e, i in target.ids.items() if e not in source.ids and set(e.surface) == {"ø"}]
    assert report.fallbacks["bytes"] == len(only_slashed) > 0
    in_bytes = torch.isin(matrix.tokens, torch.tensor(list(source.byte_ids.values())))
    rows = torch.repeat_interleave(torch.arange(len(target)), matrix.offsets.diff())
    assert set(rows[in_bytes].tolist()) == {*target.byte_ids.values(), *only_slashed}
    mixed = [i for e, i in target.ids.items() if "ø" in e.surface and set(e.surface) != {"ø"}]
    assert mixed, "there is a token of both"


@pytest.mark.parametrize("method", ["mean", "avg"])
def test_bytes_of_the_new_vocabulary_alone_get_the_mean_row(method: str) -> None:
    source = german_tokenizer()
    target = learn(SLASHED, kind="unigram", size=400, byte_fallback=True, character_coverage=1.0)
    before, after, made = _transplanted(source, target, method)
    tokens = [*target.byte_ids.values(), target.ids[Entry("ø", False)]]
    ordinary = [i for i, entry in enumerate(source.entries) if entry is not None]
    torch.testing.assert_close(after[tokens], before[ordinary].mean(0).expand(len(tokens), -1))
    assert made.reports["decoder"].others == 256
    assert made.reports["decoder"].fallbacks["mean"] > 0 == made.reports["decoder"].fallbacks["bytes"]


@pytest.mark.parametrize("method", ["mean", "avg"])
def test_bytes_of_the_upstream_vocabulary_alone_spell_what_it_lacks(method: str) -> None:
    source = learn(german(), kind="unigram", size=350, byte_fallback=True)
    target = learn(SLASHED, kind="unigram", size=180, character_coverage=1.0)
    before, after, made = _transplanted(source, target, method)
    expected = before[[source.byte_ids[byte] for byte in "ø".encode()]].mean(0)
    torch.testing.assert_close(after[target.ids[Entry("ø", False)]], expected)
    assert made.reports["decoder"].fallbacks["bytes"] > 0 == made.reports["decoder"].fallbacks["mean"]
