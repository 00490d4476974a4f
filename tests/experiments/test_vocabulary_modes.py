"""Replaced, extended and trimmed vocabularies in one comparison."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from small_experiments import finish, finish_steps, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side
from subgraft.orchestration.estimates.model_forecast import model_config
from subgraft.orchestration.store.step import in_order
from subgraft.orchestration.store.store import Store
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

SYSTEMS = """
- {name: old, vocabulary: upstream}
- {name: replaced, initialiser: mean}
- {name: extended, initialiser: mean, vocabulary_mode: extend, vocabulary_size: 50}
- {name: trimmed, vocabulary_mode: trim}
"""


def pipeline(place: Path, *changes: str, **sections: str) -> Pipeline:
    config = written(place, tiny(**{"systems": SYSTEMS, **sections}))
    return Pipeline(load(config, Experiment, changes), place)


@pytest.mark.slow
def test_all_three_are_compared_in_one_run(tmp_path: Path) -> None:
    made, store = finish(written(tmp_path, tiny(systems=SYSTEMS)))
    result = {steps.system.name: steps for steps in made.systems}
    upstream = Bundle.load(store.path(made.models.pretrained))
    old = side(upstream.model, "decoder")
    assert old.bias is not None

    transfer = result["extended"].transfer
    assert transfer is not None
    extended = Bundle.load(store.path(transfer))
    table = side(extended.model, "decoder")
    assert table.bias is not None
    assert extended.decoder.pieces[: len(upstream.decoder)] == upstream.decoder.pieces
    assert len(extended.decoder) == len(upstream.decoder) + 50
    assert torch.equal(table.input.weight[: len(upstream.decoder)], old.input.weight)
    assert torch.equal(table.bias.flatten()[: len(upstream.decoder)], old.bias.flatten())

    transfer = result["trimmed"].transfer
    assert transfer is not None
    trimmed = Bundle.load(store.path(transfer))
    rows = [upstream.decoder.pieces.index(piece) for piece in trimmed.decoder.pieces]
    assert len(rows) <= len(upstream.decoder)
    assert torch.equal(side(trimmed.model, "decoder").input.weight, old.input.weight[rows])

    report = (store.path(made.report) / "report.md").read_text(encoding="utf-8")
    assert all(f"| {name} " in report for name in result)


def test_each_mode_is_a_vocabulary_of_its_own_and_the_plain_one_is_as_it_was(tmp_path: Path) -> None:
    made = pipeline(tmp_path)
    plain = Pipeline(
        load(tmp_path / "config.yaml", Experiment, ["systems=[{name: replaced, initialiser: mean}]"]), tmp_path
    )
    result = {steps.system.name: steps for steps in made.systems}
    assert result["replaced"].finetune.fingerprint == plain.systems[0].finetune.fingerprint
    adapted = [step for step in in_order([made.report]) if step.stage.stage_name == "adapted-vocabulary"]
    assert {step.name for step in adapted} == {
        "vocabulary of the decoder, extended by corpus downstream",
        "vocabulary of the decoder, trimmed by corpus downstream",
    }
    assert "intrinsic" not in result["trimmed"].measured


def test_of_all_systems_by_the_downstream_setting_on_both_sides(tmp_path: Path) -> None:
    made = pipeline(
        tmp_path,
        downstream="{corpus: downstream, vocabulary: {mode: extend, size: 50}}",
        sides="[encoder, decoder]",
        systems="[{name: more, initialiser: mean}, {name: replaced, initialiser: mean, vocabulary_mode: replace}]",
    )
    more, replaced = (steps.transfer for steps in made.systems)
    assert more is not None and replaced is not None
    for name in ("encoder", "decoder"):
        assert more.inputs[f"vocabulary/{name}"].stage.stage_name == "adapted-vocabulary"
        assert more.inputs[f"vocabulary/{name}"].inputs["vocabulary"] is made.vocabularies.upstream[name]
        assert replaced.inputs[f"vocabulary/{name}"].stage.stage_name == "vocabulary"
    config = model_config(Store(tmp_path / "home"), more)
    assert config["decoder_vocab_size"] == 60 + 50, "the plan knows it before anything is made"


def test_symbols_are_single_tokens_of_new_and_extended_vocabularies(tmp_path: Path) -> None:
    vocabulary = "{size: 75, byte_fallback: false, user_defined_symbols: [<br>, New York]}"
    made = pipeline(tmp_path, downstream=f"{{corpus: downstream, vocabulary: {vocabulary}}}")
    steps = {system.name: made.vocabularies.of_system(system)["decoder"] for system in made.experiment.systems}
    store = finish_steps([step for name, step in steps.items() if name in ("replaced", "extended")], tmp_path)
    for name in ("replaced", "extended"):
        learnt = Tokenizer.load(store.path(steps[name]))
        assert set(learnt.symbols.values()) == {"<br>", "New York"}, name
        assert {"<br>", "New York"} <= {learnt.pieces[token] for token in learnt.encode("in New York<br>in")}
    assert len(Tokenizer.load(store.path(steps["replaced"]))) == 75


def test_a_checkpoints_own_vocabulary_is_extended(tmp_path: Path) -> None:
    import toys

    Bundle(toys.marian(), toys.english_tokenizer(), toys.german_tokenizer()).save(tmp_path / "marian")
    made, store = finish(
        written(
            tmp_path,
            tiny(
                upstream="{checkpoint: marian}",
                systems="[{name: more, initialiser: mean, vocabulary_mode: extend, vocabulary_size: 50}]",
                finetune="{max_steps: 2, batch_size: 300, precision: fp32, max_length: 40, dev_sentences: 2}",
            ),
        )
    )
    extended = Tokenizer.load(store.path(made.vocabularies.of_system(made.experiment.systems[0])["decoder"]))
    assert extended.pieces[:90] == toys.german_tokenizer().pieces and len(extended) == 140


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"systems": "[{name: t, initialiser: mean, vocabulary_mode: trim}]"}, "leave out the initialiser"),
        ({"systems": "[{name: t, vocabulary_mode: extend}]"}, "new tokens need an initialiser"),
        ({"systems": "[{name: t, vocabulary: upstream, vocabulary_mode: trim}]"}, "this system has no such model"),
        ({"systems": "[{name: t, vocabulary_mode: trim, vocabulary_size: 60}]"}, "vocabulary_min_count does"),
        (
            {
                "systems": "[{name: t, initialiser: mean}]",
                "downstream": "{corpus: downstream, vocabulary: {mode: trim}}",
            },
            "leaves no new tokens for its initialiser",
        ),
        (
            {"downstream": "{corpus: downstream, shared: true}", "sides": "[encoder, decoder]"},
            "extend changes the upstream vocabularies, and each side has its own",
        ),
    ],
)
def test_what_goes_with_no_mode_is_refused(tmp_path: Path, sections: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        pipeline(tmp_path, **sections)
