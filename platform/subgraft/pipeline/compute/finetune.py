"""TransferredModel and Corpus → FinetunedModel: trained on the task, or on several at once with a head for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from subgraft.config.experiment.multitask import OWN
from subgraft.config.settings_base import SideName
from subgraft.config.training import AdapterSettings, FinetuneSettings
from subgraft.data.synthetic_pairs import is_tagged, require_tag
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.initialisers.new_rows import MixingMatrix, load_matrix
from subgraft.embeddings.transplanting.computed_tables import NewRowsOnly, TiedToSources
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.further_heads import HEADS
from subgraft.modeling.heads import head_parameters
from subgraft.modeling.sides import tables_of
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.pipeline.stages.training import FinetuneStage, FirstPhase, MultitaskStage
from subgraft.subwords.vocabulary.alignment import new_tokens
from subgraft.training.adapters import Adapters
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.context import Context
from subgraft.training.objectives.compute.conditioned import losses_of
from subgraft.training.objectives.compute.conversations import ConversationsOfTask, with_template
from subgraft.training.objectives.compute.dev_scores import describe_dev_engine, with_drift
from subgraft.training.objectives.compute.interface import ObjectiveInputs, TaskText
from subgraft.training.objectives.compute.mixture import with_text
from subgraft.training.objectives.compute.translation import Directions, directions_text
from subgraft.training.objectives.conversations import ConversationSettings
from subgraft.training.objectives.labelled import LabelledPairsSettings, LabelledSettings
from subgraft.training.phases import copy_parameters, first_phase_parameters, join_outcomes, split_training, train_only
from subgraft.training.progress import CURVE, SELECTIONS, CurvePoint, Outcome
from subgraft.training.rare_rows import RareRows, RowUpdates
from subgraft.training.setup import WHOLE, device, is_writer, peak_memory, run_training, write_curve
from subgraft.training.stage import Inputs, Summary
from subgraft.training.understanding.multitask import TasksAtOnce, save_heads, with_task_heads
from subgraft.training.understanding.objective import LabelledExamples, task_of, with_task_head
from subgraft.training.understanding.registry import record_task
from subgraft.training.understanding.zero_shot import zero_shot


def run(stage: FinetuneStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    corpus = Corpus.open(inputs["corpus"], context.cache)
    if isinstance(stage.objective, LabelledSettings | LabelledPairsSettings) and stage.objective.labels.zero_shot:
        return _evaluate_zero_shot(stage, stage.objective, Bundle.load(inputs["model"]), corpus, out)
    bundle = _load_model(stage, inputs, corpus)
    stage = with_named_precision(stage, bundle.model, context)
    settings = stage.training
    request = ObjectiveInputs(bundle, corpus, stage.languages, settings, stage.seed)
    requests = {
        name: request
        if languages == stage.languages
        else replace(request, corpus=Corpus.open(inputs[stage.corpus_of(name)], context.cache), languages=languages)
        for name, languages in stage.directions.items()
    }
    text = directions_text(stage.objective, requests, settings, stage.direction_exponent)
    if stage.text_objective is not None:
        text_request = replace(request, corpus=Corpus.open(inputs[stage.text_role], context.cache))
        if is_tagged(text_request.corpus.identity):
            require_tag(bundle.encoder, "back_translation.tag")
        text = with_text(text, stage.text_objective, text_request, settings)
    rare = _rare_rows(stage, bundle, inputs, text)
    outcome = _train(Finetuning(stage, text, context, rare), bundle, inputs, corpus)
    if is_writer():
        bundle.save(out)
    return {
        **write_curve(outcome, out),
        **(
            describe_dev_engine(settings, bundle.model)
            if stage.objective.needs_pairs and not stage.objective.understands
            else {}
        ),
        "cut_pairs": text.truncated,
        **({"pairs": text.sizes} if isinstance(text, Directions) else {}),
        **({"left_out": dict(text.left_out)} if isinstance(text, ConversationsOfTask) else {}),
        **({"rare_tokens": rare.sizes} if rare else {}),
        "parameters": bundle.model.num_parameters(),
        "trained_parameters": outcome.trained_parameters,
        "peak_memory": peak_memory(),
        "artifacts": [CURVE],
    }


def _train(finetuning: Finetuning, bundle: Bundle, inputs: Inputs, corpus: Corpus) -> Outcome:
    """Train the parameters that the stage selects."""
    stage, settings = finetuning.stage, finetuning.stage.training
    if stage.tie_to_sources:
        matrices = {side: load_matrix(inputs["model"], side) for side in stage.tie_to_sources}
        return finetuning.train_tied(bundle, Bundle.load_to_train(inputs["upstream"]), matrices)
    if stage.first_phase is not None:
        return finetuning.train_in_phases(_load_model(stage, inputs, corpus), bundle, stage.first_phase)
    if settings.train == "new-rows" and stage.new_rows is not None:
        upstream, rows = load_tokenizers(inputs["upstream"]), stage.new_rows
        tokens = {
            side: new_tokens(upstream[side], bundle.tokenizers[side], rows.copy_shared_tokens) for side in rows.sides
        }
        return finetuning.train_new_rows(bundle, tokens)
    if settings.train == "head":
        return finetuning.train_head(bundle)
    if settings.train == "adapters":
        return finetuning.train_adapters(bundle, settings.adapters or AdapterSettings())
    return finetuning.train(bundle, settings, finetuning.row_updates(bundle))


def _evaluate_zero_shot(
    stage: FinetuneStage,
    objective: LabelledSettings | LabelledPairsSettings,
    bundle: Bundle,
    corpus: Corpus,
    out: Path,
) -> Summary:
    """Save the model unchanged, with its zero-shot dev scores."""
    bundle.model.to(device())  # type: ignore[arg-type]
    result = zero_shot(bundle, objective, corpus, "dev", stage.training.dev_sentences)
    task, predictions = result.task, result.predictions
    scores = {name: score.value for name, score in task.scores(task.statistics(predictions)).items()}
    dev = {"score": scores[task.metrics[0]], **scores, "nats": result.nats}
    outcome = Outcome((CurvePoint(0, 0.0, 0.0, dev),), steps=0, best_step=0, seconds=0.0)
    if is_writer():
        bundle.save(out)
    summary = {**write_curve(outcome, out), "cut_pairs": result.truncated, "parameters": bundle.model.num_parameters()}
    return {**summary, "trained_parameters": 0, "peak_memory": peak_memory(), "artifacts": [CURVE]}


def _load_model(stage: FinetuneStage, inputs: Inputs, corpus: Corpus) -> Bundle:
    """Load the model, and add the chat template or the head that its task needs."""
    bundle = Bundle.load_to_train(inputs["model"])
    if isinstance(stage.objective, ConversationSettings):
        return with_template(bundle, stage.objective.chat)
    if isinstance(stage.objective, LabelledSettings | LabelledPairsSettings):
        if stage.keeps_head:
            record_task(bundle.model, stage.objective.task, task_of(stage.objective, corpus), stage.training.max_length)
            return bundle
        return with_task_head(bundle, stage.objective, corpus, stage.seed, stage.training.max_length)
    return bundle


def _rare_rows(stage: FinetuneStage, bundle: Bundle, inputs: Inputs, text: TaskText) -> RareRows | None:
    """The rows of new tokens that have a learning rate of their own or are regularised, if configured."""
    settings, rows, factor = stage.training.rare_tokens, stage.new_rows, stage.training.new_embedding_factor
    if rows is None or (settings is None and factor == 1.0):
        return None
    upstream = load_tokenizers(inputs["upstream"])
    return RareRows.find(settings, factor, rows.sides, rows.copy_shared_tokens, upstream, bundle.tokenizers, text.texts)


@dataclass(frozen=True)
class Finetuning:
    """A finetuning of a model on this data."""

    stage: FinetuneStage
    data: TaskText
    context: Context
    rare: RareRows | None

    def row_updates(self, bundle: Bundle) -> list[RowUpdates]:
        """The updates of rare rows; call this before training changes the rows."""
        return self.rare.updates(bundle.model) if self.rare else []

    def train(
        self,
        bundle: Bundle,
        settings: FinetuneSettings,
        row_updates: Sequence[RowUpdates],
        part: str = WHOLE,
        steps_before: int = 0,
    ) -> Outcome:
        loss, scores = self.data.loss(bundle), self.data.dev_scores(bundle)
        if self.stage.drift:
            scores = with_drift(scores, bundle.model)
        tables = list(tables_of(bundle.model, self.stage.embedding_learning_rate_sides).values())
        return self._fit(loss, settings, scores, tables, row_updates, part, steps_before, losses_of(bundle))

    def train_tied(self, bundle: Bundle, upstream: Bundle, matrices: Mapping[SideName, MixingMatrix]) -> Outcome:
        """Train new rows as mixtures of the rows from which they were initialised."""
        loss = TiedToSources(self.data.loss(bundle), upstream.model, matrices)
        return self._train_outside(bundle, loss, loss.rests)

    def train_new_rows(self, bundle: Bundle, tokens: Mapping[SideName, np.ndarray]) -> Outcome:
        """Train only the rows of some tokens of each side."""
        loss = NewRowsOnly(self.data.loss(bundle), tokens)
        return self._train_outside(bundle, loss, loss.trained)

    def _train_outside(self, bundle: Bundle, loss: TiedToSources | NewRowsOnly, tables: Sequence[Tensor]) -> Outcome:
        """Train rows that the loss holds, and write them to the model's embeddings for dev scores and at the end."""
        scores = self.data.dev_scores(bundle)

        def evaluate() -> dict[str, float]:
            loss.write()
            return scores()

        row_updates = self.rare.updates(bundle.model, loss.place_of) if self.rare else []
        outcome = self._fit(loss, self.stage.training, evaluate, tables, row_updates)
        loss.write()
        return outcome

    def train_adapters(self, bundle: Bundle, settings: AdapterSettings) -> Outcome:
        """Train only adapters, and the head of a labelling task; finally merge the adapters into the weights."""
        head = head_parameters(bundle.model)
        adapters = Adapters(bundle.model, settings, self.stage.seed)
        for parameter in head:
            parameter.requires_grad_(True)
        outcome = self.train(bundle, self.stage.training, [])
        adapters.merge()
        return outcome

    def train_head(self, bundle: Bundle) -> Outcome:
        """Train only the head; the pretrained body and its vocabulary are frozen."""
        bundle.model.requires_grad_(False)
        for parameter in head_parameters(bundle.model):
            parameter.requires_grad_(True)
        return self.train(bundle, self.stage.training, [])

    def train_in_phases(self, frozen: Bundle, bundle: Bundle, phase: FirstPhase) -> Outcome:
        """Train some parameters first, in the copy `frozen`, because an engine prepares a model for what it trains."""
        first_settings, second_settings = split_training(self.stage.training, self.data, self.stage.seed, phase.share)
        first_updates, second_updates = self.row_updates(frozen), self.row_updates(bundle)
        trained = first_phase_parameters(frozen, phase.sides)
        train_only(frozen, trained)
        first = self.train(frozen, first_settings, first_updates, "tables")
        copy_parameters(trained, first_phase_parameters(bundle, phase.sides))
        return join_outcomes(first, self.train(bundle, second_settings, second_updates, steps_before=first.steps))

    def _fit(
        self,
        loss: nn.Module,
        settings: FinetuneSettings,
        evaluate: Callable[[], dict[str, float]],
        tables: Sequence[Tensor],
        row_updates: Sequence[RowUpdates],
        part: str = WHOLE,
        steps_before: int = 0,
        losses: Sequence[str] = ("loss",),
    ) -> Outcome:
        return run_training(
            loss,
            dict.fromkeys(losses, 1.0),
            self.data,
            settings,
            self.context,
            group=self.stage.group,
            seed=self.stage.seed,
            evaluate=evaluate,
            select=SELECTIONS[self.stage.training.select or "bleu"],
            part=part,
            steps_before=steps_before,
            tables=tables,
            row_updates=row_updates,
        )


def run_multitask(stage: MultitaskStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    """Train on several tasks at once; the output is the own task's model, with the other heads in a separate file."""
    bundle = Bundle.load_to_train(inputs["model"])
    stage = with_named_precision(stage, bundle.model, context)
    settings = stage.training
    tasks = dict[str, LabelledSettings | LabelledPairsSettings]()
    for name, task_stage in stage.by_task.items():
        assert isinstance(task_stage.objective, LabelledSettings | LabelledPairsSettings)  # validation requires labels
        tasks[name] = task_stage.objective
    corpora = {name: Corpus.open(inputs[stage.corpus_of(name)], context.cache) for name in tasks}
    pairs = {name: (tasks[name], corpora[name]) for name in tasks}
    bundles = with_task_heads(bundle, pairs, stage.seed, settings.max_length)
    examples = dict[str, LabelledExamples]()
    for name, task_stage in stage.by_task.items():
        request = ObjectiveInputs(bundles[name], corpora[name], stage.languages, task_stage.training, stage.seed)
        examples[name] = LabelledExamples(tasks[name], request, task_stage.training)
    data = TasksAtOnce(examples)
    loss = data.loss(bundles)
    outcome = run_training(
        loss,
        loss.weights,
        data,
        settings,
        context,
        group=stage.group,
        seed=stage.seed,
        evaluate=data.dev_scores(bundles),
        select=SELECTIONS[settings.select or "score"],
    )
    if is_writer():
        bundles[OWN].save(out)
        save_heads(bundles, out)
    dev_scores = next(point.values for point in outcome.curve if point.step == outcome.best_step)
    return {
        **write_curve(outcome, out),
        "dev": dev_scores,
        "examples": {name: len(labelled.lengths) for name, labelled in examples.items()},
        "cut_pairs": data.truncated,
        "parameters": bundles[OWN].model.num_parameters(),
        "trained_parameters": outcome.trained_parameters,
        "peak_memory": peak_memory(),
        "artifacts": [CURVE, HEADS],
    }
