"""Codes of languages that a published model lacks: their rows, all other rows, and transformers with the new code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, MBartForConditionalGeneration

import subgraft
from published import CHECKPOINTS, english
from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.embeddings.transplanting.new_languages import add_languages
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of, language_code
from subgraft.modeling.inference.translate import translator_of
from subgraft.modeling.sides import side
from subgraft.subwords.vocabulary.learn import learn

# A published checkpoint, a language that it lacks, its code, a language that it has, and rows beyond its vocabulary.
LACKING = {
    "mbart-large-cc25": ("quc", "quc_XX", "de", 0),
    "mbart-large-50": ("quc", "quc_XX", "de", 0),
    "m2m100_418M": ("quc", "__quc__", "de", 8),
    "nllb-200-distilled-600M": ("quc_Latn", "quc_Latn", "deu_Latn", 1),
    "madlad400-3b-mt": ("quc", "<2quc>", "de", None),
    "opus-mt-en-mul": ("quc", ">>quc<<", "fra", 0),
}


def published(name: str, place: Path) -> Bundle:
    CHECKPOINTS[name].publish(place)
    return Bundle.load(place)


@pytest.mark.parametrize("name", LACKING)
def test_a_code_follows_the_vocabulary_and_everything_else_stays(name: str, tmp_path: Path) -> None:
    language, code, other, spare = LACKING[name]
    old, made = published(name, tmp_path), add_languages(Bundle.load(tmp_path), {language: "mean"})
    assert type(made.model) is type(old.model)
    for each, tokenizer in old.tokenizers.items():
        new = made.tokenizers[each]
        assert new.pieces[: len(tokenizer)] == tokenizer.pieces
        assert new.encode_batch([*english(50), code]) == tokenizer.encode_batch([*english(50), code])
    token = made.encoder.languages[code]
    assert token == len(old.encoder) == len(made.encoder) - 1
    assert language_code(made.encoder, language) == token and language_code(made.encoder, other) != token
    rows, before = (side(each.model, "encoder").input.weight for each in (made, old))
    known = sorted(old.encoder.languages.values())
    torch.testing.assert_close(rows[token], before[known].double().mean(0).float(), rtol=0, atol=1e-6)
    others = torch.arange(len(before)) != token
    assert torch.equal(rows[: len(before)][others], before[others]), "no other row changes"
    assert spare is None or len(rows) == len(before) + (0 if spare else 1), "spare rows are taken first"
    weights = made.model.state_dict()
    for weight, tensor in old.model.state_dict().items():
        if weight in weights and weights[weight].shape == tensor.shape and len(tensor) != len(before):
            assert torch.equal(weights[weight], tensor), weight


@pytest.mark.parametrize("name", ["mbart-large-cc25", "mbart-large-50", "m2m100_418M", "nllb-200-distilled-600M"])
def test_outputs_in_old_languages_are_those_of_before(name: str, tmp_path: Path) -> None:
    old, made = published(name, tmp_path), add_languages(Bundle.load(tmp_path), {LACKING[name][0]: "mean"})
    pair = CHECKPOINTS[name].languages
    assert old.sequence_format(pair) == made.sequence_format(pair)
    ids = torch.tensor([old.encoder.encode(english()[0])])
    both = [each.model(input_ids=ids, decoder_input_ids=ids).logits for each in (old, made)]
    size = min(each.shape[-1] for each in both)
    torch.testing.assert_close(both[0][..., : len(old.decoder)], both[1][..., : len(old.decoder)])
    assert size >= len(old.decoder)


@pytest.mark.parametrize("name", ["mbart-large-cc25", "mbart-large-50"])
def test_transformers_loads_the_model_and_writes_the_new_language(name: str, tmp_path: Path) -> None:
    made = add_languages(published(name, tmp_path / "old"), {"quc": "de", "jiv": "random-matched"}, seed=3)
    made.save(tmp_path / "new")
    loaded: Any = MBartForConditionalGeneration.from_pretrained(tmp_path / "new", output_loading_info=True)
    model, loading = loaded
    assert not any(loading.values()), loading
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path / "new")
    codes = tokenizer.convert_tokens_to_ids(["quc_XX", "jiv_XX"])
    assert codes == [made.decoder.languages[code] for code in ("quc_XX", "jiv_XX")]
    table = model.get_input_embeddings().weight
    assert torch.equal(table[codes[0]], table[made.decoder.languages["de_DE"]])
    assert model.lm_head.weight.data_ptr() == table.data_ptr() and model.final_logits_bias.shape[-1] == len(table)
    line = english()[0]
    ends = made.sequence_format(Languages(source="en", target="quc"))
    ids = [*ends.source_beginning, *made.encoder.encode(line), *ends.source_ending]
    assert tokenizer.decode([codes[0], *ids], skip_special_tokens=True).split() == line.split()
    start = {"decoder_start_token_id": codes[0]} if ends.target_beginning is None else {"forced_bos_token_id": codes[0]}
    with torch.inference_mode():
        written = model.generate(torch.tensor([ids]), max_length=40, num_beams=1, forced_eos_token_id=None, **start)
    assert codes[0] in written[0, :2].tolist()
    (ours,) = translator_of(made, Languages(source="en", target="quc"), beam=1, max_length_ratio=1.0)([line])
    assert ours and tokenizer.decode(written[0], skip_special_tokens=True).strip().startswith(ours)


@pytest.mark.slow
def test_drawn_codes_are_distributed_as_the_other_codes_are(tmp_path: Path) -> None:
    """Of many codes, with one seed: mean and deviation per dimension are those of the known ones."""
    old = published("mbart-large-50", tmp_path)
    letters = "abcdefghijklmnopqrstuvwxyz"
    new = {f"q{a}{b}": "random-matched" for a in letters for b in letters[:12]}
    new = {name: how for name, how in new.items() if not _has(old, name)}
    made = add_languages(Bundle.load(tmp_path), new, seed=1)
    known = side(old.model, "decoder").input.weight[sorted(old.decoder.languages.values())].double()
    drawn = side(made.model, "decoder").input.weight[len(old.decoder) :].double()
    assert len(drawn) == len(new)
    deviation = known.var(0, correction=0).sqrt()
    standard = (drawn - known.mean(0)) / deviation
    assert standard.mean(0).abs().max() < 5 / len(new) ** 0.5
    assert (standard.var(0) - 1).abs().max() < 5 * (2 / len(new)) ** 0.5
    again = add_languages(Bundle.load(tmp_path), new, seed=1)
    assert torch.equal(side(again.model, "decoder").input.weight[len(old.decoder) :].double(), drawn)
    other = add_languages(Bundle.load(tmp_path), dict(list(new.items())[:3]), seed=2)
    assert not torch.equal(side(other.model, "decoder").input.weight[len(old.decoder) :].double(), drawn[:3])


def _has(bundle: Bundle, language: str) -> bool:
    try:
        return language_code(bundle.decoder, language) >= 0
    except UserError:
        return False


@pytest.mark.parametrize(
    ("name", "languages", "complaint"),
    [
        ("mbart-large-50", {"uk": "mean"}, "has a code for 'uk' already: uk_UA"),
        ("mbart-large-50", {"ukr": "mean"}, "has a code for 'ukr' already: uk_UA"),
        ("mbart-large-50", {"am": "mean", "amh": "mean"}, "has a code for 'amh' already: am_XX"),
        ("mbart-large-50", {"quc": "jiv"}, "'quc' cannot start as 'jiv': the vocabulary has no language code"),
        ("mbart-large-50", {"kiche": "mean"}, "'kiche' is not a name for a language code"),
        ("nllb-200-distilled-600M", {"quc": "mean"}, "'quc' is not a name for a language code"),
        ("t5-small", {"quc": "mean"}, "has no language codes"),
    ],
)
def test_what_cannot_be_added_is_refused(name: str, languages: dict[str, str], complaint: str, tmp_path: Path) -> None:
    bundle = published(name, tmp_path)
    before = {weight: tensor.clone() for weight, tensor in bundle.model.state_dict().items()}
    with pytest.raises(UserError, match=complaint):
        add_languages(bundle, languages)
    assert all(torch.equal(tensor, before[weight]) for weight, tensor in bundle.model.state_dict().items())
    assert family_of(bundle.model) is family_of(Bundle.load(tmp_path).model)


def test_transfer_adds_a_code_and_keeps_it_in_a_vocabulary_that_lacks_it(tmp_path: Path) -> None:
    old, out = published("mbart-large-cc25", tmp_path), tmp_path / "out"
    learn(english(400), kind="unigram", size=300, like=old.decoder).save(tmp_path / "vocabulary")
    arguments = ["transfer", "--model", str(tmp_path), "--vocab", str(tmp_path / "vocabulary"), "--out", str(out)]
    assert main([*arguments, "--sides", "encoder,decoder", "--new-languages", "quc=de", "jiv=mean"]) == 0
    made = Bundle.load(out)
    before, after = (side(each.model, "decoder").input.weight for each in (old, made))
    known = old.decoder.languages
    assert torch.equal(after[language_code(made.decoder, "quc")], before[known["de_DE"]])
    assert torch.equal(after[language_code(made.decoder, "de")], before[known["de_DE"]])
    mean = before[sorted(known.values())].double().mean(0).float()
    torch.testing.assert_close(after[language_code(made.decoder, "jiv")], mean, rtol=0, atol=1e-6)
    assert translator_of(made, Languages(source="en", target="quc"), beam=1, max_length_ratio=2.0)(english()[:2], 2)


def test_one_side_gets_a_vocabulary_and_both_know_the_code(tmp_path: Path) -> None:
    old = published("opus-mt-en-mul", tmp_path)
    vocabulary = learn(english(400), kind="unigram", size=300, like=old.decoder)
    made = subgraft.transfer(tmp_path, vocabulary, new_languages={"quc": "mean"}).bundle
    assert len(made.decoder) < len(old.decoder) < len(made.encoder)
    assert language_code(made.encoder, "quc") == len(old.encoder)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ("de=mean", "--new-languages: the vocabulary has a code for 'de' already"),
        ("quc=pl", "--new-languages: 'quc' cannot start as 'pl'"),
        ("quc", "expected a language and its initialiser, as in ukr=mean, found 'quc'"),
    ],
)
def test_a_mistaken_language_gets_one_message(
    new: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published("mbart-large-cc25", tmp_path)
    learn(english(400), kind="unigram", size=300, like=Bundle.load(tmp_path).decoder).save(tmp_path / "vocabulary")
    arguments = ["transfer", "--model", str(tmp_path), "--vocab", str(tmp_path / "vocabulary")]
    assert main([*arguments, "--out", str(tmp_path / "out"), "--new-languages", new]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("mode", ["replace", "extend"])
def test_a_grafted_model_of_transformers_writes_the_new_language(mode: Any, tmp_path: Path) -> None:
    published("mbart-large-cc25", tmp_path)
    model: Any = MBartForConditionalGeneration.from_pretrained(tmp_path)
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.src_lang, tokenizer.tgt_lang = "en_XX", "de_DE"
    size = 500 if mode == "replace" else 20
    grafted = subgraft.graft(model, tokenizer, english(400), mode=mode, size=size, new_languages={"quc": "de"})
    ids: Any = grafted.tokenizer.convert_tokens_to_ids(["quc_XX", "de_DE"])
    rows: Any = grafted.model.get_input_embeddings().weight
    assert torch.equal(rows[ids[0]], rows[ids[1]]) and ids[0] != ids[1]
    encoded: Any = grafted.tokenizer(english()[:1], return_tensors="pt")
    written: Any = grafted.model.generate(**encoded, forced_bos_token_id=ids[0], max_new_tokens=5)  # type: ignore[operator]
    assert ids[0] in written[0].tolist()
    with pytest.raises(UserError, match=r"new_languages.*expected languages and their initialisers"):
        subgraft.graft(model, tokenizer, english(400), new_languages=["quc"])  # type: ignore[arg-type]
