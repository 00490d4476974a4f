"""The card and the tags of a registered model.

The card is README.md next to the weights, with the metadata block that the Hugging Face hub reads. Its contents follow
Mitchell et al. (2019), Model Cards for Model Reporting.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subgraft.data.sources.catalogue import licences
from subgraft.data.tasks.registry import LABELLED_TASKS, TASKS
from subgraft.evaluation.reporting.model_use import use_of
from subgraft.evaluation.reporting.numbers import MISSING, count, duration, fixed
from subgraft.evaluation.reporting.table import table, table_markdown
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.steps.system import SystemSteps
from subgraft.modeling.exporting.publishing import BASE_MODEL, RECORD_NOTE, UNKNOWN_LICENCE
from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import A, Step, in_order, made_by
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.promotion import DECODING, ON_DEV, SELECTED_BY, TARGET_LANGUAGE
from subgraft.pipeline.stages.corpora import CorpusStage, TextStage
from subgraft.pipeline.stages.models import CheckpointStage
from subgraft.pipeline.stages.vocabularies import AdaptedVocabularyStage, VocabularyStage
from subgraft.training.progress import SelectedWeights


@dataclass(frozen=True)
class SelectedModel:
    """The system and seed that dev scores selected, with the records of its steps."""

    model: str
    pipeline: Pipeline
    steps: SystemSteps
    weights: SelectedWeights
    records: Mapping[str, Record]

    @classmethod
    def of(
        cls, model: str, pipeline: Pipeline, steps: SystemSteps, weights: SelectedWeights, store: Store
    ) -> SelectedModel:
        """Read the records; a step without an artifact has none."""
        all_steps = in_order([steps.finetune, steps.evaluate, *steps.directions.values()])
        pairs = ((step.fingerprint, store.find(step)) for step in all_steps)
        records = {fingerprint: record for fingerprint, record in pairs if record is not None}
        return cls(model, pipeline, steps, weights, records)

    def tags(self) -> dict[str, str]:
        """The tags that `models list` and promotion read."""
        experiment = self.pipeline.experiment
        decoding = experiment.evaluation.model_dump(mode="json")
        return {
            "experiment": experiment.name,
            "task": experiment.task,
            "source_language": experiment.languages.source,
            TARGET_LANGUAGE: experiment.languages.target,
            "recipe": json.dumps(self.steps.system.model_dump(mode="json", exclude_defaults=True)),
            SELECTED_BY: f"{ON_DEV}{self.weights.score}",
            f"dev.{self.weights.score}": f"{self.weights.value:.4f}",
            **({} if self.weights.bleu is None else {"dev.BLEU": f"{self.weights.bleu:.4f}"}),
            "dev.step": str(self.weights.step),
            **{f"test.{name}": f"{self._test(name):.4f}" for name in self._metrics},
            **{f"signature.{name}": signature for name, signature in self._signatures.items()},
            **{name: str(decoding[name]) for name in DECODING},
            **({BASE_MODEL: base} if (base := self._base_model) else {}),
        }

    def card(self) -> str:
        """The model card, in Markdown."""
        parts = (
            self._front_matter,
            self._heading,
            self._scores,
            self._scores_by_direction,
            self._data,
            self._vocabularies,
            self._provenance,
        )
        return "\n".join(line for part in parts for line in part())

    @property
    def _evaluated(self) -> Mapping[str, Any]:
        record = self.records.get(self.steps.evaluate.fingerprint)
        return record.summary if record else {}

    @property
    def _metrics(self) -> Sequence[str]:
        """The task's metrics that the test outputs were scored by; documents are not by all of them."""
        experiment = self.pipeline.experiment
        names = (*TASKS[experiment.task].metrics, *experiment.evaluation.metrics)
        return [name for name in names if name in self._evaluated]

    @property
    def _signatures(self) -> Mapping[str, str]:
        signatures = self._evaluated.get("signatures", {})
        return {name: str(signatures[name]) for name in self._metrics if name in signatures}

    def _test(self, name: str) -> float:
        return float(self._evaluated[name])

    @property
    def _base_model(self) -> str | None:
        """The hub id of the checkpoint, if there is one."""
        checkpoints = (step.stage.model for step, _ in self._made_by(CheckpointStage))
        return next((model.partition("@")[0] for model in checkpoints if not Path(model).is_dir()), None)

    def _front_matter(self) -> Iterator[str]:
        experiment = self.pipeline.experiment
        pairs = [experiment.languages, *(direction.languages for direction in experiment.directions)]
        languages = dict.fromkeys(code for pair in pairs for code in (pair.source, pair.target))
        yield "---"
        yield f"language: {json.dumps(list(languages))}"
        yield "library_name: transformers"
        if self._base_model:
            yield f"base_model: {json.dumps(self._base_model)}"
        yield f"pipeline_tag: {TASKS[experiment.task].hub_tag}"
        yield "tags: [subgraft]"
        yield f"license: {UNKNOWN_LICENCE}"
        yield "---\n"

    def _heading(self) -> Iterator[str]:
        experiment, steps = self.pipeline.experiment, self.steps
        pair, trained = experiment.languages, len(self.pipeline.systems)
        yield f"# {self.model}\n"
        called = TASKS[experiment.task].called
        others = [direction.name for direction in experiment.trained_on(steps.system) if direction.languages != pair]
        others_note = f", finetuned on {', '.join(others)} too" if others else ""
        yield f"{called} from {pair.source} to {pair.target}{others_note}. This is the system"
        yield f"`{steps.system.name}` with seed {steps.seed} of the experiment `{experiment.name}`:"
        yield f"of {trained} finetuned models the best by dev {self.weights.score}. The test set was not used for this."
        yield "The licences of the data, below, decide which licence the model can have.\n"
        yield "```sh"
        predicts = experiment.task in LABELLED_TASKS
        yield use_of("DIRECTORY", f"{pair.source}-{pair.target}", predicts=predicts, file=True).command
        yield "```\n"

    def _scores(self) -> Iterator[str]:
        evaluation = self.pipeline.experiment.evaluation
        yield "## Scores\n"
        selection_note = f"greedy, on the first dev sentences; it chose the weights, of step {count(self.weights.step)}"
        rows = [("dev", self.weights.score, fixed(self.weights.value), selection_note)]
        rows += [("test", name, fixed(self._test(name)), signature) for name, signature in self._signatures.items()]
        yield _table(("split", "score", "value", "signature"), rows)
        yield f"Test outputs by beam search ({evaluation.beam}), at most {evaluation.max_length_ratio:g} times as many"
        yield "bytes as the source. Text unlike this test set was not tried. The scores are of this model of one seed;"
        yield "whether its system is better than another, other seeds included, only the experiment's report can say.\n"

    def _scores_by_direction(self) -> Iterator[str]:
        """Scores on each direction, of a model that was tested on several."""
        if len(self.steps.directions) < 2:
            return
        from subgraft.evaluation.reporting.results import MAIN_METRICS

        yield "## Scores by direction\n"
        trained = {direction.name for direction in self.pipeline.experiment.trained_on(self.steps.system)}
        rows = [
            (name, "yes" if name in trained else "no", *self._direction_cells(step, name.partition("-")[2]))
            for name, step in self.steps.directions.items()
        ]
        yield _table(("direction", "finetuned on it", *MAIN_METRICS, "in the target language", "signature"), rows)
        yield "On the test set of each direction; in the target language: the share of outputs, by character n-grams.\n"

    def _direction_cells(self, evaluate: Step, target: str) -> tuple[str, ...]:
        from subgraft.evaluation.reporting.copies import in_target
        from subgraft.evaluation.reporting.results import MAIN_METRICS

        record = self.records.get(evaluate.fingerprint)
        if record is None:
            return (MISSING,) * (len(MAIN_METRICS) + 2)
        scored, first = record.summary, MAIN_METRICS[0]
        shares = scored.get("output_language", {})
        values = (fixed(float(scored[name])) for name in MAIN_METRICS)
        return (*values, in_target(shares, target), str(scored["signatures"][first]))

    def _data(self) -> Iterator[str]:
        yield "## Data\n"
        rows: list[tuple[str, ...]] = []
        for step, record in self._made_by(CorpusStage):
            stage = step.stage
            sizes = record.summary.get("sizes", {}) if record else {}
            split_sizes = ", ".join(f"{split} {count(size)}" for split, size in sizes.items()) or MISSING
            rows.append((step.name, stage.codes, split_sizes, "; ".join(licences(stage.identity)), _digest(record)))
        for text, record in self._made_by(TextStage):
            for side, identities in text.stage.identities.items():
                lines = f"train {count(record.summary[side]['kept'])}" if record else MISSING
                names = dict.fromkeys(name for identity in identities for name in licences(identity))
                language = getattr(text.stage.languages, side)
                rows.append((f"{text.name}, {side}", language, lines, "; ".join(names), _digest(record)))
        yield _table(("corpus", "languages", "segments", "licence", "SHA-256 of the cleaned text"), rows)

    def _vocabularies(self) -> Iterator[str]:
        yield "## Vocabulary\n"
        rows: list[tuple[str, ...]] = []
        for step, record in self._made_by(VocabularyStage):
            size = count(int(record.summary["size"])) if record else MISSING
            rows.append((step.name, step.stage.settings.kind, size, _digest(record)))
        for adapted, record in self._made_by(AdaptedVocabularyStage):
            size = count(int(record.summary["size"])) if record else MISSING
            rows.append((adapted.name, "as upstream", size, _digest(record)))
        yield _table(("vocabulary", "kind", "entries", "SHA-256"), rows)

    def _provenance(self) -> Iterator[str]:
        system = self.steps.system
        finetuned = self.records[self.steps.finetune.fingerprint]
        yield "## How it was made\n"
        yield f"Initialiser of new tokens: {system.initialiser or 'none, there are none'}. The system's settings:\n"
        yield f"```json\n{json.dumps(system.model_dump(mode='json', exclude_defaults=True))}\n```\n"
        rows = []
        for step in self._in_order():
            record = self.records.get(step.fingerprint)
            seconds = duration(record.seconds) if record else MISSING
            rows.append((step.name, step.fingerprint[:12], _digest(record), seconds))
        yield _table(("step", "fingerprint", "SHA-256", "time"), rows)
        provenance = finetuned.provenance
        versions = ", ".join(f"{name} {version}" for name, version in provenance.versions.items())
        yield f"Finetuned on {provenance.device}, {finetuned.finished}, commit {provenance.git_commit or 'unknown'}."
        yield f"With {versions}."
        yield f"{RECORD_NOTE}\n"

    def _made_by(self, stage: type[A]) -> list[tuple[Step[A], Record | None]]:
        return [(step, self.records.get(step.fingerprint)) for step in made_by(stage, self._in_order())]

    def _in_order(self) -> list[Step]:
        return in_order([self.steps.finetune, self.steps.evaluate])


def _digest(record: Record | None) -> str:
    return record.digest if record else MISSING


def _table(headings: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
    return table_markdown(table(headings, rows, left=range(len(headings)))) + "\n"
