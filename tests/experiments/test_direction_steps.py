"""Experiments with several directions: their steps, what each reads, settings that do not fit, and a whole one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import subgraft
from small_experiments import finish, planned
from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.scores import corpus_scores
from subgraft.evaluation.metrics.untranslated import LanguageIdentifier
from subgraft.experiments.manifest import system_runs
from subgraft.experiments.model_card import SelectedModel
from subgraft.experiments.model_selection import Finetuned
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.steps.system import SystemSteps
from subgraft.interfaces.cli.arguments import language_pair
from subgraft.interfaces.serving.writer import Source, Writer, open_model
from subgraft.orchestration.estimates.workload import workload
from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import in_order
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.evaluation import LANGUAGE_TEXT
from subgraft.pipeline.stages.training import FinetuneStage
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import english, german, sentences

CONFIG = """\
name: tiny
directions:
  - {source: de, target: en, corpus: german}
  - {source: fr, target: en, corpus: french}
  - {source: es, target: en, corpus: spanish, train: false}
corpora:
  all: {texts: {de: {folder: german, languages: [de]}, en: {folder: german, languages: [en]}}}
  german: {folder: german}
  french: {folder: french}
  spanish: {folder: spanish}
cleaning: {drop_held_out: false}
upstream:
  corpus: all
  languages: all
  objectives: [{kind: denoising}]
  vocabulary: {size: 90, byte_fallback: false}
downstream: {vocabulary: {size: 100, byte_fallback: false}, shared: true}
sides: [encoder, decoder]
model: {family: mbart, d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16,
  max_positions: 64}
pretrain: {epochs: 1, max_steps: 3, batch_size: 500, precision: fp32, max_length: 64}
finetune: {epochs: 2, batch_size: 300, precision: fp32, dev_sentences: 3, max_length: 64, select: likelihood}
systems:
  - {name: old, vocabulary: upstream}
  - {name: on-german, vocabulary: upstream, directions: [de-en]}
  - {name: on-french, vocabulary: upstream, directions: [fr-en]}
  - {name: random, initialiser: random}
evaluation: {beam: 1, speed_sentences: 2, speed_repeats: 1, bootstrap_samples: 20}
"""


def _french(count: int, seed: int) -> list[str]:
    return sentences(
        "merci ami voisin docteur jardin maison livre ville mot coeur", ["", "s", "eur", "able"], count, seed
    )


def _spanish(count: int, seed: int) -> list[str]:
    return sentences("gracias amigo vecino doctor jardín casa libro ciudad juego", ["", "s", "or", "able"], count, seed)


TEXTS = {"german": ("de", german, 60), "french": ("fr", _french, 40), "spanish": ("es", _spanish, 30)}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return written(tmp_path)


def written(place: Path) -> Path:
    """The configuration in a file, next to its corpora."""
    for number, (folder, (language, lines, size)) in enumerate(TEXTS.items()):
        (place / folder).mkdir()
        for split, count, seed in (("train", size, 1), ("dev", 4, 2), ("test", 5, 3)):
            for code, text in (("en", english(count, 10 * number + seed)), (language, lines(count, seed))):
                (place / folder / f"{split}.{code}").write_text("".join(f"{line}\n" for line in text))
    (place / "config.yaml").write_text(CONFIG)
    return place / "config.yaml"


def systems(config: Path, *changes: str) -> dict[str, SystemSteps]:
    made = planned(config, *changes)
    return {steps.system.name: steps for steps in made.systems}


def read(store: Store, step: Any, name: str) -> Any:
    return json.loads((store.path(step) / name).read_text())


def test_the_first_direction_gives_languages_and_corpus(config: Path) -> None:
    experiment = load(config, Experiment)
    assert experiment.languages.name == "de-en" and experiment.downstream.corpus == "german"
    again = Experiment.model_validate(experiment.model_dump())
    assert again == experiment, "settings that were read once can be read again"


def test_a_finetuning_reads_its_directions_and_the_vocabulary_all_that_are_trained_on(config: Path) -> None:
    steps = systems(config)
    old, alone, french = (steps[name].finetune for name in ("old", "on-german", "on-french"))
    assert set(old.inputs) == {"model", "corpus", "corpus/fr-en"}
    assert set(alone.inputs) == set(french.inputs) == {"model", "corpus"}
    assert french.inputs["corpus"] is old.inputs["corpus/fr-en"] and french.stage.languages.source == "fr"
    assert alone.stage.further_directions == {} and list(old.stage.directions) == ["de-en", "fr-en"]
    transfer = steps["random"].transfer
    assert transfer is not None
    vocabulary = transfer.inputs["vocabulary/encoder"]
    assert set(vocabulary.inputs) == {"corpus", "corpus/fr-en"}, "what is only tested stays unseen"
    assert {*steps["old"].directions} == {"de-en", "fr-en", "es-en"}
    assert steps["old"].directions["de-en"] is steps["old"].evaluate
    codes = {"de_XX", "en_XX", "fr_XX", "es_XX"}
    pretrained = steps["old"].pretrained
    assert pretrained is not None and set(pretrained.inputs["encoder"].stage.languages) == codes  # type: ignore[attr-defined]


def test_an_experiment_of_one_direction_has_the_steps_of_one_without_directions(config: Path) -> None:
    one = "directions=[{source: de, target: en, corpus: german}]"
    few = "systems=[{name: old, vocabulary: upstream}, {name: random, initialiser: random}]"
    plain = ["directions=[]", "languages={source: de, target: en}", "downstream.corpus=german", few]
    with_one, without = systems(config, one, few), systems(config, *plain)
    for name, steps in with_one.items():
        assert steps.finetune.fingerprint == without[name].finetune.fingerprint
        assert steps.evaluate.fingerprint == without[name].evaluate.fingerprint
    assert not without["old"].directions and not without["old"].seen


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pipeline, Store]:
    place = tmp_path_factory.mktemp("directions")
    written(place)
    # A test pair of the direction that is only tested, the other way round, in text that training reads.
    spanish, other = ((place / "spanish" / f"test.{code}").read_text().splitlines() for code in ("es", "en"))
    for code, line in (("fr", other[0].upper()), ("en", spanish[0])):
        with (place / "french" / f"train.{code}").open("a") as file:
            file.write(f"{line}\n")
    return finish(place / "config.yaml", "direction_exponent=0.5", drawn=True)


@pytest.mark.slow
def test_every_direction_is_scored_as_the_models_translations_are(whole: tuple[Pipeline, Store]) -> None:
    pipeline, store = whole
    for steps in pipeline.systems:
        for step in steps.directions.values():
            sources, references, outputs = (
                (store.path(step) / f"{name}.txt").read_text().splitlines()
                for name in ("sources", "references", "hypotheses")
            )
            corpus = Corpus.open(store.path(step.inputs["corpus"]))
            assert list(zip(sources, references, strict=True)) == list(corpus.pairs("test"))
            scores = corpus_scores(outputs, references, step.stage.languages.target)
            recorded = read(store, step, "evaluation.json")["scores"]
            assert {name: score.value for name, score in scores.items()} == {
                name: pytest.approx(score["value"]) for name, score in recorded.items()
            }


def test_one_served_model_answers_in_every_direction_and_is_scored_as_its_report_says(
    whole: tuple[Pipeline, Store],
) -> None:
    pipeline, store = whole
    steps = next(each for each in pipeline.systems if each.system.name == "old")
    model = store.path(steps.finetune)
    with (
        open_model(str(model), None, 1) as writer,
        open_model(str(model), Languages(source="fr", target="en"), 1) as one,
    ):
        assert isinstance(writer, Writer) and isinstance(one, Writer)
        assert [*writer.directions] == ["de-en", "fr-en"] and not one.directions
        for name in ("de-en", "fr-en"):
            step, pair = steps.directions[name], language_pair(name)
            sources, references, written = (
                (store.path(step) / f"{part}.txt").read_text().splitlines()
                for part in ("sources", "references", "hypotheses")
            )
            outputs = writer.answer([Source(line, name) for line in sources])
            assert outputs == written == subgraft.translate(model, sources, languages=pair, beam=1)
            scores = {score.name: score.value for score in subgraft.evaluate(outputs, references, language="en").scores}
            recorded = read(store, step, "evaluation.json")["scores"]
            assert scores["chrF"] == pytest.approx(recorded["chrF"]["value"])
            if name == "fr-en":
                assert one.write(sources, 1) == written
            else:
                assert writer.write(sources, 1) == written, "the first direction without a name"


def test_weights_are_selected_by_the_mean_over_the_directions_of_a_system(whole: tuple[Pipeline, Store]) -> None:
    pipeline, store = whole
    steps = {each.system.name: each for each in pipeline.systems}
    for point in read(store, steps["old"].finetune, "curve.json"):
        values = point["values"]
        for score in ("bits_per_character", "bleu", "chrf"):
            both = values[f"de-en_{score}"], values[f"fr-en_{score}"]
            assert values[score] == pytest.approx(sum(both) / 2)
    assert "fr-en_bleu" not in read(store, steps["on-french"].finetune, "curve.json")[0]["values"]
    record = read(store, steps["old"].finetune, "record.json")
    assert record["summary"]["pairs"] == {"de-en": 60, "fr-en": 41}
    foreseen = workload(store, steps["old"].finetune).updates
    assert foreseen is not None and foreseen == pytest.approx(record["summary"]["steps"], rel=0.35)


def test_no_ancestor_of_a_zero_shot_model_read_pairs_of_the_tested_languages(whole: tuple[Pipeline, Store]) -> None:
    """By the records alone: fingerprints and digests of inputs, up to what has none."""
    pipeline, store = whole
    records = {}
    for step in in_order([pipeline.report]):
        record = Record.from_json((store.path(step) / "record.json").read_text())
        records[record.fingerprint] = record
    by_name = {(each.name, each.seed): each for each in pipeline.report.stage.systems}
    for steps in pipeline.systems:
        ancestors, left = dict[str, Record](), [steps.finetune.fingerprint]
        while left:
            record = records[left.pop()]
            ancestors[record.fingerprint] = record
            left += [each["fingerprint"] for each in record.inputs.values() if each["fingerprint"] not in ancestors]
        read_digests = {record.digest for record in ancestors.values()}
        for name, step in steps.directions.items():
            corpus = records[step.inputs["corpus"].fingerprint]
            zero_shot = name in by_name[steps.system.name, steps.seed].zero_shot
            trained = {"old": {"de-en", "fr-en"}, "random": {"de-en", "fr-en"}, "on-german": {"de-en"}}
            assert zero_shot == (name not in trained.get(steps.system.name, {"fr-en"}))
            if zero_shot:
                assert corpus.digest not in read_digests


def test_a_test_pair_that_training_saw_is_found_and_reported(whole: tuple[Pipeline, Store]) -> None:
    pipeline, store = whole
    steps = {each.system.name: each for each in pipeline.systems}
    seen = {name: read(store, steps[name].seen["es-en"], "seen.json") for name in steps}
    assert seen["old"] == {"sentences": 5, "pairs": 1, "sources": 1, "targets": 1}
    assert seen["on-german"]["pairs"] == 0 and seen["on-french"]["pairs"] == 1
    report = (store.path(pipeline.report) / "report.md").read_text()
    rows = [line for line in report.splitlines() if re.match(r"\| es-en +\|", line)]
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    assert ["es-en", "old, on-french, random", "5", "1", "1", "1"] in cells
    assert ["es-en", "on-german", "5", "0", "0", "0"] in cells


def test_the_report_has_a_table_of_systems_and_directions_and_their_matrix(whole: tuple[Pipeline, Store]) -> None:
    pipeline, store = whole
    report = store.path(pipeline.report)
    section = (report / "report.md").read_text().partition("## Directions")[2].partition("\n## ")[0]
    rows = {line.split("|")[1].strip(): line for line in section.splitlines() if line.startswith("|")}
    scores = {
        name: read(store, step, "evaluation.json") for name, step in _steps(pipeline)["on-french"].directions.items()
    }
    for evaluation in scores.values():
        assert f"{evaluation['scores']['chrF']['value']:.2f}" in section
    assert "zero-shot" in section and "source copied" in rows
    assert (report / "plots" / "directions.png").stat().st_size > 5000


def test_the_language_of_outputs_is_recorded_and_reported_for_every_direction(whole: tuple[Pipeline, Store]) -> None:
    pipeline, store = whole
    corpora = pipeline.evaluation.scores(pipeline.systems[0].finetune).inputs
    texts = [Corpus.open(store.path(step)) for role, step in corpora.items() if role.startswith(LANGUAGE_TEXT)]
    identify = LanguageIdentifier.of(texts)
    assert identify is not None and set(identify.languages) == {"de", "en", "fr", "es"}
    report = (store.path(pipeline.report) / "report.md").read_text()
    (caption,) = [line for line in report.splitlines() if "Outputs in the target language" in line]
    shown = report.partition(caption)[2]
    for steps in pipeline.systems:
        for step in steps.directions.values():
            shares = read(store, step, "evaluation.json")["output_language"]
            outputs = (store.path(step) / "hypotheses.txt").read_text().splitlines()
            assert shares == identify.shares(outputs) and sum(shares.values()) == pytest.approx(1)
            assert read(store, step, "record.json")["summary"]["output_language"] == shares
            assert f"{100 * shares.get('en', 0):.1f} %" in shown


def test_the_card_of_a_model_has_its_scores_on_every_direction(whole: tuple[Pipeline, Store]) -> None:
    pipeline, store = whole
    for name, trained in (("old", {"de-en", "fr-en"}), ("on-french", {"fr-en"})):
        steps = _steps(pipeline)[name]
        best = Finetuned.read(steps, store)
        card = SelectedModel.of("tiny-de-en", pipeline, steps, best.weights, store).card()
        assert '["de", "en", "fr", "es"]' in card and ", finetuned on fr-en too." in card
        section = card.partition("## Scores by direction")[2].partition("\n## ")[0]
        rows = {
            cells[0]: cells[1:]
            for line in section.splitlines()
            if (cells := [cell.strip().replace("\\", "") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        }
        for direction, step in steps.directions.items():
            evaluation = read(store, step, "evaluation.json")
            scores, shares = evaluation["scores"], evaluation["output_language"]
            figures = [f"{scores[metric]['value']:.2f}" for metric in ("BLEU", "chrF")]
            expected = [*figures, f"{100 * shares.get('en', 0):.1f} %", scores["BLEU"]["signature"]]
            assert rows[direction] == ["yes" if direction in trained else "no", *expected]


def _steps(pipeline: Pipeline) -> dict[str, SystemSteps]:
    return {each.system.name: each for each in pipeline.systems}


def test_runs_show_the_scores_of_every_direction(config: Path) -> None:
    runs = {run.system: run for run in system_runs(tuple(systems(config).values()))}
    assert {"test", "test/fr-en", "test/es-en"} <= runs["old"].parts.keys()
    assert "test/de-en" not in runs["old"].parts


REFUSED = {
    "task=text-to-text": "directions are for `task: translation`",
    "directions.1.corpus=nothing": "directions: corpus 'nothing' of fr-en is not among",
    "directions.0.corpus=nothing": "directions: corpus 'nothing' of de-en is not among",
    "directions.1.source=de": "directions: de-en is named twice",
    "directions.1.source=en": "directions: en-en reads and writes one language",
    "directions.0.train=false": "it needs `train: true`",
    "languages={source: fr, target: en}": "leave out languages and downstream.corpus",
    "downstream.corpus=french": "leave out languages and downstream.corpus",
    "systems.0.directions=[it-en]": "system old: directions has it-en, which is not among de-en, fr-en, es-en",
    "systems.0.directions=[]": "system old: directions must be distinct, and at least one",
    "systems.0.text=denoised": "system old: text is for one direction, the first: write `directions: [de-en]`",
    "systems.3.initialiser=likelihood-matching": "initialiser: likelihood-matching is for one direction",
}


@pytest.mark.parametrize("change", REFUSED)
def test_settings_that_do_not_fit_are_refused_in_one_message(config: Path, change: str) -> None:
    with pytest.raises(UserError) as caught:
        load(config, Experiment, [change])
    assert REFUSED[change] in str(caught.value)


def test_a_model_without_codes_cannot_write_several_languages(config: Path) -> None:
    yaml = YAML(typ="safe")
    whole = yaml.load(CONFIG)
    whole["directions"][1] = {"source": "en", "target": "fr", "corpus": "french"}
    whole["model"] |= {"family": "bart"}
    yaml.dump(whole, config)
    with pytest.raises(UserError, match="directions into en and fr: a model of the family bart has no language codes"):
        load(config, Experiment)


def test_an_exponent_without_directions_to_draw_is_refused(config: Path) -> None:
    alone = "systems=[{name: old, vocabulary: upstream, directions: [de-en]}]"
    with pytest.raises(UserError, match="no system is finetuned on several directions"):
        load(config, Experiment, ["direction_exponent=0.7", alone])
    plain = ["directions=[]", "languages={source: de, target: en}", "downstream.corpus=german"]
    with pytest.raises(UserError, match="direction_exponent draws directions, and there are none"):
        load(config, Experiment, ["direction_exponent=0.7", *plain, "systems=[{name: old, vocabulary: upstream}]"])
    with pytest.raises(UserError, match="system on-german: directions are some of the experiment's, which has none"):
        load(config, Experiment, plain)


def test_a_direction_that_is_trained_on_needs_a_dev_split(config: Path) -> None:
    for code in ("fr", "en"):
        (config.parent / "french" / f"dev.{code}").unlink()
    with pytest.raises(UserError, match="the experiment needs its dev split"):
        assert planned(config).report
    for code in ("es", "en"):
        (config.parent / "spanish" / f"dev.{code}").unlink()
    unseen = [
        f"systems={[{'name': 'old', 'vocabulary': 'upstream', 'directions': ['de-en']}]}",
        "directions.1.train=false",
    ]
    for code in ("fr", "en"):
        (config.parent / "french" / f"train.{code}").unlink()
    assert planned(config, *unseen).report, "what is only tested needs its test split"


def test_the_vocabulary_has_the_words_of_all_directions_that_are_trained_on(whole: tuple[Pipeline, Store]) -> None:
    pipeline, store = whole
    transfer = _steps(pipeline)["random"].transfer
    assert transfer is not None and isinstance(_steps(pipeline)["random"].finetune.stage, FinetuneStage)
    learnt = Tokenizer.load(store.path(transfer.inputs["vocabulary/encoder"]))
    unknown = learnt.special["unk"]
    assert all(unknown not in learnt.encode(line) for line in (*_french(20, 1), *german(20, 1), *english(20, 11)))
