"""The inputs of an experiment: corpora, monolingual text, and a checkpoint."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.base.files import file_digest
from subgraft.base.json_io import object_in
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.experiment.multitask import FurtherTask
from subgraft.config.settings_base import SideName, Split, TextSide
from subgraft.data.sources.registry import resolve
from subgraft.data.sources.side_text import SideText, named_sources, side_texts
from subgraft.data.tasks.question_generation import pairing
from subgraft.data.text.cleaning import dropped_in_words, near_copies_in_words
from subgraft.data.text.fields import texts
from subgraft.data.text.languages import code_token
from subgraft.experiments.corpus_needs import CorpusNeeds
from subgraft.experiments.preflight import require_checkpoint
from subgraft.modeling.hub import HUB_FILES, adapter_base, pinned, with_revision
from subgraft.modeling.tokenizers import DRAWN_LIKE_CODES, load_tokenizers, with_languages
from subgraft.modeling.weights import is_half
from subgraft.orchestration.store.record import RECORD
from subgraft.orchestration.store.step import Step
from subgraft.pipeline.stages.corpora import CorpusStage, TextStage
from subgraft.pipeline.stages.models import CheckpointStage
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.labelled import LabelledPairsSettings
from subgraft.training.objectives.registry import task_objective

if TYPE_CHECKING:
    from subgraft.orchestration.store.store import Store


class InputSteps:
    """The steps that import data and models."""

    def __init__(self, experiment: Experiment, base: Path) -> None:
        """`base` is the folder of the configuration, to which its paths are relative."""
        self.experiment = experiment
        self.base = base.absolute()

    def path(self, path: str) -> Path:
        """A path of the configuration."""
        return self.base / path

    def locate_model(self, name: str) -> str:
        """A model of the configuration: the path of a directory relative to it, or else a hub id."""
        path = self.path(name)
        return str(path) if path.is_dir() else name

    @cached_property
    def upstream_corpus(self) -> Step[CorpusStage]:
        """The upstream corpus. Only for steps that read it: with a checkpoint there may be none."""
        upstream = self.experiment.upstream
        assert upstream.corpus is not None  # validation requires it
        needs_dev = any(objective.needs_dev for objective in upstream.objectives) and self.experiment.pretrains
        splits: tuple[Split, ...] = ("train", "dev") if needs_dev else ("train",)
        purpose = ""
        if self.experiment.evaluation.upstream_sentences is not None:
            splits, purpose = (*splits, "test"), "evaluation.upstream_sentences"
        languages = None if upstream.languages == "all" else self.experiment.upstream_languages
        annotated = ((objective.kind, objective.needs_annotation) for objective in upstream.objectives)
        needs = CorpusNeeds(
            splits,
            pairs=any(objective.needs_pairs for objective in upstream.objectives),
            purpose=purpose,
            annotations={str(objective): str(kind) for objective, kind in annotated if kind},
            conversations=any(objective.needs_conversations for objective in upstream.objectives),
            documented=next((objective.kind for objective in upstream.objectives if objective.needs_documents), None),
        )
        return self._corpus(upstream.corpus, languages, needs)

    @property
    def generator_corpus(self) -> Step[CorpusStage]:
        """The upstream text of generators; without a corpus of it, the text that a language model continues."""
        return self.upstream_corpus if self.experiment.upstream.corpus is not None else self.downstream_corpus

    @cached_property
    def entities(self) -> Step | None:
        """Embeddings of the entities that the upstream model reads, if it reads any."""
        settings = self.experiment.upstream.entities
        return None if settings is None else settings.step(self.base, self.experiment.upstream.seed)

    @cached_property
    def downstream_corpus(self) -> Step[CorpusStage]:
        experiment, pairs = self.experiment, self.experiment.finetuned_on.needs_pairs
        needs = CorpusNeeds(
            ("train", "dev", "test"),
            pairs=pairs,
            one_text=not pairs,
            source=task_objective(experiment.task).source,
            conversations=experiment.finetuned_on.kind == "chat",
            task=experiment.finetuned_on,
            documented="document-translation" if experiment.evaluation.documents else None,
        )
        return self._corpus(experiment.downstream.corpus, experiment.languages, needs)

    @cached_property
    def direction_corpora(self) -> dict[str, Step[CorpusStage]]:
        """The corpus of each direction by its name, the task's first; empty without directions.

        A direction that no system is finetuned on needs a test split alone.
        """
        experiment = self.experiment
        trained = {each.name for system in experiment.systems for each in experiment.trained_on(system)}
        corpora = {each.name: self.downstream_corpus for each in experiment.directions[:1]}
        for each in experiment.directions[1:]:
            splits: tuple[Split, ...] = ("train", "dev", "test") if each.train or each.name in trained else ("test",)
            corpora[each.name] = self._corpus(each.corpus, each.languages, CorpusNeeds(splits, pairs=True))
        return corpora

    @property
    def training_corpora(self) -> dict[str, Step]:
        """The inputs with all text that the task's vocabularies are learnt from.

        `corpus`, and one for each further direction with `train: true`. The other directions stay unseen.
        """
        further = [each for each in self.experiment.directions[1:] if each.train]
        corpora = self.direction_corpora if further else {}
        return {"corpus": self.downstream_corpus, **{f"corpus/{each.name}": corpora[each.name] for each in further}}

    def corpus_of(self, further: FurtherTask) -> Step[CorpusStage]:
        """The corpus of a task that is learnt together with the experiment's own."""
        objective = self.experiment.learnt_with(further)
        pairs = objective.needs_pairs
        needs = CorpusNeeds(("train", "dev"), pairs=pairs, one_text=not pairs, task=objective)
        return self._corpus(further.corpus, self.experiment.languages, needs)

    def pairs_of(self, corpus: str) -> Step[CorpusStage]:
        """The labelled pairs of a pretraining objective."""
        needs = CorpusNeeds(("train",), pairs=True, task=LabelledPairsSettings(task="pair-classification"))
        return self._corpus(corpus, self.experiment.upstream_languages, needs)

    @cached_property
    def text(self) -> Step[TextStage] | None:
        """Monolingual text of the task's domain, if there is any."""
        return text_step(self.experiment, self.base, self.downstream_corpus)

    def text_on(self, *sides: TextSide) -> dict[str, Step]:
        """The input `text` of a step about these sides; empty if there is no such text."""
        return {"text": self.text} if self.text and any(side in self.text.stage.sides for side in sides) else {}

    def text_of(self, side: SideName) -> TextSide:
        """The text of the task that a side of the model reads or writes; a task of one text has only a source."""
        return "target" if side == "decoder" and self.experiment.finetuned_on.needs_pairs else "source"

    @cached_property
    def checkpoint(self) -> Step[CheckpointStage]:
        upstream = self.experiment.upstream
        name = upstream.checkpoint or ""
        model = with_revision(self.locate_model(name), upstream.revision)
        directory = require_checkpoint(model, self.experiment)
        body = self.experiment.starts_from_body
        next_sentence = upstream.continue_pretraining and any(each.predicts_next for each in upstream.objectives)
        step = from_checkpoint("checkpoint", model, directory, body=body, next_sentence=next_sentence)
        new_languages = dict(upstream.new_languages)
        seed = upstream.seed if DRAWN_LIKE_CODES in new_languages.values() else 0
        return replace(step, stage=step.stage.model_copy(update={"new_languages": new_languages, "seed": seed}))

    @property
    def checkpoint_tokenizers(self) -> dict[SideName, Tokenizer]:
        """The vocabularies of the checkpoint as it is imported: with the codes of new languages."""
        return with_languages(load_tokenizers(self.checkpoint.stage.model), self.experiment.upstream.new_languages)

    @property
    def language_codes(self) -> tuple[str, ...]:
        """Language codes of all upstream and downstream text, and of every direction, without duplicates."""
        task, texts = self.experiment.languages, self.upstream_corpus.stage.texts
        pair = self.experiment.upstream_languages
        upstream = (pair.source, pair.target) if texts is None else tuple(texts.values())
        direction_codes = [
            code for direction in self.experiment.directions for code in (direction.source, direction.target)
        ]
        return tuple(
            dict.fromkeys(code_token(code) for code in (*upstream, task.source, task.target, *direction_codes))
        )

    def _corpus(self, name: str, languages: Languages | None, needs: CorpusNeeds) -> Step[CorpusStage]:
        """The step that imports a corpus, which is checked. languages: of the pair to read; None reads every text."""
        experiment = self.experiment
        corpus = experiment.corpora[name]
        resolved = resolve(corpus, languages, self.base, pairing=pairing(experiment.question_generation))
        needs.check(resolved, name)
        stage = CorpusStage(
            identity=dict(resolved.identity()),
            languages=languages,
            texts=None if languages else {text.name: str(text.language) for text in texts(resolved.fields)},
            cleaning=experiment.cleaning,
            questions=experiment.question_generation if corpus.has_questions else None,
            source=corpus,
            base=self.base,
        )
        return Step(stage, f"corpus {name}")


def from_checkpoint(
    role: str, model: str, directory: Path, *, body: bool = False, next_sentence: bool = False
) -> Step[CheckpointStage]:
    """An imported checkpoint: a user's directory, or a model of the hub at the commit of its snapshot.

    The step's name has its role in the experiment, and the name of the step that made the model if a record in the
    directory has it, else the directory's own.

    body: whether its head is left out.  next_sentence: whether a head that only its weights show is kept.
    """
    identity = pinned(model, directory)
    digest = checkpoint_digest(directory) if Path(model).is_dir() else identity
    if (base := adapter_base(directory, model, HUB_FILES)) is not None:
        digest = f"{digest} on {checkpoint_digest(base)}"
    half = is_half(base or directory)
    stage = CheckpointStage(digest=digest, model=identity, body=body, next_sentence=next_sentence, half=half)
    made_by = object_in(directory / RECORD).get("name")
    name = made_by if isinstance(made_by, str) and made_by else directory.name if Path(model).is_dir() else model
    return Step(stage, f"{role} {name}")


def checkpoint_digest(directory: Path) -> str:
    """SHA-256 hex of the names and contents of a checkpoint's files."""
    digest = hashlib.sha256()
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(directory).as_posix()} {file_digest(path)}\n".encode())
    return digest.hexdigest()


def text_step(experiment: Experiment, base: Path, pairs: Step) -> Step[TextStage] | None:
    """The text that `downstream.text` names; None if it names none. Local files are read completely.

    pairs: the step that makes the task's corpus.  Raises UserError for files that are missing or cannot be read.
    """
    settings = experiment.downstream.text
    if settings is None:
        return None
    sources = {
        side: tuple(
            source
            for name in getattr(settings, side)
            for source in named_sources(name, experiment.corpora, base, f"downstream.text.{side}")
        )
        for side in settings.sides
    }
    questions = any(source.has_questions for side_sources in sources.values() for source in side_sources)
    stage = TextStage(
        identities={},
        languages=experiment.languages,
        cleaning=experiment.cleaning,
        questions=experiment.question_generation if questions else None,
        sources=sources,
        base=base,
    )
    by_side = _texts(stage)
    for part in (part for parts in by_side.values() for part in parts if part.source.on_disk):
        part.size()
    identities = {side: tuple(dict(part.source.identity()) for part in parts) for side, parts in by_side.items()}
    identified = stage.model_copy(update={"identities": identities})
    return Step(identified, f"monolingual data for {experiment.downstream.corpus}", {"corpus": pairs})


def _texts(stage: TextStage) -> dict[TextSide, list[SideText]]:
    return side_texts(stage.sources, stage.languages, stage.base, pairing=pairing(stage.questions))


def describe_text(store: Store, step: Step[TextStage]) -> list[str]:
    """A line for each side: the amount of text before cleaning, or after it if the step has run."""
    record = store.find(step)
    if record is None:
        local = {side: [part for part in parts if part.source.on_disk] for side, parts in _texts(step.stage).items()}
        sizes = {side: sum(part.size() for part in parts) for side, parts in local.items() if parts}
        return [f"{side} text in addition to the pairs: {size:,} lines before cleaning" for side, size in sizes.items()]
    lines = list[str]()
    for side in step.stage.sides:
        counts = record.summary[side]
        remaining = f"{counts['kept']:,} of {counts['read']:,} lines ({counts['characters']:,} characters)"
        dropped = ", ".join(f"{count:,} {reason}" for reason, count in dropped_in_words(counts).items())
        near = near_copies_in_words(counts.get("near_copies", 0))
        remarks = [*([f"dropped: {dropped}"] if dropped else []), *([near] if near else [])]
        lines.append("; ".join([f"{side} text in addition to the pairs: {remaining}", *remarks]))
    return lines
