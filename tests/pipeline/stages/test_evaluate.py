"""The evaluation of a toy model: every figure it writes, against what the outputs it writes give."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

import toys
from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.evaluation import MeasurementSettings
from subgraft.config.runtime import Runtime
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.evaluation.metrics.scores import corpus_scores
from subgraft.modeling.bundle import Bundle
from subgraft.orchestration.store.events import EventLog, StageContext
from subgraft.pipeline.artifacts import SPELLED, STATISTICS
from subgraft.pipeline.compute.evaluate import evaluate_model
from subgraft.pipeline.stages.evaluation import EvaluateStage

LANGUAGES = Languages(source="en", target="de")
TEST = 6


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("inputs")
    files = {}
    for number, split in enumerate(("train", "dev", "test")):
        sides = []
        for side, lines in (("en", toys.english(TEST, number)), ("de", toys.german(TEST, number))):
            (root / f"{split}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
            sides.append(str(root / f"{split}.{side}"))
        files[split] = tuple(sides)
    source = CorpusSource.model_validate({"files": files})
    build(source, LANGUAGES, Cleaning(), root / "corpus")
    model = root / "model"
    Bundle(toys.marian(), toys.english_tokenizer(), toys.german_tokenizer()).save(model)
    return {"model": model, "corpus": root / "corpus"}


def evaluated(inputs: dict[str, Path], out: Path, **settings: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The stage's summary, and what it wrote."""
    out.mkdir()
    chosen = MeasurementSettings(beam=2, batch_size=4, speed_sentences=2, speed_repeats=1, **settings)
    recipe = EvaluateStage(languages=LANGUAGES, evaluation=chosen)
    context = StageContext(out.parent / "work", Runtime(), EventLog(out.parent / "events.jsonl"))
    summary = evaluate_model(recipe, inputs, out, context)
    return summary, json.loads((out / "evaluation.json").read_text())


def test_figures_are_those_of_the_outputs(inputs: dict[str, Path], tmp_path: Path) -> None:
    summary, written = evaluated(inputs, tmp_path / "out")
    hypotheses, references = (
        (tmp_path / "out" / f"{name}.txt").read_text(encoding="utf-8").split("\n")[:-1]
        for name in ("hypotheses", "references")
    )
    expected = corpus_scores(hypotheses, references, "de")
    assert list(written["scores"]) == list(expected)
    for name, score in expected.items():
        assert written["scores"][name]["value"] == summary[name] == pytest.approx(score.value)
        assert written["scores"][name]["signature"] == score.signature
    assert all(len(counts) == TEST for counts in load_file(tmp_path / "out" / STATISTICS).values())
    tokens = sum(map(len, toys.german_tokenizer().encode_batch(references)))
    assert written["tokens_per_sentence"] == pytest.approx(tokens / TEST + 1)
    assert written["characters_per_token"] == pytest.approx(sum(map(len, references)) / tokens)
    calibration = written["calibration"]
    assert summary["inference_ece"] == calibration["error"]
    assert sum(b["count"] for b in calibration["bins"]) == calibration["tokens"] > 0


def test_it_is_recorded_which_sentences_the_model_can_spell(inputs: dict[str, Path], tmp_path: Path) -> None:
    """Vocabularies of the toys have no bytes: a character that neither text has is unknown."""
    corpus = tmp_path / "corpus"
    shutil.copytree(inputs["corpus"], corpus)
    for side, place, word in (("source", 1, "("), ("target", 3, "7"), ("target", 4, "É")):
        path = corpus / f"test.{side}"
        lines = path.read_text(encoding="utf-8").splitlines()
        lines[place] += f" {word}"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    _, written = evaluated({**inputs, "corpus": corpus}, tmp_path / "out")
    assert load_file(tmp_path / "out" / STATISTICS)[SPELLED].tolist() == [True, False, True, False, False, True]
    spelling = written["spelling"]
    assert spelling["sentences"] == 3
    assert (spelling["source"]["with_unknown"], spelling["reference"]["with_unknown"]) == (1, 2)


def test_calibration_can_be_left_out_and_changes_no_output(inputs: dict[str, Path], tmp_path: Path) -> None:
    with_it, without = tmp_path / "with", tmp_path / "without"
    evaluated(inputs, with_it)
    summary, written = evaluated(inputs, without, calibration=False)
    assert written["calibration"] is None
    assert "inference_ece" not in summary
    assert (with_it / "hypotheses.txt").read_bytes() == (without / "hypotheses.txt").read_bytes()


def test_speed_can_be_that_of_the_pass_that_translates(inputs: dict[str, Path], tmp_path: Path) -> None:
    for engine in ("transformers", "ctranslate2"):
        apart, within = tmp_path / f"{engine} apart", tmp_path / f"{engine} within"
        _, expected = evaluated(inputs, apart, engine=engine)
        _, written = evaluated(inputs, within, engine=engine, speed_measured="in-translation")
        assert (expected["speed"]["sentences"], written["speed"]["sentences"]) == (2, TEST)
        assert written["speed"]["repeats"] == 1
        assert written["speed"]["slowest"] == written["speed"]["median"] == written["speed"]["fastest"] > 0
        assert (apart / "hypotheses.txt").read_bytes() == (within / "hypotheses.txt").read_bytes()
        assert written["calibration"] == expected["calibration"]


def test_a_pass_for_speed_alone_leaves_nothing_to_transformers(inputs: dict[str, Path], tmp_path: Path) -> None:
    """What the limit ends would be searched again, in a time that is not CTranslate2's."""
    _, written = evaluated(inputs, tmp_path / "out", engine="ctranslate2", max_length_ratio=0.01)
    assert written["searched_again"] > 0
    assert written["speed"]["median"] > 0
    lines = (tmp_path / "out" / "hypotheses.txt").read_text(encoding="utf-8").splitlines()
    assert any(lines)
