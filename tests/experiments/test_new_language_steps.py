"""A language and a script that a checkpoint lacks: its code, and systems with its vocabulary or another."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from small_experiments import finish
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import count_parameters
from subgraft.modeling.sides import side
from subgraft.orchestration.estimates.model_forecast import model_config
from subgraft.orchestration.store.store import Store
from subgraft.subwords.vocabulary.learn import learn
from toys import build_mbart, english, german

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
CONFIG = """\
name: tiny
languages: {source: de, target: ukr}
sides: [decoder]
corpora: {task: {folder: task}}
cleaning: {max_ratio: null}
upstream:
  checkpoint: old
  objectives: [{kind: denoising}]
  new_languages: {ukr: mean}
downstream: {corpus: task, vocabulary: {size: 120, byte_fallback: false}}
finetune: {epochs: null, max_steps: 4, batch_size: 600, precision: fp32, dev_sentences: 3, max_length: 128}
static_embeddings: {epochs: 1}
systems:
  - {name: old, vocabulary: upstream}
  - {name: extended, initialiser: mean, vocabulary_mode: extend, vocabulary_size: 60}
  - {name: own, initialiser: mean}
  - {name: own-focus, initialiser: focus}
evaluation: {beam: 1, speed_sentences: 2, speed_repeats: 1, bootstrap_samples: 20}
"""
SHAPE = {"d_model": 16, "attention_heads": 2, "ffn_dim": 16, "encoder_layers": 1, "decoder_layers": 1}
_LETTERS = {ord(latin): 0x430 + at for at, latin in enumerate("abcdefghijklmnopqrstuvwxyz")}


def cyrillic(count: int, seed: int) -> list[str]:
    return [line.lower().translate(_LETTERS) for line in english(count, seed)]


def checkpoint(place: Path) -> None:
    """An mBART of German and English, whose vocabulary cuts Cyrillic into bytes."""
    lines, codes = english() + german(), ("de_DE", "en_XX")
    tokenizer = learn(lines, kind="unigram", size=370, byte_fallback=True, mask=True, languages=codes)
    Bundle(build_mbart(tokenizer, seed=1, **SHAPE, max_positions=128), tokenizer, tokenizer).save(place)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("new-language")
    (folder / "task").mkdir()
    for split, count, seed in (("train", 80, 1), ("dev", 4, 2), ("test", 5, 3)):
        for code, text in (("de", german(count, seed)), ("ukr", cyrillic(count, seed))):
            (folder / "task" / f"{split}.{code}").write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    checkpoint(folder / "old")
    (folder / "config.yaml").write_text(CONFIG)
    return folder


@pytest.fixture(scope="module")
def whole(place: Path) -> tuple[Pipeline, Store]:
    return finish(place / "config.yaml")


def test_every_system_writes_the_new_language(whole: tuple[Pipeline, Store]) -> None:
    pipeline, store = whole
    tokens = {}
    for steps in pipeline.systems:
        bundle = Bundle.load(store.path(steps.finetune))
        start = bundle.sequence_format(pipeline.experiment.languages).start
        assert bundle.decoder.pieces[start] == "ukr_XX" and "ukr_XX" in bundle.encoder.languages
        outputs = (store.path(steps.evaluate) / "hypotheses.txt").read_text().splitlines()
        assert len(outputs) == 5
        lines = cyrillic(80, 1)
        tokens[steps.system.name] = sum(map(len, bundle.decoder.encode_batch(lines)))
        assert bundle.decoder.decode(bundle.decoder.encode(lines[0])) == lines[0]
    assert tokens["old"] > 2 * max(tokens["extended"], tokens["own"]) and tokens["own"] == tokens["own-focus"]
    page = (store.path(pipeline.report) / "report.html").read_text()
    assert all(name in page for name in (*tokens, "bits/char", "tokens per", "chrF"))


def test_the_code_starts_as_its_setting_says_and_is_the_same_in_every_vocabulary(whole: tuple[Pipeline, Store]) -> None:
    pipeline, store = whole
    old, imported = Bundle.load(pipeline.inputs.base / "old"), Bundle.load(store.path(pipeline.models.pretrained))
    codes = side(old.model, "decoder").input.weight[sorted(old.decoder.languages.values())]
    expected = codes.double().mean(0).float()
    for steps in pipeline.systems:
        bundle = Bundle.load(store.path(steps.transfer)) if steps.transfer else imported
        row = side(bundle.model, "decoder").input.weight[bundle.decoder.languages["ukr_XX"]]
        torch.testing.assert_close(row, expected, rtol=0, atol=1e-7)


def test_the_model_that_a_plan_foresees_is_the_one_that_is_imported(place: Path, whole: tuple[Pipeline, Store]) -> None:
    made, store = whole
    foreseen = model_config(Store(place / "empty"), made.models.pretrained)
    bundle = Bundle.load(store.path(made.models.pretrained))
    assert count_parameters(foreseen).total == bundle.model.num_parameters()


def test_initialisers_and_their_seed_are_in_the_recipe(place: Path) -> None:
    def step(*changes: str) -> Any:
        return Pipeline(load(place / "config.yaml", Experiment, changes), place).inputs.checkpoint

    plain, copied = step(), step("upstream.new_languages={ukr: de}")
    drawn = [step("upstream.new_languages={ukr: random-matched}", f"upstream.seed={seed}") for seed in (1, 2)]
    assert step("upstream.seed=2").fingerprint == plain.fingerprint, "no seed, no noise"
    assert len({each.fingerprint for each in (plain, copied, *drawn)}) == 4


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            ["upstream.new_languages={}"],
            "no language code for 'ukr' — Give it one: `upstream.new_languages: {ukr: mean}`",
        ),
        (["upstream.new_languages={ukr: pl}"], "upstream.new_languages: 'ukr' cannot start as 'pl'"),
        (["upstream.new_languages={ukr: mean, deu: mean}"], "upstream.new_languages: .* code for 'deu' already: de_DE"),
        (["upstream.checkpoint=null", "upstream.corpus=task"], "new_languages needs a checkpoint"),
    ],
)
def test_one_message_says_what_to_write(place: Path, changes: list[str], complaint: str) -> None:
    with pytest.raises(UserError) as refused:
        Pipeline(load(place / "config.yaml", Experiment, changes), place).report  # noqa: B018
    assert re.search(complaint, f"{refused.value.what} — {refused.value.hint}"), refused.value


@pytest.mark.parametrize(
    "changes",
    [
        [],
        ["languages.source=ukr", "languages.target=swh", "sides=[encoder]"],
        ["sides=[encoder,decoder]", "downstream.shared=true"],
    ],
)
def test_the_shipped_configuration_plans_with_a_model_of_another_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: list[str]
) -> None:
    """Its corpora in small, under their names; the checkpoint is built here."""
    monkeypatch.setenv("SUBGRAFT_DATA", str(tmp_path / "data"))
    verses = tmp_path / "data" / "documents" / "new-testament"
    verses.mkdir(parents=True)
    for name, text in (("Swahili-NT", german(30, 1)), ("Ukranian-NT", cyrillic(30, 1))):
        books = [book for book in ("MAT", "MAR", "LUK") for _ in range(10)]
        lines = [f"b.{book}.1.{at % 10 + 1}\t{line}\n" for at, (book, line) in enumerate(zip(books, text, strict=True))]
        (verses / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    lines = english() + german()
    tokenizer = learn(lines, kind="unigram", size=370, byte_fallback=True, mask=True, languages=("swh_XX", "jiv_XX"))
    Bundle(build_mbart(tokenizer, seed=1, **SHAPE, max_positions=512), tokenizer, tokenizer).save(
        tmp_path / "nine-languages"
    )
    experiment = load(CONFIGS / "new-script.yaml", Experiment, changes)
    steps = {each.system.name: each for each in Pipeline(experiment, tmp_path).systems if each.seed == 1}
    assert {*steps} == {"old", "extended", "own", "own-focus"} and steps["old"].transfer is None
    assert Pipeline(experiment, tmp_path).report.fingerprint
    for name in ("extended", "own", "own-focus"):
        transfer = steps[name].transfer
        assert transfer is not None and transfer.stage.sides == experiment.sides
