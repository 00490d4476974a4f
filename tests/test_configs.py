"""Every shipped configuration loads, on any machine: reading one needs no corpora. So does every preset."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest

from small_experiments import perform_step
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.experiment.presets import PRESETS
from subgraft.config.loading import load
from subgraft.config.models import MarianSettings, MBartSettings
from subgraft.contrib.ernie_thu.objective import MaskedEntitiesSettings
from subgraft.embeddings.methods.registry import METHODS, names_with
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.search.space import grid
from subgraft.modeling.conditioning.variants.registry import VariantName
from subgraft.orchestration.store.step import in_order
from subgraft.orchestration.store.store import Store
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
# vocap.yaml shares out a vocabulary, and is not an experiment.
NAMES = sorted(path.name for path in CONFIGS.glob("*.yaml") if path.stem != "vocap")
TRANSFERRED = {
    "table3-bert.yaml": ("bert", "masked"),
    "table3-mbart.yaml": ("mbart", "denoising"),
    "questions-bert.yaml": ("bert", "masked"),
}
# Ways of reading a source are compared.
WITH_SOURCE = {
    "conditioning.yaml": "class-conditional",
    "attributes.yaml": "class-conditional",
    "digits.yaml": "feature-conditional",
    "stories.yaml": "text-conditional",
    "tales.yaml": "text-conditional",
}
COMPARED = {"pretrain-finetune", "random", "mean", "avg", "patt+kd"}
MAIN = ["pretrain-finetune", "random", "random-matched", "mean", "avg", "patt+kd", "focus"]
REAL_SIZE = ("real-size-en-fr.yaml", "real-size-en-zh.yaml")


@pytest.fixture(autouse=True)
def _no_corpora(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUBGRAFT_DATA", raising=False)


def test_the_promised_configurations_are_there() -> None:
    assert {"quickstart.yaml", "itdocs.yaml", "laws.yaml", "table2.yaml", "questions.yaml", "continuation.yaml"} <= set(
        NAMES
    )
    assert {"figures.yaml", "tuning.yaml", "few-updates.yaml", *REAL_SIZE, *TRANSFERRED} <= set(NAMES)


OTHERS = (
    "language-model",
    "copying",
    "few-examples",
    "domain-text",
    "polarity",
    "bart",
    "ernie",
    "xlnet",
    "ernie3",
    "knowledgeable",
    "bert",
    "continued",
    "documents",
    "mbart",
    "few-pairs-on-a-translator",
    "translator-zh",
)
# Ways of learning from text without translations.
MONOLINGUAL = ("rounds", "unsupervised")
# A language that a checkpoint lacks.
LANGUAGES = ("new-script",)
# Ways between several languages.
DIRECTIONS = ("transfer", "transfer-back", "zero-shot")


@pytest.mark.parametrize("name", TRANSFERRED)
def test_knowledge_is_transferred_from_models_of_monolingual_text(name: str) -> None:
    """The systems of the paper's table 3: without another vocabulary, and with it; here also its usual rival."""
    experiment = load(CONFIGS / name, Experiment)
    systems = {system.name: system for system in experiment.systems}
    assert set(systems) == {"without", "mean", "patt+kd"}
    assert systems["without"].vocabulary == "upstream"
    assert systems["patt+kd"].kd_weight == 0.5
    assert (experiment.model.family, experiment.upstream.objectives[0].kind) == TRANSFERRED[name]
    assert experiment.sides == ("decoder",)


def test_who_reads_a_domains_text_is_compared_with_the_old_vocabulary_that_reads_it_too() -> None:
    experiment = load(CONFIGS / "domain-text.yaml", Experiment)
    remaining = {system.text for system in experiment.systems if system.vocabulary == "upstream"}
    assert {system.text for system in experiment.systems} <= remaining
    assert experiment.downstream.text is not None


def test_systems_on_a_translator_differ_by_the_start_or_by_one_setting() -> None:
    experiment = load(CONFIGS / "few-pairs-on-a-translator.yaml", Experiment)
    assert experiment.upstream.checkpoint == "fr-en" and experiment.back_translation.model == "en-fr"
    systems = {system.name: system for system in experiment.systems}
    assert [systems.pop(name).text for name in ("old", "old+text")] == [None, "back-translated"]
    learnt = {system.initialiser for system in systems.values()}
    assert learnt >= {"mean", "patt", "network", "token-distillation", "attention-influence", "vocadt"}
    assert systems["min-count"].vocabulary_min_count and systems["rare-tokens"].rare_tokens
    assert all(system.learning_rate is None for system in systems.values()), "one rate for all"


def test_each_round_of_back_translation_is_a_row_next_to_the_pairs_alone() -> None:
    experiment = load(CONFIGS / "rounds.yaml", Experiment)
    rounds = [experiment.rounds(system) if system.text else 0 for system in experiment.systems]
    assert rounds == [*range(experiment.back_translation.rounds + 1)] and experiment.finetune.max_steps is not None


def test_learning_without_pairs_is_compared_with_few_pairs_and_read_text_of_other_sentences() -> None:
    experiment = load(CONFIGS / "unsupervised.yaml", Experiment)
    systems = {system.name: system for system in experiment.systems}
    assert systems["without-pairs"].unsupervised and not systems["few-pairs"].unsupervised
    assert {systems[name].vocabulary for name in systems} == {"upstream"}
    source = experiment.corpora["english"].files
    assert source and "en-de" not in source["train"][0], "the English side of the pairs would be parallel"


def test_every_way_of_reading_a_class_is_compared_with_both_vocabularies() -> None:
    experiment = load(CONFIGS / "conditioning.yaml", Experiment)
    for vocabulary in ("upstream", "downstream"):
        ways = [system.conditioning for system in experiment.systems if system.vocabulary == vocabulary]
        assert ways == [None, *ways[1:]] and set(ways[1:]) == set(get_args(VariantName))


@pytest.mark.parametrize("name", WITH_SOURCE)
def test_what_knows_a_source_is_compared_with_what_does_not(name: str) -> None:
    experiment = load(CONFIGS / name, Experiment)
    ways = {system.conditioning for system in experiment.systems}
    assert experiment.task == WITH_SOURCE[name] and ways >= {None, "pseudo-self", "cross-attention", "prepend", "none"}
    assert {system.vocabulary for system in experiment.systems} == {"upstream", "downstream"}


def test_numbers_of_examples_are_compared_with_the_model_that_the_ways_are_compared_with() -> None:
    few, ways = (load(CONFIGS / f"{name}.yaml", Experiment) for name in ("few-examples", "conditioning"))
    for group in ("corpora", "cleaning", "upstream", "downstream", "model", "pretrain"):
        assert getattr(few, group) == getattr(ways, group), "the store has it already"
    assert few.finetune.resample_subset and few.finetune.patience and len(few.seeds) == 8


LABELS = ["polarity.yaml", "bart.yaml", "ernie.yaml", "ernie3.yaml", "bert.yaml", "knowledgeable.yaml"]


@pytest.mark.parametrize("name", LABELS)
def test_labels_are_compared_with_the_old_vocabulary_and_an_untrained_model(name: str) -> None:
    systems = {each.name: each for each in load(CONFIGS / name, Experiment).systems}
    assert systems["old"].vocabulary == "upstream" and systems["untrained"].pretraining == "none"
    assert {systems[name].initialiser for name in ("mean", "patt")} == {"mean", "patt"}


def test_a_bart_is_pretrained_without_dropout_in_the_last_tenth() -> None:
    training = load(CONFIGS / "bart.yaml", Experiment).pretrain
    assert training.max_steps is not None
    assert training.dropout_at(training.max_steps * 9 // 10 - 1) is None
    assert training.dropout_at(training.max_steps * 9 // 10) == 0.0


def test_the_rows_of_ernie_3_are_configurations_one_without_finetuning() -> None:
    text = (CONFIGS / "ernie3.yaml").read_text().partition("name: ernie3")[0].replace("\n#     ", " ")
    commands = [line.removeprefix("#").replace("\\ ", "") for line in text.splitlines() if " name=" in line]
    rows = [load(CONFIGS / "ernie3.yaml", Experiment, shlex.split(command)[3:]) for command in commands]
    assert len({row.name for row in rows}) == len(rows) == 4
    judged = rows[-1].labels.zero_shot
    assert judged is not None and set(judged.words) == {"neg", "pos"}
    assert any(objective.continues for objective in rows[-1].upstream.objectives)


def test_a_knowledgeable_model_predicts_next_sentences_and_its_rows_take_a_part_away() -> None:
    text = (CONFIGS / "knowledgeable.yaml").read_text().partition("name: knowledgeable")[0]
    rows = [shlex.split(line.removeprefix("#"))[3:] for line in text.splitlines() if " name=" in line]
    whole, *rest = (load(CONFIGS / "knowledgeable.yaml", Experiment, row) for row in ([], *rows))
    first = whole.upstream.objectives[0]
    assert isinstance(first, MaskedEntitiesSettings) and first.predicts_next and first.entity_weight == 1.0
    without = [each.upstream.objectives[0] for each in rest]
    assert [each.kind for each in without] == ["masked-entities", "masked"]
    assert isinstance(without[0], MaskedEntitiesSettings) and without[0].entity_weight == 0.0
    assert all(each.predicts_next for each in without)


def test_an_ernie_learns_one_task_after_the_other_and_units_by_stages() -> None:
    experiment = load(CONFIGS / "ernie.yaml", Experiment)
    joins = [objective.from_step for objective in experiment.upstream.objectives]
    assert joins == sorted(joins) and len(set(joins)) > 3 and experiment.pretrain.schedule_per_objective
    assert max(each.last_change for each in experiment.upstream.objectives) < (experiment.pretrain.max_steps or 0)


def test_the_ablations_that_xlnets_configuration_names_are_settings() -> None:
    """Yang et al. 2019, section 3.6; each changes the objective."""
    text = (CONFIGS / "xlnet.yaml").read_text()
    changes = re.findall(r"name=[\w-]+ '(.+)'", text)
    objectives = [load(CONFIGS / "xlnet.yaml", Experiment, [change]).upstream.objectives for change in changes]
    assert len(set(objectives)) == len(changes) >= 5
    assert load(CONFIGS / "xlnet.yaml", Experiment).upstream.objectives not in objectives


def test_a_bert_predicts_next_sentences_and_its_rows_are_configurations() -> None:
    text = (CONFIGS / "bert.yaml").read_text()
    assert load(CONFIGS / "bert.yaml", Experiment).upstream.objectives[0].predicts_next
    commands = text.partition("name: bert")[0].replace("\\\n#", "").splitlines()
    rows = [shlex.split(line.removeprefix("#"))[3:] for line in commands if "subgraft run" in line]
    experiments = [load(CONFIGS / "bert.yaml", Experiment, row) for row in rows]
    assert len(experiments) == 8 and not any(
        each.upstream.objectives[0].predicts_next
        for each in experiments
        if each.name not in ("static", "sentence-pair", "bert-questions")
    )


@pytest.mark.parametrize("name", ["bert", "bart", "ernie"])
def test_an_upstream_also_asks_questions_by_one_command(name: str) -> None:
    path = CONFIGS / f"{name}.yaml"
    (command,) = (line for line in path.read_text().splitlines() if f"name={name}-questions" in line)
    changed, own = load(path, Experiment, shlex.split(command.removeprefix("#"))[3:]), load(path, Experiment)
    assert changed.task == "question-generation" and own.task == "classification"
    assert (changed.upstream, changed.pretrain, changed.model) == (own.upstream, own.pretrain, own.model)


def test_every_pair_of_a_transfer_is_finetuned_on_alone_with_and_without_pretraining() -> None:
    experiment = load(CONFIGS / "transfer.yaml", Experiment)
    rows = {each.name: (each.pretraining, each.directions) for each in experiment.systems}
    trained = [each.name for each in experiment.directions if each.train]
    for pretraining, name in (("plain", "on"), ("none", "untrained-on")):
        assert [rows[f"{name}-{pair.partition('-')[0]}"] for pair in trained] == [(pretraining, (p,)) for p in trained]
    assert rows["all"] == ("plain", None) and any(not each.train for each in experiment.directions)
    books = {(each.verses.dev, each.verses.test) for each in experiment.corpora.values() if each.verses}
    assert len(books) == 1, "what is held out of one translation is held out of all"
    back = load(CONFIGS / "transfer-back.yaml", Experiment)
    for group in ("upstream", "model", "pretrain"):
        assert getattr(back, group) == getattr(experiment, group), "the store has it already"
    assert back.corpora["texts"] == experiment.corpora["texts"]


SHARED_PRETRAINING = (("zero-shot", "rounds", "unsupervised"), ("documents", "transfer", "transfer-back"))


@pytest.mark.parametrize("names", SHARED_PRETRAINING, ids=" ".join)
def test_tasks_in_other_languages_share_one_pretraining_on_text_in_all_languages(names: Sequence[str]) -> None:
    experiments = [load(CONFIGS / f"{name}.yaml", Experiment) for name in names]
    for group in ("upstream", "model", "pretrain", "cleaning"):
        assert len({repr(getattr(each, group)) for each in experiments}) == 1
    assert len({each.corpora["texts"].model_dump_json() for each in experiments}) == 1
    assert {each.upstream.languages for each in experiments} == {"all"}


def test_no_pair_of_the_zero_shot_direction_is_trained_on() -> None:
    """The untrained row has the vocabulary of the pretrained one, as in mBART; the German text has no English side."""
    experiment = load(CONFIGS / "zero-shot.yaml", Experiment)
    assert [(each.source, each.train) for each in experiment.directions] == [("fr", True), ("de", False)]
    assert [(each.vocabulary, each.pretraining) for each in experiment.systems] == [
        ("upstream", "none"),
        ("upstream", "plain"),
    ]
    texts = experiment.corpora["texts"].texts or {}
    assert {code: (text.files or {})["train"] for code, text in texts.items()} == {
        "en": ("en-fr/tatoeba/train.en.gz",),
        "fr": ("en-fr/tatoeba/train.fr.gz",),
        "de": ("en-de/tatoeba/train.de.gz",),
    }


def test_copying_is_compared_with_the_same_systems_without() -> None:
    systems = {each.name: each for each in load(CONFIGS / "copying.yaml", Experiment).systems}
    copying = [each for each in systems.values() if each.copying]
    assert {each.conditioning for each in copying} == {"none", "pseudo-self"}
    assert {each.copying for each in copying} == {"pointer-generator", "bottom-up"}
    for each in copying:
        without = each.name.partition("+")[0]
        assert systems[without] == each.model_copy(update={"name": without, "copying": None})


@pytest.mark.parametrize(
    "name",
    sorted(
        set(NAMES)
        - {*WITH_SOURCE, *TRANSFERRED, *(f"{name}.yaml" for name in (*OTHERS, *MONOLINGUAL, *DIRECTIONS, *LANGUAGES))}
    ),
)
def test_configuration_compares_what_it_should(name: str) -> None:
    experiment = load(CONFIGS / name, Experiment)
    systems = {system.name: system for system in experiment.systems}
    assert experiment.name == name.removesuffix(".yaml")
    assert set(systems) >= COMPARED
    assert systems["pretrain-finetune"].vocabulary == "upstream"
    assert systems["patt+kd"].initialiser == "patt" and systems["patt+kd"].kd_weight == 0.5


@pytest.mark.parametrize("name", NAMES)
def test_configuration_names_known_initialisers(name: str) -> None:
    for system in load(CONFIGS / name, Experiment).systems:
        assert system.initialiser is None or system.initialiser in METHODS
        assert system.kd_weight is None or system.generator in names_with("trained")


@pytest.mark.parametrize("name", NAMES)
def test_systems_are_finetuned_on_the_same_batches(name: str) -> None:
    """Batches counted in a row's own tokens would give every vocabulary other batches and another number of steps."""
    assert load(CONFIGS / name, Experiment).finetune.batch_unit == "characters"


@pytest.mark.parametrize("preset", sorted(PRESETS))
@pytest.mark.parametrize("name", NAMES)
def test_every_preset_fits_every_configuration(name: str, preset: str) -> None:
    experiment = load(CONFIGS / name, Experiment, [f"preset={preset}"])
    arguments = load(CONFIGS / name, Experiment)
    assert experiment.preset == preset
    assert experiment.systems == arguments.systems
    assert experiment.finetune.batch_unit == "characters"


def test_the_demo_shows_two_seeds_of_generated_text() -> None:
    experiment = load(CONFIGS / "quickstart.yaml", Experiment)
    assert len(experiment.seeds) == 2
    assert all(corpus.generated for corpus in experiment.corpora.values())


def test_the_paper_preset_is_the_papers() -> None:
    """Transformer base, Adam 0.9 and 0.999, dropout 0.3, 25k tokens, 4k warm-up steps, peak 5e-4."""
    experiment = load(CONFIGS / "itdocs.yaml", Experiment, ["preset=paper"])
    model, training = experiment.model, experiment.pretrain
    assert isinstance(model, MarianSettings)
    assert (model.d_model, model.encoder_layers, model.decoder_layers, model.attention_heads) == (512, 6, 6, 8)
    assert (model.ffn_dim, model.dropout) == (2048, 0.3)
    assert (training.adam_beta1, training.adam_beta2) == (0.9, 0.999)
    assert (training.batch_size, training.batch_unit) == (25000, "tokens")
    assert (training.warmup_steps, training.learning_rate) == (4000, 5e-4)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            ["upstream.checkpoint=somewhere"],
            "need a pretraining of their own: single-run, downstream-vocabulary, joint-vocabulary, subword-reg",
        ),
        (["upstream.vocabulary.kind=wordpiece"], "`pretraining: sampled` needs an upstream vocabulary of kind"),
        (
            ["model.family=mbart", "upstream.objectives=[{kind: denoising}]", "upstream.sampling={sides: [encoder]}"],
            "text of the objective denoising counts as the decoder's",
        ),
        (
            ["model.family=mbart", "upstream.objectives=[{kind: denoising, block_tokens: 300}]"],
            "upstream.objectives.0.block_tokens 300 is beyond the 256 of pretrain.max_length",
        ),
        (
            ["upstream.objectives=[{kind: denoising, sentences_per_document: 8}]"],
            "sentences_per_document: unknown field",
        ),
    ],
)
def test_what_no_model_can_be_pretrained_for_is_refused(changes: list[str], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        load(CONFIGS / "table2.yaml", Experiment, changes)


def test_systems_of_the_papers_table_2_are_the_strategies_it_compares() -> None:
    systems = {system.name: system for system in load(CONFIGS / "table2.yaml", Experiment).systems}
    assert [systems[name].pretraining for name in ("single-run", "pretrain-finetune")] == ["none", "plain"]
    assert systems["downstream-vocabulary"].pretraining == "downstream-vocabulary"
    assert systems["joint-vocabulary"].pretraining == "joint-vocabulary"
    assert (systems["subword-regularisation"].pretraining, systems["subword-regularisation"].vocabulary) == (
        "sampled",
        "upstream",
    )
    independent = systems["independent-encoder"]
    assert not independent.copy_shared_tokens and 0 < independent.embeddings_only_fraction < 1


def test_questions_are_denoised_upstream_and_marked_downstream() -> None:
    experiment = load(CONFIGS / "questions.yaml", Experiment)
    assert (experiment.task, experiment.model.family) == ("question-generation", "mbart")
    assert [objective.kind for objective in experiment.upstream.objectives] == ["denoising"]
    assert experiment.languages.source == experiment.languages.target == experiment.upstream_languages.target
    assert experiment.corpora[experiment.downstream.corpus].squad and experiment.question_generation.window == 400


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (["task=text-to-text"], "is of kind squad, which is for `task: question-generation`"),
        (["downstream.corpus=everyday"], "needs a downstream corpus of kind squad, which 'everyday' is not"),
        (["upstream.corpus=squad"], "squad contains a task's questions"),
        (["task=translation", "downstream.corpus=everyday"], "translation is between two languages"),
        (["task=summaries"], "expected 'translation', 'question-generation', 'text-to-text', 'continuation', "),
    ],
)
def test_tasks_and_corpora_that_do_not_go_together_are_refused(changes: list[str], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        load(CONFIGS / "questions.yaml", Experiment, changes)


def test_cleaning_and_length_limits_suit_the_task_unless_they_are_given() -> None:
    """Rules of translation would drop nearly every passage with its question."""
    questions = load(CONFIGS / "questions.yaml", Experiment)
    assert (questions.cleaning.max_ratio, questions.cleaning.max_characters) == (None, None)
    assert questions.evaluation.max_length_ratio == 1.0 and questions.evaluation.speed_sentences == 64
    own = load(CONFIGS / "questions.yaml", Experiment, ["cleaning.max_ratio=9.0"])
    assert (own.cleaning.max_ratio, own.cleaning.max_characters) == (9.0, None)
    translation = load(CONFIGS / "laws.yaml", Experiment)
    assert (translation.cleaning.max_ratio, translation.evaluation.max_length_ratio) == (5.0, 2.5)


def test_the_sweeps_of_the_papers_figures_are_over_size_and_steps() -> None:
    experiment = load(CONFIGS / "figures.yaml", Experiment)
    usual = experiment.downstream.vocabulary.size
    sizes = [system.vocabulary_size or usual for system in experiment.systems if system.initialiser == "mean"]
    steps = [system.generator_steps for system in experiment.systems if system.initialiser == "patt"]
    assert sizes == [2000, 4000, 8000, 12000]
    assert steps == [50, 150, 300, 600]
    assert experiment.intrinsic is not None and experiment.evaluation.upstream_sentences


def test_the_search_is_for_the_settings_of_the_papers_method() -> None:
    experiment = load(CONFIGS / "search.yaml", Experiment)
    assert experiment.search is not None
    assert set(experiment.search.space.varied) == {"initialiser", "kd_weight", "vocabulary_size", "generator_steps"}
    assert experiment.search.space.initialiser == ("avg", "att", "patt")
    assert experiment.search.objectives == ("dev_bleu", "sentences_per_second")


def main_systems(name: str, *changes: str) -> Experiment:
    experiment = load(CONFIGS / name, Experiment, changes)
    assert [system.name for system in experiment.systems] == MAIN
    return experiment


@pytest.mark.parametrize("name", ["itdocs.yaml", "laws.yaml"])
def test_the_main_comparisons_have_three_seeds_of_four_epochs(name: str) -> None:
    experiment = main_systems(name)
    assert experiment.seeds == (1, 2, 3) and experiment.finetune.epochs == 4


def test_random_weights_of_mbart_are_tuned_in_as_many_trials_as_pretrained_ones() -> None:
    """Each in the same space, and all to their end: no trial of either is stopped early."""
    mbart = load(CONFIGS / "mbart.yaml", Experiment)
    assert mbart.search is not None and (mbart.search.sampler, mbart.search.asha) == ("grid", None)
    systems = {system.name: system for system in mbart.systems}
    trials = {one.system: grid(one.space, systems[one.system or ""]) for one in mbart.search.each_system()}
    untrained = [name for name in trials if systems[name or ""].pretraining == "none"]
    assert untrained == ["random"] and len(trials) == 2
    assert trials["random"] == trials["updates-4000"] and len(trials["random"]) == 3
    rates = [float(values["learning_rate"]) for values in trials["random"]]
    assert min(rates) < mbart.finetune.learning_rate < max(rates), "the rate of the experiment is tried, and others"


def test_every_system_is_tuned_in_as_many_trials_on_what_itdocs_is_then_finetuned_on() -> None:
    tuning, itdocs = main_systems("tuning.yaml"), main_systems("itdocs.yaml")
    assert tuning.search is not None and list(tuning.search.systems or ()) == MAIN
    assert set(tuning.search.space.varied) == {"learning_rate", "embedding_learning_rate"}
    assert (tuning.search.sampler, tuning.search.objectives, tuning.search.asha) == ("grid", ("dev_bleu",), None)
    systems = {system.name: system for system in tuning.systems}
    counts = {len(grid(one.space, systems[one.system or ""])) for one in tuning.search.each_system()}
    assert counts == {6}
    for what in (
        "corpora",
        "cleaning",
        "upstream",
        "downstream",
        "model",
        "pretrain",
        "generator_training",
        "finetune",
    ):
        assert getattr(tuning, what) == getattr(itdocs, what), what
    assert tuning.seeds[0] == itdocs.seeds[0]


def test_laws_takes_the_best_settings_of_itdocs() -> None:
    """Both have the same systems, rates included, and the same finetuning."""
    itdocs, laws = main_systems("itdocs.yaml"), main_systems("laws.yaml")
    assert laws.systems == itdocs.systems and laws.finetune == itdocs.finetune


def test_few_updates_are_looked_at_in_one_training() -> None:
    experiment = main_systems(
        "few-updates.yaml", "finetune.max_train_examples=500", "finetune.embedding_learning_rate=0"
    )
    finetune = experiment.finetune
    assert finetune.evaluate_at == (25, 100, 400, 1600) and finetune.max_steps == 1600 and finetune.epochs is None
    assert (finetune.max_train_examples, finetune.embedding_learning_rate) == (500, 0)


@pytest.mark.parametrize("name", REAL_SIZE)
def test_real_size_is_the_papers_on_one_gpu(name: str) -> None:
    experiment = main_systems(name)
    assert experiment.preset == "paper" and experiment.seeds == (1, 2, 3, 4, 5)
    assert isinstance(experiment.model, MarianSettings | MBartSettings)
    assert (experiment.model.d_model, experiment.model.encoder_layers) == (512, 6)
    assert experiment.downstream.vocabulary.size == 32000
    for training in (experiment.pretrain, experiment.finetune):
        assert training.precision == "bf16" and training.patience == 10
    assert experiment.finetune.embedding_learning_rate is None
    assert experiment.runtime.gpus_per_worker == 1 and experiment.runtime.checkpoint_seconds <= 60


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_SIZE)
def test_the_text_bears_the_vocabularies_of_real_size(
    name: str, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBGRAFT_DATA", str(mirror))
    pipeline = Pipeline(load(CONFIGS / name, Experiment), CONFIGS)
    new = pipeline.vocabularies.downstream["decoder"]
    old = [pipeline.models.pretrained.inputs[side] for side in ("encoder", "decoder")]
    for step in in_order([new, *old]):
        perform_step(step, tmp_path)
    sizes = [Store(tmp_path).artifact(step) for step in (new, *old)]
    assert [len(Tokenizer.load(path)) for path in sizes] == [step.stage.settings.size for step in (new, *old)]  # type: ignore[attr-defined]


def test_documents_are_compared_with_sentences_from_random_and_from_pretrained_weights() -> None:
    """Table 5 of Liu et al. (TACL 2020); no book that is held out is in the text of pretraining."""
    experiment = load(CONFIGS / "documents.yaml", Experiment)
    rows = {(each.pretraining, each.documents is not None) for each in experiment.systems}
    assert rows == {("none", False), ("none", True), ("plain", False), ("plain", True)}
    (in_context,) = [each for each in experiment.systems if each.context]
    assert (in_context.context, in_context.context_sentences, in_context.pretraining) == ("han", 3, "plain")
    texts, task = (experiment.corpora[name].verses for name in ("texts", "task"))
    assert texts is not None and task is not None and (texts.dev, texts.test) == (task.dev, task.test)
    assert experiment.evaluation.documents and not experiment.cleaning.deduplicate


def test_an_mbarts_rows_differ_in_languages_and_its_curve_in_updates() -> None:
    experiment = load(CONFIGS / "mbart.yaml", Experiment)
    sizes = [len(experiment.corpora[name].texts or {}) for name in ("many", "six", "two", "one")]
    assert sizes == [8, 6, 2, 1] and experiment.upstream.language_exponent == 0.7
    assert [each.pretraining_step for each in experiment.systems if each.pretraining == "plain"] == [500, 1500, None]
    rates = [experiment.pretrain.dropout_at(step) for step in (1999, 2000, 3199, 3200)]
    assert rates == [None, 0.05, 0.05, 0.0], "at half and at four fifths, as 250K and 400K of 500K"
