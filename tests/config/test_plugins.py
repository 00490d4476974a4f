"""Metrics and initialisers of a package of the user's own, really installed into a folder on PYTHONPATH."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from own_package import ENTRY_POINTS, install, with_package
from subgraft.interfaces.cli import main

LINES = "one\ntwo and\nthree and four\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return install(tmp_path / "site")


def _evaluate(package: Path, tmp_path: Path, *words: str) -> tuple[int, str, str]:
    (tmp_path / "references.txt").write_text(LINES)
    (tmp_path / "hypotheses.txt").write_text(LINES.replace("two and", "two"))
    files = ["--hypotheses", str(tmp_path / "hypotheses.txt"), "--references", str(tmp_path / "references.txt")]
    ended = with_package(package, "-m", "subgraft", "evaluate", *files, *words)
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.slow
def test_evaluate_scores_by_a_metric_of_a_package_and_signs_it(package: Path, tmp_path: Path) -> None:
    sources = tmp_path / "sources.txt"
    sources.write_text(LINES)
    code, out, err = _evaluate(package, tmp_path, "--metric", "length-ratio", "--sources", str(sources))
    assert code == 0, err
    name, value, signature = out.splitlines()[-1].split("\t")
    assert (name, signature) == ("length-ratio", "length-ratio|mean|ownpackage:1.2")
    assert float(value) == pytest.approx((1 + 3 / 7 + 1) / 3, abs=1e-4)
    code, out, _ = _evaluate(package, tmp_path, "--metric", "length-ratio")
    assert code == 0 and out.splitlines()[-1].startswith("length-ratio\t-1.0000"), "without sources; below zero"


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("lenght-ratio", "no installed package offers the metric 'lenght-ratio'"),
        pytest.param(
            "too-few",
            "too-few of ownpackage 1.2: the metric returned 1 scores for 3 sentences",
            marks=pytest.mark.slow,
        ),
        ("absent", "subgraft.metrics: absent: cannot be loaded: AttributeError"),
    ],
)
def test_a_metric_that_cannot_score_is_one_message(package: Path, tmp_path: Path, metric: str, message: str) -> None:
    code, _, err = _evaluate(package, tmp_path, "--metric", metric)
    assert code == 2 and message in err and "Traceback" not in err


CHECK = """
import json, sys
from pathlib import Path
from subgraft.config.loading import load
from subgraft.config.experiment import Experiment
from subgraft.experiments.pipeline import Pipeline
config = Path(sys.argv[1])
pipeline = Pipeline(load(config, Experiment, sys.argv[2:]), config.parent)
steps = pipeline.systems[0]
print(json.dumps([steps.evaluate.stage.model_dump(mode="json").get("packages"),
                  steps.transfer and steps.transfer.stage.model_dump(mode="json").get("package"),
                  steps.evaluate.fingerprint]))
"""


def _recipes(folder: Path, config: Path, *changes: str) -> list[object]:
    ended = with_package(folder, "-c", CHECK, str(config), *changes)
    assert ended.returncode == 0, ended.stderr
    recipes: list[object] = json.loads(ended.stdout)
    return recipes


OWN = ("evaluation.metrics=[length-ratio]", "systems=[{name: own, initialiser: constant}]")


def test_recipes_name_the_package_with_its_version(package: Path, tmp_path: Path, repository: Path) -> None:
    config = repository / "configs" / "quickstart.yaml"
    packages, of_rows, before = _recipes(package, config, *OWN)
    assert (packages, of_rows) == ({"length-ratio": "ownpackage 1.2"}, "ownpackage 1.2")
    newer = install(tmp_path / "newer", "1.3")
    assert _recipes(newer, config, *OWN)[2] != before, "another version is another result"
    plain = _recipes(package, config)
    assert plain[:2] == [{}, None]
    assert plain == _recipes(tmp_path, config), "that a package is installed changes nothing"


def test_a_method_of_a_package_has_the_properties_that_it_declares(
    package: Path, tmp_path: Path, repository: Path
) -> None:
    """Its rows do not depend on the seed, so that all seeds share one transfer; of a function nothing is known."""
    config = repository / "configs" / "quickstart.yaml"
    names = "; print([steps.transfer.name for steps in pipeline.systems])"
    for method, transfers in (("declared", "['transfer own', 'transfer own']"), ("constant", "seed 2']")):
        system = OWN[1].replace("initialiser: constant", f"initialiser: {method}")
        ended = with_package(package, "-c", CHECK.rstrip() + names, str(config), system)
        assert ended.returncode == 0 and transfers in ended.stdout and "ownpackage 1.2" in ended.stdout, ended.stderr
    refused = OWN[1].replace("initialiser: constant", "initialiser: undeclared")
    ended = with_package(package, "-m", "subgraft", "plan", str(config), refused)
    assert ended.returncode == 2 and "undeclared of ownpackage 1.2" in ended.stderr, ended.stderr
    assert "MethodSpec with rows" in ended.stderr and "Traceback" not in ended.stderr


def test_names_that_nobody_offers_are_one_message_each(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(repository / "configs" / "quickstart.yaml")
    assert main(["plan", config, OWN[0], OWN[1].replace("constant", "menu")]) == 2
    error = capsys.readouterr().err
    assert "expected 'ROUGE-1', 'ROUGE-2' or 'CIDEr', found [" in error
    assert "or 'fitted', found \"menu\"; did you mean" in error and "Traceback" not in error
    assert main(["plan", config, "evaluation.metrics=[BLEU]"]) == 2
    assert "BLEU is always measured: leave it out" in capsys.readouterr().err


def test_a_name_of_our_own_cannot_be_taken(tmp_path: Path, repository: Path) -> None:
    taken = install(tmp_path / "site", entry_points=ENTRY_POINTS.replace("constant =", "mean ="))
    ended = with_package(taken, "-m", "subgraft", "plan", str(repository / "configs" / "quickstart.yaml"))
    assert ended.returncode == 2 and "'mean' is built in, but ownpackage 1.2 offers it too" in ended.stderr


STORY = """
import json, sys
from pathlib import Path
from small_experiments import finish, tiny, written
place = Path(sys.argv[1])
config = written(place, tiny(
    pretrain="{epochs: 1, batch_size: 500, precision: fp32, dev_sentences: 2}",
    systems="[{name: plain, vocabulary: upstream}, {name: own, initialiser: constant}]",
    evaluation="{beam: 1, speed_sentences: 2, speed_repeats: 1, test_sentences: 3, bootstrap_samples: 20, "
               "metrics: [length-ratio]}",
))
pipeline, store = finish(config)
report = store.path(pipeline.report)
own = next(steps for steps in pipeline.systems if steps.system.name == "own")
evaluation = json.loads((store.path(own.evaluate) / "evaluation.json").read_text())
print(json.dumps([evaluation["scores"]["length-ratio"]["signature"], (report / "report.md").read_text(),
                  store.find(own.transfer).recipe["package"], store.find(own.evaluate).summary["length-ratio"]]))
"""


def test_an_experiment_is_made_and_reported_with_them(package: Path, tmp_path: Path) -> None:
    ended = with_package(package, "-c", STORY, str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    signature, report, of_rows, score = json.loads(ended.stdout.splitlines()[-1])
    assert signature == "length-ratio|mean|ownpackage:1.2" and of_rows == "ownpackage 1.2"
    assert 0 <= score <= 1
    assert "length-ratio" in report and signature in report
