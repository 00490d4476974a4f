"""The systems of an experiment as the report's stage names them, and as runs of MLflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from subgraft.config.settings_base import VocabularyMode
from subgraft.embeddings.methods.registry import method_spec
from subgraft.orchestration.store.step import Step, in_order, made_by
from subgraft.orchestration.tracking.payloads import CORPUS, TEST, TRAINED
from subgraft.orchestration.tracking.tracker import SystemRun
from subgraft.pipeline.stages.report import ReportedSystem, ReportStage, SweepPoint, SystemInputs
from subgraft.training.stage import TrainedStage

if TYPE_CHECKING:
    from subgraft.config.experiment import Experiment
    from subgraft.config.experiment.systems import System
    from subgraft.experiments.steps.system import SystemSteps


def manifest(experiment: Experiment, systems: Sequence[SystemSteps]) -> tuple[ReportStage, Mapping[str, Step]]:
    """The report's stage, and the steps of the systems by the keys under which the stage refers to them."""
    keys = _Keys()
    reported = tuple(
        ReportedSystem(
            name=steps.system.name,
            seed=steps.seed,
            design=sweep_point(steps.system, experiment),
            inputs=_inputs(steps, keys),
            trained_on=tuple(direction.name for direction in experiment.trained_on(steps.system)),
            zero_shot=_zero_shot(steps, experiment),
        )
        for steps in systems
    )
    unchanged = (
        system.name
        for system in experiment.systems
        if system.vocabulary == "upstream" and system.pretraining == "plain"
    )
    stage = ReportStage(
        name=experiment.name,
        languages=experiment.languages,
        upstream=experiment.upstream.corpus,
        downstream=experiment.downstream.corpus,
        systems=reported,
        baseline=experiment.evaluation.baseline or next(unchanged, None),
        speed_batch_size=experiment.evaluation.batch_size,
        bootstrap_samples=experiment.evaluation.bootstrap_samples,
        select=experiment.finetune.select or "bleu",
        objective=experiment.finetuned_on,
        settings={
            **experiment.model_dump(mode="json", exclude={"runtime", "corpora", "search", "systems"}),
            "systems": [system.model_dump(mode="json", exclude_defaults=True) for system in experiment.systems],
        },
    )
    return stage, keys.steps


class _Keys:
    """Steps by keys that people can read; a step that systems share has one key."""

    def __init__(self) -> None:
        self.steps: dict[str, Step] = {}
        self._keys: dict[str, str] = {}

    def of(self, step: Step, key: str) -> str:
        """The step's key: `key`, unless it already has another."""
        first = self._keys.setdefault(step.fingerprint, key)
        self.steps.setdefault(first, step)
        return first


def _inputs(steps: SystemSteps, keys: _Keys) -> SystemInputs:
    owner = f"{steps.system.name}/{steps.seed}"

    def key(role: str, step: Step | None) -> str | None:
        return keys.of(step, f"{role}/{owner}") if step else None

    return SystemInputs(
        finetune=keys.of(steps.finetune, f"finetune/{owner}"),
        evaluate=keys.of(steps.evaluate, f"evaluate/{owner}"),
        pretrained=key("pretrained", steps.pretrained),
        transfer=key("transfer", steps.transfer),
        generator=key("generator", steps.generator),
        static={side: keys.of(step, f"static/{side}/{owner}") for side, step in steps.static.items()},
        distilled=key("distilled", steps.distilled),
        embedding_warmup=key("embedding_warmup", steps.embedding_warmup),
        multitask=key("multitask", steps.multitask),
        by_sentence=key("by_sentence", steps.by_sentence),
        synthetic_data=tuple(keys.of(step, f"{step.stage.stage_name}/text/{owner}") for step in steps.synthetic_data),
        **{part: key(part, step) for part, step in steps.measured.items()},
        directions={name: keys.of(step, f"evaluate/{owner}/{name}") for name, step in steps.directions.items()},
        seen={name: keys.of(step, f"seen/{owner}/{name}") for name, step in steps.seen.items()},
    )


def _zero_shot(steps: SystemSteps, experiment: Experiment) -> tuple[str, ...]:
    """The directions for which no step behind a system was trained on pairs of the two languages, in either order."""
    trained = {
        frozenset((languages.source, languages.target))
        for step in made_by(TrainedStage, in_order([steps.finetune]))
        for languages in step.stage.pairs_between
    }
    return tuple(
        direction.name
        for direction in experiment.directions
        if frozenset((direction.source, direction.target)) not in trained
    )


# The position of a system in a sweep, from its settings alone.

_MODES: Mapping[VocabularyMode | None, str] = {"extend": "extended", "trim": "trimmed"}


def sweep_point(system: System, experiment: Experiment) -> SweepPoint:
    """The place of a system in a sweep; `avg` is a generator of no steps, the initial state of all generators."""
    parts = [system.initialiser or f"{system.vocabulary} vocabulary"]
    parts += [f"from {system.starts_from}"] if system.starts_from else []
    parts += [f"λ {system.kd_weight:g}"] if system.kd_weight else []
    variant: list[str] = [system.pretraining] if system.pretraining != "plain" else []
    mode = experiment.vocabulary_mode(system)
    variant += [f"vocabulary {_MODES[mode]}"] if mode in _MODES else []
    variant += [] if system.copy_shared_tokens else ["no seen rows copied"]
    variant += [f"tables first {system.embeddings_only_fraction:g}"] if system.embeddings_only_fraction else []
    variant += ["attached"] if system.tie_to_sources else []
    variant += [f"{system.train} trained"] if system.train else []
    variant += [f"rows first, {system.embedding_warmup} text"] if system.embedding_warmup else []
    variant += [f"{system.text} text"] if system.text else []
    variant += ["without pairs"] if system.unsupervised else []
    variant += [f"{system.back_translation_rounds} rounds"] if system.back_translation_rounds else []
    variant += [f"on {', '.join(system.directions)}"] if system.directions else []
    variant += [f"head {system.head.kind}"] if system.head else []
    variant += [f"{system.context} of {system.context_sentences} sentences before"] if system.context else []
    variant += [f"documents in blocks of {system.documents}"] if system.documents else []
    variant += [f"several tasks, {system.multitask}"] if system.multitask else []
    variant += _rates(system)
    variant += [f"pieces used {system.vocabulary_min_count} times"] if system.vocabulary_min_count else []
    if (rare := system.rare_tokens) is not None:
        variant += [f"tokens below {rare.min_count} at ×{rare.learning_rate_factor:g}, pulled at {rare.l2_to_init:g}"]
    multitask = experiment.multitask_training if system.multitask == "alone" else None
    steps = None
    if system.generator is not None and system.starts_from is None:
        steps = experiment.generator_steps(system)
    elif method_spec(system.initialiser).generator and not experiment.generator.literal_equation:
        steps = 0
    return SweepPoint(
        family=", ".join([*parts, *variant]),
        variant=", ".join(variant),
        generator_steps=steps,
        pretraining_step=_pretraining_step(system, experiment),
        select="last" if system.unsupervised else (multitask or experiment.finetune).select,
    )


def _pretraining_step(system: System, experiment: Experiment) -> int | None:
    """The updates before a system's start, if some system starts from an earlier step than the last."""
    if system.pretraining != "plain" or all(other.pretraining_step is None for other in experiment.systems):
        return None
    return system.pretraining_step or experiment.pretrain.max_steps


def _rates(system: System) -> list[str]:
    """A system's own learning rates, in words."""
    rate, embedding_rate = system.learning_rate, system.embedding_learning_rate
    changes = [f"learning rate {rate:g}"] if rate is not None else []
    if embedding_rate is not None:
        changes.append(f"tables at {embedding_rate:g}" if embedding_rate else "tables frozen")
    if system.new_embedding_learning_rate is not None:
        changes.append(f"new embeddings at {system.new_embedding_learning_rate:g}")
    return changes


def system_runs(systems: Sequence[SystemSteps]) -> list[SystemRun]:
    """A run for every system and seed."""
    runs = list[SystemRun]()
    for steps in systems:
        directions = {f"{TEST}/{name}": step for name, step in steps.directions.items() if step is not steps.evaluate}
        parts: dict[str, Step] = {TRAINED: steps.finetune, TEST: steps.evaluate, **steps.measured, **directions}
        # Those that the finetuning reads, without synthetic text.
        corpora = [step for step in steps.finetune.inputs.values() if step.stage.stage_name == CORPUS]
        runs.append(SystemRun(steps.system.name, steps.seed, _settings(steps), parts, corpora))
    return runs


def _settings(steps: SystemSteps) -> dict[str, Any]:
    """The system's settings, and the stages of its training, its vocabulary and its new rows."""
    inputs = steps.transfer.inputs if steps.transfer else {}
    steps_by_role: dict[str, Step | None] = {
        "generator": steps.generator,
        "transfer": steps.transfer,
        "embedding_warmup": steps.embedding_warmup,
        "multitask": steps.multitask,
        "distilled": steps.distilled,
        "pretrained": steps.pretrained,
        **{role: step for role, step in inputs.items() if role.startswith("vocabulary/")},
    }
    return {
        **steps.system.model_dump(mode="json", exclude={"name"}),
        "seed": steps.seed,
        "finetune": steps.finetune.stage.training.model_dump(mode="json"),
        TEST: steps.evaluate.stage.evaluation.model_dump(mode="json"),
        **{role: step.stage.model_dump(mode="json") for role, step in steps_by_role.items() if step},
    }
