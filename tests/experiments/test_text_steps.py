"""Text in addition to the pairs is one step, an input of every step that learns from the task's text of its side."""

from __future__ import annotations

from pathlib import Path

import pytest

from small_experiments import TINY, finish, planned, tiny
from small_experiments import written as written_experiment
from subgraft.base.errors import UserError
from subgraft.embeddings.initialisers.static_embeddings import StaticEmbeddings
from subgraft.experiments.steps.inputs import describe_text
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import german

SYSTEMS = "[{name: plain, vocabulary: upstream}, {name: mean, initialiser: mean}, {name: focus, initialiser: focus}]"
# A vocabulary that has read the text contains a character that only the text has.
LINES = [f"Ω {line}" for line in german(40, 9)]


def written(place: Path, text: str, **sections: str) -> Path:
    downstream = f"{{corpus: downstream, text: {text}, vocabulary: {{size: 75, byte_fallback: false}}}}"
    config = written_experiment(place, tiny(**{"downstream": downstream, "systems": SYSTEMS, **sections}))
    (place / "more.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return config


def test_steps_take_text_of_their_side_alone(tmp_path: Path) -> None:
    result = planned(written(tmp_path, "{target: [more.txt]}"), "sides=[encoder, decoder]")
    assert result.inputs.text is not None
    assert result.inputs.text.inputs == {"corpus": result.inputs.downstream_corpus}
    of_decoder, of_encoder = result.vocabularies.downstream["decoder"], result.vocabularies.downstream["encoder"]
    assert of_decoder.inputs["text"] is result.inputs.text
    assert "text" not in of_encoder.inputs
    static = {side: step for steps in result.systems for side, step in steps.static.items()}
    assert "text" in static["decoder"].inputs
    assert "text" not in static["encoder"].inputs
    assert result.report.inputs["text"] is result.inputs.text
    upstream = result.models.pretrained.inputs["decoder"]
    assert "text" not in upstream.inputs, "which is learnt on another domain"


def test_a_vocabulary_of_both_sides_takes_text_of_either(tmp_path: Path) -> None:
    result = planned(written(tmp_path, "{source: [more.txt]}"), "sides=[encoder, decoder]", "downstream.shared=true")
    assert all("text" in step.inputs for step in result.vocabularies.downstream.values())


def test_an_encoder_distils_source_text(tmp_path: Path) -> None:
    systems = {
        "systems": "[{name: distilled, initialiser: token-distillation}]",
        "token_distillation_training": "{max_steps: 2, batch_size: 400, precision: fp32}",
    }
    config = written(tmp_path, "{source: [more.txt]}", **systems)
    for sides, expected in (("[decoder]", False), ("[encoder, decoder]", True)):
        distilled = planned(config, f"sides={sides}").systems[0].distilled
        assert distilled
        assert ("text" in distilled.inputs) is expected


@pytest.mark.slow
def test_a_decoder_learns_rows_from_copies_of_target_text(tmp_path: Path) -> None:
    learning = "{max_steps: 2, batch_size: 400, precision: fp32}"
    systems = {
        "systems": "[{name: distilled, initialiser: token-distillation},"
        " {name: matched, initialiser: likelihood-matching}]",
        "token_distillation_training": learning,
        "likelihood_matching_training": learning,
    }
    comparison, store = finish(written(tmp_path, "{target: [more.txt]}", **systems))
    for steps in comparison.systems:
        assert steps.distilled
        made = steps.distilled.inputs["synthetic"]
        assert made.inputs["text"] is comparison.inputs.text
        record = store.find(steps.distilled)
        assert record
        assert record.summary["decoder"]["sentences"] > 0
    own = planned(tmp_path / "config.yaml", "likelihood_matching.text=own-translations")
    distilled, matched = (steps.distilled for steps in own.systems)
    assert distilled and "synthetic" in distilled.inputs
    assert matched and "synthetic" not in matched.inputs


def test_systems_share_the_vocabulary_and_nothing_moves_without_text(tmp_path: Path) -> None:
    config = written(tmp_path, "{target: [more.txt]}")
    result = planned(config)
    used = {result.vocabularies.of_system(system)["decoder"].fingerprint for system in result.experiment.systems}
    assert len(used) == 1
    config.write_text(TINY)
    plain = planned(config)
    assert plain.inputs.text is None
    assert "text" not in plain.vocabularies.downstream["decoder"].inputs
    assert plain.vocabularies.downstream["decoder"].fingerprint not in used


def test_what_counts_is_what_a_file_holds_not_where_it_is(tmp_path: Path) -> None:
    config = written(tmp_path, "{target: [more.txt]}")
    first = planned(config).inputs.text
    (tmp_path / "more.txt").rename(tmp_path / "renamed.txt")
    second = planned(config, "downstream.text.target=[renamed.txt]").inputs.text
    with (tmp_path / "renamed.txt").open("a") as file:
        file.write("und noch eine\n")
    third = planned(config, "downstream.text.target=[renamed.txt]").inputs.text
    assert first
    assert second
    assert third
    assert first.fingerprint == second.fingerprint != third.fingerprint


@pytest.mark.slow
def test_a_whole_comparison_learns_from_it(tmp_path: Path) -> None:
    config = written(tmp_path, "{target: [more.txt, upstream]}", static_embeddings="{dimensions: 8}")
    comparison, store = finish(config)
    assert comparison.inputs.text
    record = store.find(comparison.inputs.text)
    assert record
    assert record.summary["target"]["kept"] >= len(LINES)
    vocabulary = Tokenizer.load(store.path(comparison.vocabularies.downstream["decoder"]))
    assert any("Ω" in piece for piece in vocabulary.pieces)
    static = next(step for steps in comparison.systems for step in steps.static.values())
    embeddings = StaticEmbeddings.load(store.path(static))
    letter = next(at for at, piece in enumerate(vocabulary.pieces) if "Ω" in piece)
    assert embeddings.known[letter], "the pairs do not have it"
    report = (store.path(comparison.report) / "report.md").read_text(encoding="utf-8")
    (reported,) = (line for line in report.splitlines() if line.startswith("| target, de"))
    assert [cell.strip() for cell in reported.split("|")][3] == f"{record.summary['target']['kept']:,}"
    (line,) = describe_text(store, comparison.inputs.text)
    assert line.startswith(f"target text in addition to the pairs: {record.summary['target']['kept']:,} of")


def test_a_plan_counts_lines_before_anything_ran(tmp_path: Path) -> None:
    from subgraft.orchestration.store.store import Store

    result = planned(written(tmp_path, "{target: [more.txt, upstream]}"))
    assert result.inputs.text
    lines = len(LINES) + sum(1 for _ in (tmp_path / "upstream" / "train.de").open())
    assert describe_text(Store(tmp_path / "home"), result.inputs.text) == [
        f"target text in addition to the pairs: {lines} lines before cleaning"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{target: [mor.txt]}", r"downstream\.text\.target: 'mor\.txt' is neither .*\n  Nearest: more\.txt"),
        ("{target: []}", "target names no text"),
        ("{}", "source names no text"),
        ("{target: [more.txt, more.txt]}", "target names 'more.txt' twice"),
        ("{target: [downstream]}", "the task's own corpus"),
    ],
)
def test_bad_names_are_reported_before_anything_runs(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        _ = planned(written(tmp_path, text)).report
    assert not (tmp_path / "home").exists()


def test_bytes_that_are_not_text_are_reported_by_the_plan(tmp_path: Path) -> None:
    config = written(tmp_path, "{target: [more.txt]}")
    (tmp_path / "more.txt").write_bytes("Häuser\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"more\.txt:1: not UTF-8"):
        _ = planned(config).report


def test_a_decoder_alone_has_source_text_only(tmp_path: Path) -> None:
    sections = {
        "task": "continuation",
        "languages": "{source: de, target: de}",
        "upstream": "{corpus: upstream, objectives: [{kind: causal}], vocabulary: {size: 60, byte_fallback: false}}",
        "model": "{family: gpt2, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16}",
        "evaluation": "{speed_sentences: 2, speed_repeats: 1, test_sentences: 3, bootstrap_samples: 20}",
    }
    with pytest.raises(UserError, match=r"downstream\.text\.target: continuation has one text"):
        planned(written(tmp_path, "{target: [more.txt]}", **sections))
    (tmp_path / "other").mkdir()
    result = planned(written(tmp_path / "other", "{source: [more.txt]}", **sections))
    assert result.vocabularies.downstream["decoder"].inputs["text"] is result.inputs.text
