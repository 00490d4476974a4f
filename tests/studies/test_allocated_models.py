"""Models of allocated vocabularies: the same text is missing whatever the vocabulary, and a whole study in little."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

import allocated_models as study
import declaration
from scripts import SCRIPTS, text_in
from small_experiments import finish_steps
from subgraft.config.loading import load
from subgraft.contrib.allocation.session import ALLOCATED, JOINT, AllocationPipeline
from subgraft.contrib.allocation.settings import Allocation
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_named
from subgraft.orchestration.store.store import Store
from subgraft.subwords.vocabulary.capacity import capacity
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.denoising import DenoisingSettings
from toys import english

CONFIG = """\
name: tiny
texts:
  - texts:
      en: {files: {train: [en.txt], test: [en.test.txt]}}
      chr: {files: {train: [chr.txt], test: [chr.test.txt]}}
      xx: {files: {train: [en.txt], test: [en.test.txt]}}
totals: [460]
curves: {kind: bpe, sizes: [60, 90, 120]}
"""


def test_words_are_left_out_of_the_text_and_nothing_else_is_changed() -> None:
    line, generator = "one two three, four five six 七 八九十 seven", np.random.default_rng(1)
    masked = 0
    for _ in range(200):
        pieces = study.noised(line, DenoisingSettings(), generator)
        held = r".*?".join("" if piece is None else re.escape(piece) for piece in pieces)
        remaining = sum(len(re.sub(r"\s", "", piece)) for piece in pieces if piece)
        assert re.search(held, line, re.DOTALL)
        masked += remaining < len(line.replace(" ", ""))
    assert masked == 200
    whole = study.noised("ab cd", DenoisingSettings(noises={"infilling": 0.0}), generator)
    assert whole == ["ab cd"]
    each = study.noised("七八九十", DenoisingSettings(noises={"infilling": 0.5}), generator)
    assert sum(len(piece) for piece in each if piece) == 2, "characters that no space parts are words"


def test_the_same_is_missing_whatever_the_vocabulary() -> None:
    lines = english(30, 4)
    sources = []
    for size in (60, 80):
        tokenizer = learn(lines, kind="unigram", size=size, byte_fallback=False, mask=True, languages=("en_XX",))
        model = family_named("factorised_mbart").build(study.Design(1, characters=60).model, tokenizer, tokenizer, 1)
        examples = study.NoisedLines(lines, "en", Bundle(model, tokenizer, tokenizer), seed=3)
        sources.append([_read(examples.example(place, 2).source, tokenizer) for place in range(len(lines))])
        assert list(examples.lengths) == [len(line) + 1 for line in lines]
        assert tokenizer.decode(examples.example(0, 2).target) == lines[0]
    assert sources[0] == sources[1] and any("_" in line for line in sources[0])


def _read(tokens: list[int], tokenizer: Tokenizer) -> str:
    """What a source shows: its text, with _ for a mask."""
    parts: list[list[int]] = [[]]
    for token in tokens:
        if token == tokenizer.special["mask"]:
            parts.append([])
        else:
            parts[-1].append(token)
    return "_".join(tokenizer.decode(part) for part in parts)


def test_languages_of_each_class() -> None:
    lines = {**dict.fromkeys("edcba", 500), "m": 2_000, "z": 50_000, "y": 10_000}
    assert study.chosen(lines, 3) == {
        "below 1,000 lines": ["a", "c", "e"],
        "below 3,000 lines": ["m"],
        "10,000 lines or more": ["y", "z"],
    }


def test_differences_are_those_of_seeds() -> None:
    texts = study.Texts({}, {text: {"a": ["x" * 100], "b": ["y" * 50]} for text in study.HELD_OUT})
    bit = float(np.log(2))
    done = [
        study.Trained(
            100, name, seed, 1, 1, 1.0, 1, {text: {"a": 100 * bits * bit, "b": 50 * bit} for text in study.HELD_OUT}
        )
        for seed in (1, 2, 3)
        for name, bits in ((ALLOCATED, 2.0 + 0.1 * seed), (JOINT, 3.0))
    ]
    markdown = study.report(done, {"small": ["a", "b"]}, texts)
    assert "| small | 1.600 | 2.000 | -0.450, -0.400, -0.350 | -0.400 ± 0.124 | 1 of 2 |" in markdown
    assert markdown.count("seeds 1, 2, 3") == 2


@pytest.mark.slow
def test_a_study_of_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    config, out = _written(tmp_path), tmp_path / "out"
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SUBGRAFT_DATA", str(tmp_path / "data"))
    asked = [str(config), "--out", str(out), "--steps", "2", "--seeds", "1", "2"]
    assert study.main(asked) == 2
    assert "is not in the store" in capsys.readouterr().err
    pipeline = AllocationPipeline(load(config, Allocation, ()), tmp_path)
    finish_steps([pipeline.report], tmp_path)
    assert study.main(asked) == 0
    table = capsys.readouterr().out
    assert "en" in table and "xx" not in table, "there is no Declaration in it"
    models = [json.loads(line) for line in (out / "models.jsonl").read_text().splitlines()]
    assert [(each["seed"], each["vocabulary"]) for each in models] == [
        (1, ALLOCATED),
        (1, JOINT),
        (2, ALLOCATED),
        (2, JOINT),
    ]
    assert all(each["nats"]["Declaration"].keys() == {"en", "chr"} for each in models)
    first = models[0]["nats"]
    (out / "models.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in models[1:]))
    assert study.main(asked) == 0
    again = [json.loads(line) for line in (out / "models.jsonl").read_text().splitlines()]
    assert len(again) == 4 and again[-1]["nats"] == first, (
        "the same model, bit for bit; the others are not trained again"
    )


def test_capacity_of_the_declaration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = _written(tmp_path)
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SUBGRAFT_DATA", str(tmp_path / "data"))
    assert declaration.main([str(config)]) == 2
    assert "Run `subgraft vocab allocate`" in capsys.readouterr().err
    pipeline = AllocationPipeline(load(config, Allocation, ()), tmp_path)
    finish_steps([pipeline.report], tmp_path)
    assert declaration.main([str(config)]) == 0
    output = capsys.readouterr().out
    tokenizer = Tokenizer.load(Store(tmp_path / "home").path(pipeline.allocations[460]))
    known = capacity(tokenizer, text_in(SCRIPTS[1], None, 5))
    assert f"| chr | 5 | {known.alp:.2f} |" in output and "of 2 languages" in output


def _written(place: Path) -> Path:
    chr_lines = text_in(SCRIPTS[1], None, 120)
    for name, lines in {
        "en.txt": english(120, 1),
        "en.test.txt": english(9, 2),
        "chr.txt": chr_lines,
        "chr.test.txt": chr_lines[:9],
    }.items():
        (place / name).write_text("".join(f"{line}\n" for line in lines))
    folder = place / "data" / "mono" / "udhr"
    folder.mkdir(parents=True)
    tagged = [f"eng\t{line}" for line in english(5, 7)] + [f"chr\t{line}" for line in text_in(SCRIPTS[1], None, 5)]
    with gzip.open(folder / "lang-tab-line.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join([*tagged, "fra\tTous les êtres humains"]) + "\n")
    (place / "config.yaml").write_text(CONFIG)
    return place / "config.yaml"
