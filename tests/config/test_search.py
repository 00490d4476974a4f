"""What a search may say, and how its mistakes are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from small_searches import searchable
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.experiment.search import Range
from subgraft.config.loading import load
from subgraft.experiments.manifest import manifest
from subgraft.pipeline.stages.evaluation import EvaluateStage


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return searchable(tmp_path_factory.mktemp("search"))


def test_a_search_is_read_and_its_defaults_are_there(config: Path) -> None:
    search = load(config, Experiment).search
    assert search is not None
    assert search.space.varied == {
        "initialiser": ("avg", "patt"),
        "kd_weight": Range(min=0, max=1),
        "vocabulary_size": (70, 80),
    }
    assert (search.concurrent, search.objectives) == (2, ("dev_bleu", "sentences_per_second"))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("search.system=nobody", "search.system 'nobody' is not among systems: plain, searched"),
        (
            "search.system=plain",
            "search.system 'plain' has no new rows: only learning_rate and embedding_learning_rate can be",
        ),
        ("search.systems=[searched]", "give exactly one of system, systems"),
        (
            "search={systems: [searched, nobody], space: {kd_weight: [1]}}",
            "search.systems 'nobody' is not among systems",
        ),
        ("search={systems: [], space: {kd_weight: [1]}}", "give at least one value"),
        ("search.space={learning_rate: [0, 1]}", "values must be above 0"),
        ("search.space={learning_rate: {min: 0, max: 1}}", "values must be above 0"),
        (
            "search={system: plain, sampler: grid, trials: 3, space: {learning_rate: [1]}}",
            "as many trials as its space",
        ),
        (
            "search={system: plain, sampler: grid, space: {learning_rate: {min: 0.1, max: 1}}}",
            "a grid needs lists: space.learning_rate is a range",
        ),
        ("search.space={}", "give at least one of vocabulary_mode, initialiser, kd_weight"),
        (
            "search.space.initialiser=[pat]",
            "'vocadt' or 'fitted', found \"pat\"; did you mean 'patt'",
        ),
        ("search.space.initialiser=[avg]", "search.space.kd_weight applies to att, patt, network only"),
        ("search.space={generator_steps: [0]}", "search.space.generator_steps.0: expected"),
        ("search.space.kd_weight={min: 1, max: 1}", "min 1 must be below max 1"),
        ("search.space.kd_weight={min: 0, max: 1, log: true}", "with log, min must be above 0"),
        ("search.space.kd_weight=[0.5, 0.5]", "values must be distinct"),
        ("search.space.vocabulary_size=[20]", "search.space.vocabulary_size.0: expected"),
        ("search.space.vocabulary_sizes=[80]", "unknown field; did you mean 'vocabulary_size'?"),
        ("search.objectives=[]", "search.objectives: give at least one value"),
        ("search.trials=0", "search.trials: expected"),
        ("search.sampler=tpee", "did you mean 'tpe'?"),
        ("search.asha={reduction_factor: 1}", "search.asha.reduction_factor: expected"),
        (
            "search={system: searched, space: {kd_weight: [1]}, objectives: [sentences_per_second]}",
            "asha compares dev BLEU",
        ),
    ],
)
def test_mistakes_are_reported(config: Path, change: str, complaint: str) -> None:
    with pytest.raises(UserError) as caught:
        load(config, Experiment, [change])
    assert complaint in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_mistakes_have_their_lines_and_are_reported_at_once(config: Path, tmp_path: Path) -> None:
    broken = config.read_text().replace("trials: 3", "trials: many").replace("max: 1.0", "max: -1")
    (tmp_path / "broken.yaml").write_text(broken)
    with pytest.raises(UserError) as caught:
        load(tmp_path / "broken.yaml", Experiment)
    numbered = dict(enumerate(broken.splitlines(), 1))
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    for complaint, written in zip(lines, ("max: -1", "trials: many"), strict=True):
        assert written in numbered[int(complaint.split(":")[1])]


def test_a_search_is_in_no_fingerprint(config: Path) -> None:
    """An experiment's steps are the same with and without one, and so are evaluations on the test set."""
    experiment = load(config, Experiment)
    without = experiment.model_copy(update={"search": None})
    assert manifest(experiment, ()) == manifest(without, ())
    recipe = EvaluateStage(languages=experiment.languages, evaluation=experiment.evaluation.measurement)
    assert recipe.model_dump()["split"] == "test"
    assert recipe.model_copy(update={"split": "dev"}).model_dump()["split"] == "dev"


@pytest.mark.parametrize("rates", ["[0, 0.1]", "{min: 0, max: 0.1}"])
def test_tables_that_a_system_is_about_are_never_frozen(config: Path, rates: str) -> None:
    systems = "systems=[{name: attached, initialiser: mean, tie_to_sources: true}]"
    search = f"search={{system: attached, space: {{embedding_learning_rate: {rates}}}}}"
    with pytest.raises(UserError, match="tie_to_sources trains embeddings"):
        load(config, Experiment, [systems, search])
    frozen = "search={system: attached, space: {learning_rate: [0.1]}}"
    assert load(config, Experiment, [systems, frozen]).search is not None


def test_the_old_vocabulary_has_rates_to_search_for(config: Path) -> None:
    search = load(config, Experiment, ["search={system: plain, space: {embedding_learning_rate: [0, 0.1]}}"]).search
    assert search is not None and search.space.varied == {"embedding_learning_rate": (0, 0.1)}
