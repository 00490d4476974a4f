"""Systems that read the domain's text beside the pairs: which steps they take, which they share, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from small_experiments import finish, tiny
from small_experiments import written as written_beside
from subgraft.config.configfile import load
from subgraft.config.experiment import Experiment
from subgraft.config.objectives import TranslationSettings
from subgraft.errors import UserError
from subgraft.experiment.pipeline import Pipeline
from subgraft.text.corpus import Corpus
from toy_steps import record_of
from toys import english, german

SYSTEMS = """
  - {name: old, vocabulary: upstream}
  - {name: old+text, vocabulary: upstream, text: copied}
  - {name: mean+text, initialiser: mean, text: copied}
"""


def written(place: Path, text: str = "{target: [more.txt]}", systems: str = SYSTEMS, **sections: str) -> Path:
    downstream = f"{{corpus: downstream, text: {text}, vocabulary: {{size: 75, byte_fallback: false}}}}"
    config = written_beside(place, tiny(downstream=downstream, systems=systems, **sections))
    for name, lines in (("more.txt", german(40, 9)), ("read.txt", english(40, 9))):
        (place / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return config


def pipeline(config: Path, *changes: str) -> Pipeline:
    return Pipeline(load(config, Experiment, changes), config.parent)


def test_systems_and_seeds_share_the_pairs_that_are_made(tmp_path: Path) -> None:
    found = pipeline(written(tmp_path), "seeds=[1, 2]")
    finetunes = {(steps.system.name, steps.seed): steps.finetune for steps in found.systems}
    made = {finetunes[name, seed].inputs["synthetic"] for name in ("old+text", "mean+text") for seed in (1, 2)}
    (copied,) = made
    assert copied.inputs == {"text": found.text}
    assert finetunes["mean+text", 1].recipe.text_objective == TranslationSettings()
    plain = finetunes["old", 1]
    assert "synthetic" not in plain.inputs and "text_objective" not in plain.recipe.model_dump()


def test_a_share_moves_only_those_that_have_text(tmp_path: Path) -> None:
    config = written(tmp_path)
    before, after = pipeline(config), pipeline(config, "finetune.text_share=0.25")
    same = [
        one.finetune.fingerprint == other.finetune.fingerprint
        for one, other in zip(before.systems, after.systems, strict=True)
    ]
    assert same == [True, False, False]


def test_a_comparison_with_copied_text_goes_all_the_way(tmp_path: Path) -> None:
    found, store = finish(written(tmp_path), "pretrain.epochs=2")
    copied = found.systems[1].finetune.inputs["synthetic"]
    assert Corpus.open(store.path(copied)).size("train") == record_of(store, copied).summary["sizes"]["train"]
    report = (store.path(found.report) / "report.md").read_text()
    assert "mean+text" in report


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("null", "system old\\+text: text: copied reads the domain's text, and there is none: give downstream.text"),
        ("{source: [read.txt]}", "downstream.text has a source alone"),
    ],
)
def test_text_that_is_not_there_or_of_the_wrong_side_is_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        pipeline(written(tmp_path, text))
