"""A whole allocation on text invented here, step by step, and what is refused before any step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import sentencepiece

from scripts import SCRIPTS, text_in
from small_experiments import finish_steps
from subgraft.base.errors import UserError
from subgraft.config.loading import load
from subgraft.contrib.allocation.choice import Allocated
from subgraft.contrib.allocation.compute import read_capacity, table_folder
from subgraft.contrib.allocation.curve import MeasuredCurve
from subgraft.contrib.allocation.session import AllocationPipeline
from subgraft.contrib.allocation.settings import Allocation
from subgraft.evaluation.reporting.table import MainTable
from subgraft.interfaces.api.vocabularies import capacities
from subgraft.interfaces.cli import main
from subgraft.orchestration.store.store import Store
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import english, publish_mbart

CODES = ("en", "chr", "am")
CONFIG = """\
name: tiny
texts:
  - texts:
      en: {files: {train: [en.txt], dev: [en.dev.txt]}}
      chr: {files: {train: [chr.txt]}}
      am: {files: {train: [am.txt]}}
limits: {chr: 60}
totals: [460, 560]
curves: {sizes: [60, 90, 120, 180]}
baselines: {vocabularies: {other: given}}
"""


def written(place: Path, config: str = CONFIG) -> Path:
    for code, script in zip(CODES, SCRIPTS, strict=True):
        (place / f"{code}.txt").write_text("".join(f"{line}\n" for line in text_in(script, None, 200)))
    (place / "en.dev.txt").write_text("".join(f"{line}\n" for line in english(20, 9)))
    learn(english(100, 5), kind="unigram", size=100).save(place / "given")
    (place / "config.yaml").write_text(config)
    return place / "config.yaml"


def pipeline(config: Path, changes: Sequence[str] = ()) -> AllocationPipeline:
    return AllocationPipeline(load(config, Allocation, changes), config.parent)


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def finished(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[AllocationPipeline, Store]:
    config = written(tmp_path_factory.mktemp(request.param))
    steps = pipeline(config, [f"curves.kind={request.param}"])
    return steps, finish_steps([steps.report], config.parent)


def test_a_vocabulary_is_written_that_stays_within_its_total(finished: tuple[AllocationPipeline, Store]) -> None:
    steps, store = finished
    for total, step in steps.allocations.items():
        place = store.path(step)
        actual, tokenizer = Allocated.read(place), Tokenizer.load(place)
        assert (
            actual.size
            == len(tokenizer)
            == len(json.loads((place / "tokenizer.json").read_text())["model"]["vocab"]) + 4
        )
        assert actual.size <= total and actual.value <= actual.bound + 1e-9
        assert set(tokenizer.languages) == {"en_XX", "chr_XX", "am_XX"}
        assert actual.shares["chr"] < actual.shares["en"] == pytest.approx(actual.shares["am"])
        model = sentencepiece.SentencePieceProcessor(model_file=str(place / "sentencepiece.model"))
        for script in SCRIPTS:
            lines = text_in(script, None, 50)
            assert model.encode(lines) == tokenizer.encode_batch(lines)


def test_every_language_is_measured_under_every_vocabulary(finished: tuple[AllocationPipeline, Store]) -> None:
    steps, store = finished
    inputs = {name: step for name, step in steps.report.inputs.items() if name.startswith("capacity/")}
    assert set(inputs) == {f"capacity/{kind}/{total}" for kind in ("allocated", "joint") for total in (460, 560)} | {
        "capacity/other"
    }
    for name, step in inputs.items():
        _, actual = read_capacity(store.path(step))
        assert set(actual["en"]) == {"train", "dev"} and set(actual["am"]) == {"train"}
        unknown = actual["am"]["train"].unknown
        assert unknown > 0 if name == "capacity/other" else unknown == 0
    for total, allocation in steps.allocations.items():
        _, actual = read_capacity(store.path(inputs[f"capacity/allocated/{total}"]))
        chosen = Allocated.read(store.path(allocation))
        assert all(actual[code]["train"].alp >= chosen.alp[code] * 1.005 for code in CODES)


def test_the_report_has_a_table_for_each_total_and_plots(finished: tuple[AllocationPipeline, Store]) -> None:
    steps, store = finished
    place = store.path(steps.report)
    for total in (460, 560):
        shown = MainTable.read(table_folder(place, total))
        assert [row[0] for row in shown.rows] == list(CODES) and "ALP joint" in shown.headings
        assert (place / "plots" / f"curves-{total}.png").stat().st_size > 5000
    assert "Vocabularies" in (place / "report.md").read_text()


def test_a_curve_is_made_once_for_all_totals_and_kept(finished: tuple[AllocationPipeline, Store]) -> None:
    steps, store = finished
    selected = MeasuredCurve.open(store.path(steps.curves["en"]))
    assert selected.curve.sizes == (60, 90, 120, 180) and list(selected.vocabularies) == [60, 90, 120, 180]
    assert {id(step.inputs["en"]) for step in steps.allocations.values()} == {id(steps.curves["en"])}


def test_a_total_that_the_smallest_vocabularies_exceed_is_refused(tmp_path: Path) -> None:
    steps = pipeline(written(tmp_path), ["totals=[400]", "byte_fallback=true"])
    with pytest.raises(UserError, match="the smallest vocabularies of 3 languages have") as refused:
        finish_steps([steps.allocations[400]], tmp_path)
    assert "total 400" in str(refused.value) and "264 of them special" in str(refused.value)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("texts=[{texts: {en: {files: {train: [empty.txt]}}}}]", "en: .*an empty corpus"),
        ("texts=[{texts: {en: {files: {train: [absent.txt]}}}}]", "en: absent.txt.*no such file"),
        ("texts=[{texts: {english: {files: {train: [en.txt]}}}}]", "'english' is not a name for a language code"),
        ("baselines={vocabularies: {old: nowhere}}", "baselines.vocabularies.old: .*no such directory"),
    ],
)
def test_mistakes_come_before_any_step(change: str, complaint: str, tmp_path: Path) -> None:
    config = written(tmp_path)
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(UserError, match=complaint):
        _ = pipeline(config, [change, "limits={}"]).report


def test_the_command_shows_what_a_vocabulary_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path)
    inputs = [f"{code}={tmp_path / code}.txt" for code in ("en", "chr")]
    assert main(["vocab", "capacity", str(tmp_path / "given"), "--text", *inputs]) == 0
    en, cherokee = (line.split() for line in capsys.readouterr().out.splitlines()[1:3])
    assert en[0] == "en" and en[6] == "0" and cherokee[0] == "chr" and int(cherokee[6].replace(",", "")) > 100


def test_a_published_multilingual_model_is_judged_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path)
    (tmp_path / "published").mkdir()
    publish_mbart(tmp_path / "published")
    assert main(["vocab", "capacity", str(tmp_path / "published"), "--text", f"en={tmp_path / 'en.txt'}"]) == 0
    lines = (tmp_path / "en.txt").read_text().splitlines()
    shown = next(line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("en "))
    assert shown[:2] == ["en", "200"] and float(shown[2]) == pytest.approx(
        capacities(tmp_path / "published", {"en": lines})["en"].alp, abs=1e-3
    )


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["en=en.txt", "en=am.txt"], "the language 'en' comes twice"),
        (["en"], "expected a language and a file, as in sw=sw.txt, found 'en'"),
        (["en=empty.txt"], "empty.txt: there is no text"),
        (["en=absent.txt"], "absent.txt"),
    ],
)
def test_texts_that_cannot_be_judged_are_refused(
    texts: list[str],
    complaint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written(tmp_path)
    (tmp_path / "empty.txt").write_text("\n \n")
    monkeypatch.chdir(tmp_path)
    assert main(["vocab", "capacity", "given", "--text", *texts]) == 2
    assert complaint in capsys.readouterr().err
