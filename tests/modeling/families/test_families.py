"""The table of families: what each knows without torch, and that it is all that knows."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.models import DEFAULT_FAMILY, SETTINGS_OF_FAMILY, families_for
from subgraft.modeling.families import (
    FAMILIES,
    Family,
    SequenceFormat,
    as_both_sides,
    family_named,
    family_of,
    language_code,
)
from subgraft.subwords.vocabulary.learn import learn
from toys import (
    SHAPE,
    bert,
    bert2bert,
    cased_tokenizer,
    english,
    english_tokenizer,
    german_tokenizer,
    gpt2,
    llama,
    m2m100,
    marian,
    mbart,
    multilingual_tokenizer,
    sequence_format,
    t5,
)

LANGUAGES = Languages(source="en", target="de")
MODELS = (marian, mbart, bert, bert2bert, gpt2, llama, t5, m2m100)


def test_importing_them_needs_neither_torch_nor_transformers() -> None:
    """Nor does any question that a plan asks."""
    program = """
import sys
from subgraft.modeling.families import FAMILIES, family_of
from subgraft.modeling.families import count_parameters
bert = {"model_type": "bert", "vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 2, "intermediate_size": 16,
        "max_position_embeddings": 20}
whole = family_of(bert).assembled(bert)
assert count_parameters(whole, ["decoder"]).total > count_parameters(bert).total
assert family_of(whole).position_limit(whole) == 20 and family_of(whole).in_words(whole)
heavy = {"torch", "transformers", "tokenizers", "numpy"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_a_configuration_may_say_is_what_can_be_built() -> None:
    for name, settings in SETTINGS_OF_FAMILY.items():
        family = family_named(name)
        assert (family.model_type, family.sides, family.objectives) == (name, settings.sides, settings.objectives)
        assert settings.model_fields["family"].default == name and settings.one_table == family.one_table
    assert DEFAULT_FAMILY in SETTINGS_OF_FAMILY
    assert families_for("denoising") == ("mbart", "bart") and families_for("causal") == ("gpt2", "llama", "branched")


@pytest.mark.parametrize("build", MODELS)
def test_config_json_shows_what_the_model_is(build: Any) -> None:
    model: PreTrainedModel = build()
    config, family = model.config.to_dict(), family_of(model)
    assert family is family_of(config)
    assert isinstance(model, family.model_class())
    assert family.position_limit(config) == (None if build is t5 else SHAPE["max_positions"])
    assert family.width(config) == family.input_table(model, family.sides[-1]).weight.shape[1]
    assert family.inner_width(config) == SHAPE["ffn_dim"]
    alone = {bert: (1, 0), bert2bert: (1, 1), gpt2: (0, 2), llama: (0, 2)}
    assert (family.layers(config, "encoder"), family.layers(config, "decoder")) == alone.get(build, (1, 2))


def test_a_bert_and_nothing_else_is_made_into_what_generates() -> None:
    config = bert().config.to_dict()
    made = as_both_sides(config)
    assert not family_of(config).generates
    assert family_of(made).layers(made, "decoder") == family_of(config).layers(config, "encoder")
    for build in (marian, mbart, bert2bert, gpt2, llama, t5, m2m100):
        model = build()
        assert family_of(model).generates
        assert family_of(model).assembled(model.config.to_dict()) == model.config.to_dict()
        with pytest.raises(UserError, match="nothing to assemble"):
            family_of(model).assemble(model, german_tokenizer(), 1)


def test_models_in_words() -> None:
    message = [family_of(config).in_words(config) for config in (build().config.to_dict() for build in MODELS)]
    assert message == [
        "marian, 1 + 2 layers of width 16",
        "mbart, 1 + 2 layers of width 16",
        "bert, 1 layers of width 16 for each side",
        "encoder-decoder, 1 + 1 layers of width 16",
        "gpt2, 2 layers of width 16",
        "llama, 2 layers of width 16",
        "t5, 1 + 2 layers of width 16",
        "m2m_100, 1 + 2 layers of width 16",
    ]


def test_an_encoder_decoder_of_other_parts_is_not_known() -> None:
    config = bert2bert().config.to_dict()
    for change in ({"model_type": "roberta"}, {"hidden_size": 32}):
        with pytest.raises(UserError, match="two encoders of one width"):
            family_of({**config, "decoder": config["decoder"] | change})


def test_sequences_are_as_the_models_configuration_and_tokenizer_say() -> None:
    english, german, many = english_tokenizer(), german_tokenizer(), multilingual_tokenizer()
    end, padding, begin = (german.special[role] for role in ("eos", "pad", "bos"))
    form = sequence_format(marian().config.to_dict(), english, german, LANGUAGES)
    assert form == SequenceFormat((english.special["eos"],), (end,), padding)
    by_end = {**marian().config.to_dict(), "decoder_start_token_id": marian().config.eos_token_id}
    assert sequence_format(by_end, english, german, LANGUAGES).start == end
    english_code, german_code = many.languages["en_XX"], many.languages["de_DE"]
    form = sequence_format(mbart().config.to_dict(), many, many, LANGUAGES)
    ends = many.special["eos"]
    assert form == SequenceFormat((ends, english_code), (ends, german_code), german_code)
    for build in (gpt2, llama):
        form = sequence_format(build().config.to_dict(), german, german, LANGUAGES)
        assert form == SequenceFormat((), (end,), begin)
    cased = cased_tokenizer()
    form = sequence_format(bert2bert().config.to_dict(), cased, cased, LANGUAGES)
    cls, sep = cased.special["cls"], cased.special["sep"]
    assert form == SequenceFormat((sep,), (sep,), cls, (cls,))


def test_an_mbart_50_puts_the_code_of_its_language_before_a_sentence() -> None:
    model, many = mbart(), multilingual_tokenizer()
    config = {**model.config.to_dict(), "decoder_start_token_id": model.config.eos_token_id}
    end, english_code, german_code = many.special["eos"], many.languages["en_XX"], many.languages["de_DE"]
    form = sequence_format(config, many, many, LANGUAGES)
    assert form == SequenceFormat((end,), (end,), end, (english_code,), german_code)


@pytest.mark.parametrize("build", [mbart, m2m100])
def test_languages_are_never_guessed(build: Any) -> None:
    many = multilingual_tokenizer()
    with pytest.raises(UserError, match="no languages are named") as refused:
        sequence_format(build().config.to_dict(), many, many, None)
    assert refused.value.where == "languages" and "de_DE, en_XX" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("family", "codes", "said", "code"),
    [
        ("marian", (">>deu<<", ">>fra<<"), "fr", ">>fra<<"),
        ("marian", (">>fr<<", ">>fr_CA<<"), "fr", ">>fr<<"),
        ("t5", ("<2de>", "<2fr>"), "fra", "<2fr>"),
    ],
)
def test_a_source_begins_with_its_target_language(family: str, codes: tuple[str, ...], said: str, code: str) -> None:
    tokenizer = learn(english(), kind="unigram", size=80, languages=codes)
    pair = Languages(source="en", target=said)
    form = family_named(family).sequence_format({}, tokenizer, tokenizer, pair)
    assert form.source_beginning == (tokenizer.languages[code],) and form.target_beginning is None
    with pytest.raises(UserError, match="no languages are named"):
        family_named(family).sequence_format({}, tokenizer, tokenizer, None)
    plain = english_tokenizer()
    assert family_named(family).sequence_format({}, plain, plain, None).source_beginning == ()


def test_one_of_several_codes_is_named() -> None:
    tokenizer = learn(english(), kind="unigram", size=80, languages=("zho_Hans", "zho_Hant", "eng_Latn"))
    assert tokenizer.pieces[language_code(tokenizer, "en")] == "eng_Latn"
    assert tokenizer.pieces[language_code(tokenizer, "zho_Hant")] == "zho_Hant"
    with pytest.raises(UserError, match="several codes for 'zh'"):
        language_code(tokenizer, "zh")


def test_every_family_is_in_the_registry() -> None:
    families = [Family]
    for family in families:
        families += family.__subclasses__()
    with_a_type = {family for family in families if "model_type" in vars(family)}
    assert {type(family) for family in FAMILIES.values()} == with_a_type
    assert all(name == family.model_type for name, family in FAMILIES.items())


@pytest.mark.parametrize("build", MODELS)
def test_models_that_run_in_ctranslate2_have_a_specification_for_it(build: Any) -> None:
    model = build()
    family = family_of(model)
    if family.runs_in_ctranslate2(model.config.to_dict()):
        assert family.ctranslate2_specification(model) is not None
    else:
        with pytest.raises(UserError):
            family.ctranslate2_specification(model)
