"""Exports that transformers loads by itself, and that write there what they write here."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from finished import (
    Build,
    as_published_bundle,
    bert2bert_bundle,
    gpt2_bundle,
    llama_bundle,
    m2m100_bundle,
    mbart_bundle,
    separate_bundle,
    split_bert2bert_bundle,
    split_mbart_bundle,
    t5_bundle,
    tell_languages,
)
from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings
from subgraft.config.settings_base import SideName
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.transformers import Loading, export_transformers
from subgraft.modeling.families.marian_layout import is_published
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.pipeline.compute.outputs import translator
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import english

LANGUAGES = Languages(source="en", target="de")
LINES = [" ".join(line.split()[:2]) for line in english(20, 5)]
LINES += ["", " ", "  two   spaces ", "häßlich 中文 ☃", "tab\tand e\u0301", "½ ﬁ Ⅷ", "a" * 30, 'I\'d say: «no», "yes"!']
TRANSLATORS = [
    separate_bundle,
    as_published_bundle,
    mbart_bundle,
    split_mbart_bundle,
    m2m100_bundle,
    t5_bundle,
    bert2bert_bundle,
    split_bert2bert_bundle,
]


def _loaded(bundle: Bundle, folder: Path) -> tuple[Any, Any, Loading]:
    """The tokenizer and the model that transformers makes of the export."""
    bundle.save(folder / "model")
    out = folder / "exported"
    out.mkdir()
    loading = export_transformers(folder / "model", out, LANGUAGES)
    tokenizer = AutoTokenizer.from_pretrained(out, trust_remote_code=loading.tokenizer_code)
    kind = getattr(transformers, loading.model_class)
    return tokenizer, kind.from_pretrained(out, trust_remote_code=loading.model_code).eval(), loading


def _renumbered(tokenizer: Tokenizer, side: SideName, folder: Path) -> Callable[[Sequence[int]], list[int]]:
    """What makes ids of a model into those of its export: a Marian's tokens are put in the order of its files."""
    files = [name for name in ("target_vocab.json", "vocab.json") if (folder / "exported" / name).exists()]
    if not files:
        return list
    ids = json.loads((folder / "exported" / files[-1 if side == "encoder" else 0]).read_text(encoding="utf-8"))
    return lambda tokens: [ids[tokenizer.pieces[token]] for token in tokens]


@pytest.mark.filterwarnings("ignore:Recommended")
@pytest.mark.parametrize("build", TRANSLATORS)
def test_translators_read_the_same_ids_and_write_the_same_tokens(build: Build, tmp_path: Path) -> None:
    bundle = build()
    tokenizer, model, _ = _loaded(build(), tmp_path)
    form = bundle.sequence_format(LANGUAGES)
    source, target = (_renumbered(bundle.tokenizers[side], side, tmp_path) for side in ("encoder", "decoder"))
    around = [[*form.source_beginning, *ids, *form.source_ending] for ids in bundle.encoder.encode_batch(LINES)]
    assert [tokenizer(line)["input_ids"] for line in LINES] == list(map(source, around))
    expected = translator(bundle, LANGUAGES, MeasurementSettings(beam=1)).with_probabilities(LINES)
    most = max(len(output.tokens) for output in expected) + 4
    limit = min(most, bundle.max_positions)
    for line, output in zip(LINES, expected, strict=True):
        ids = tokenizer(line, return_tensors="pt", return_token_type_ids=False)
        generated = model.generate(**ids, do_sample=False, num_beams=1, max_length=limit)[0].tolist()
        begins = [form.start] if form.target_beginning is None else [form.start, form.target_beginning]
        written = target([*begins, *output.tokens])
        # Ours ends some outputs sooner, by a limit in bytes.
        assert generated[: len(written)] == written


@pytest.mark.filterwarnings("ignore:Recommended")
@pytest.mark.parametrize("build", TRANSLATORS)
def test_targets_are_read_and_written_by_the_decoders_vocabulary(build: Build, tmp_path: Path) -> None:
    bundle, (tokenizer, _, loading) = build(), _loaded(build(), tmp_path)
    ids = _renumbered(bundle.decoder, "decoder", tmp_path)(bundle.decoder.encode("garten haus buch"))
    assert tokenizer.decode(ids, skip_special_tokens=True).split() == ["garten", "haus", "buch"]
    if len(bundle.tokenizers) == 2 and bundle.encoder is not bundle.decoder:
        labels = tokenizer(text_target="garten haus buch")["input_ids"]
        assert labels[-len(bundle.sequence_format(LANGUAGES).target_ending) - len(ids) :][: len(ids)] == ids
        before = tokenizer("thank")["input_ids"]
        tokenizer.save_pretrained(tmp_path / "again")
        again = AutoTokenizer.from_pretrained(tmp_path / "again", trust_remote_code=loading.tokenizer_code)
        assert again("thank")["input_ids"] == before
        assert again(text_target="garten haus buch")["input_ids"] == labels


@pytest.mark.parametrize("build", [gpt2_bundle, llama_bundle])
def test_language_models_continue_the_same_prompts(build: Build, tmp_path: Path) -> None:
    bundle, (tokenizer, model, loading) = build(), _loaded(build(), tmp_path)
    assert loading == Loading("AutoModelForCausalLM", model_code=False, tokenizer_code=False)
    start = bundle.sequence_format(LANGUAGES).start
    assert [tokenizer(line)["input_ids"] for line in LINES] == [
        [start, *ids] for ids in bundle.decoder.encode_batch(LINES)
    ]
    ids = torch.tensor([tokenizer("garten")["input_ids"]])
    assert torch.equal(model(ids).logits, bundle.model(ids).logits)


def test_a_marian_of_two_vocabularies_has_its_native_files(tmp_path: Path) -> None:
    _, _, loading = _loaded(separate_bundle(), tmp_path)
    assert not loading.tokenizer_code and is_published(tmp_path / "exported")
    read, written = load_tokenizers(tmp_path / "exported"), separate_bundle()
    assert [read["encoder"].encode(line) for line in LINES] == [written.encoder.encode(line) for line in LINES]
    assert read["decoder"].pieces == written.decoder.pieces


@pytest.mark.parametrize("build", [split_mbart_bundle, split_bert2bert_bundle])
def test_classes_of_our_own_are_reported_where_remote_code_is_not_allowed(build: Build, tmp_path: Path) -> None:
    _, _, loading = _loaded(build(), tmp_path)
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        AutoTokenizer.from_pretrained(tmp_path / "exported")
    if loading.model_code:
        with pytest.raises(ValueError, match="trust_remote_code=True"):
            AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "exported")


def test_generation_settings_are_those_of_the_languages(tmp_path: Path) -> None:
    _loaded(mbart_bundle(), tmp_path)
    settings = json.loads((tmp_path / "exported" / "generation_config.json").read_text(encoding="utf-8"))
    assert settings["decoder_start_token_id"] == mbart_bundle().decoder.languages["de_DE"]
    with pytest.raises(UserError, match="languages: this model has a code"):
        export_transformers(tmp_path / "model", tmp_path)
    tell_languages(tmp_path / "model", "de", "en")
    (tmp_path / "told").mkdir()
    export_transformers(tmp_path / "model", tmp_path / "told")
    settings = json.loads((tmp_path / "told" / "generation_config.json").read_text(encoding="utf-8"))
    assert settings["decoder_start_token_id"] == mbart_bundle().decoder.languages["en_XX"]


def test_the_command_says_what_loads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    split_mbart_bundle().save(tmp_path / "model")
    command = ["export", str(tmp_path / "model"), "--to", "transformers", "--languages", "en-de"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    message = capsys.readouterr().out
    assert "AutoModelForSeq2SeqLM" in message and "trust_remote_code=True" in message
    assert main([*command, "--out", str(tmp_path / "other"), "--quantization", "int8"]) == 2
