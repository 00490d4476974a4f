"""The data of a report as plain records; renderers read nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from subgraft.config.settings_base import MetricName, SideName
from subgraft.config.training import SelectName
from subgraft.evaluation.metrics.calibration import Calibration
from subgraft.evaluation.metrics.scores import METRICS, Score
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.subwords.vocabulary.lost_text import LostText
from subgraft.subwords.vocabulary.spelling import Spelling

R = TypeVar("R")
Role = Literal["upstream", "downstream"]


@dataclass(frozen=True)
class CurvePoint:
    """One evaluation on dev during finetuning; step 0 is the model as it starts.

    seconds: since the finetuning started.  references_left_out: longer than the model takes.  drift: of a language
    model's feed-forward weights since step 0.  score, nats: of predicted labels, by the task's main metric, and the
    mean loss; such a model has no bits per character.
    """

    step: int
    epoch: float
    seconds: float
    dev_bits_per_character: float | None
    dev_bleu: float | None = None
    dev_chrf: float | None = None
    references_left_out: int = 0
    drift: float | None = None
    score: float | None = None
    nats: float | None = None


@dataclass(frozen=True)
class SelectedScore:
    """The dev score of the selected weights, by which systems are compared before the test set is."""

    name: str
    value: float
    lower_is_better: bool = False

    @property
    def signed(self) -> float:
        """The value, negated if lower is better, so that a higher value is always better."""
        return -self.value if self.lower_is_better else self.value


@dataclass(frozen=True)
class Cost:
    """Seconds spent to make one model of a system, by purpose.

    generator: for new rows, by a generator, static embeddings or distillation; and for back-translated text, with the
    training of the reverse model.
    """

    upstream: float
    generator: float
    finetuning: float


@dataclass(frozen=True)
class TransferSummary:
    """How a system got its vocabulary. `fallback` counts new tokens without similar ones, by their initialisation."""

    initialiser: str
    sides: tuple[str, ...]
    seen: int
    unseen: int
    fallback: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SystemResult:
    """One system of the comparison under one seed: its test outputs, scores and costs.

    hypotheses: outputs for the report's sources, in order.
    scores: by metric name ("BLEU", "TER"), see `metrics.scores.corpus_scores`.
    statistics: by metric name, see `metrics.sentence_statistics` [sentences, counts]; taking them takes long.
    curve: dev evaluations by rising step.  selected_step: the step of the selected weights, from which all figures are.
    dev: their dev score.
    on_several_tasks: whether the weights of step 0 were trained on the task already, together with others.
    tokens_per_sentence: mean target length of the test references in the system's vocabulary, end of sentence included.
    characters_per_token: mean length of those tokens, the end of sentence left out.
    sentences_per_second: median, generating at the batch size that `ReportData.speed_batch_size` names.
    cut_outputs: how many hypotheses reached the length limit.
    trained_parameters, peak_memory: of the finetuning, the second in bytes on one worker; None if unknown.
    transfer: None for a system that keeps the upstream vocabulary.
    family: a name that the systems of a sweep share; they differ in vocabulary_size and generator_steps alone.
    variant: the part of the family's name that is not about the initialiser.
    vocabulary_size: tokens of the decoder's vocabulary.  generator_steps: its generator was trained for, 0 for `avg`,
        from which every generator is initialised; None without one.
    measurements: records of the measurements that were taken, each of a class of its own (see `measured`).
    load, cores: of the machine while speed was measured (`evaluation.metrics.speed`); None if unknown.
    spelled: whether a test sentence [n] has no unknown token of the system's vocabularies in source or reference.
    trained_on: the directions of the finetuning, in an experiment with directions.
    output_language: the share of hypotheses in each language, in an evaluation of several; the greatest first.
    """

    name: str
    seed: int
    hypotheses: tuple[str, ...]
    scores: Mapping[str, Score]
    statistics: Mapping[str, FloatArray] = field(compare=False, repr=False)
    curve: tuple[CurvePoint, ...]
    selected_step: int
    dev: SelectedScore
    tokens_per_sentence: float
    characters_per_token: float
    sentences_per_second: float
    parameters: int
    cost: Cost
    cut_outputs: int = 0
    trained_parameters: int | None = None
    peak_memory: int | None = None
    transfer: TransferSummary | None = None
    family: str = ""
    variant: str = ""
    vocabulary_size: int | None = None
    generator_steps: int | None = None
    pretraining_step: int | None = None
    measurements: tuple[object, ...] = ()
    spelled: NDArray[np.bool_] | None = field(default=None, compare=False, repr=False)
    load: float | None = None
    cores: int | None = None
    on_several_tasks: bool = False
    trained_on: tuple[str, ...] = ()
    output_language: Mapping[str, float] = field(default_factory=dict)

    @property
    def untrained(self) -> bool:
        """Whether no training on the task made the weights."""
        return self.selected_step == 0 and not self.on_several_tasks

    def measured(self, record: type[R]) -> R | None:
        """The record of this class; None if that was not measured."""
        return next((each for each in self.measurements if isinstance(each, record)), None)

    @property
    def inference_ece(self) -> float | None:
        """The calibration error of predictions, 0 to 1; None where it was not measured."""
        calibration = self.measured(Calibration)
        return calibration.error if calibration else None


@dataclass(frozen=True)
class CorpusFacts:
    """A corpus: where it is from, segments per split after cleaning, and training segments dropped by reason.

    near_copies: dev and test segments with near copies in the training text.
    """

    role: Role
    name: str
    generated: bool
    segments: Mapping[str, int]
    dropped: Mapping[str, int] = field(default_factory=dict)
    near_copies: int = 0


@dataclass(frozen=True)
class TextFacts:
    """Monolingual text of one side: lines read and retained, characters retained, lines dropped by reason.

    near_copies: dev and test segments with near copies in this text.
    """

    side: str
    language: str
    read: int
    retained: int
    characters: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    near_copies: int = 0


@dataclass(frozen=True)
class VocabularyFacts:
    """A vocabulary of one side; `fingerprint` is the sha256 of its content."""

    role: Role
    kind: str
    size: int
    fingerprint: str


@dataclass(frozen=True)
class SegmentationExample:
    """A frequent word, its segmentation by each vocabulary, and its count in the measured text."""

    word: str
    count: int
    upstream: tuple[str, ...]
    downstream: tuple[str, ...]


@dataclass(frozen=True)
class SpelledText:
    """A vocabulary on one side of a split. scores: of decode(encode(text)) against the text; of the test set alone."""

    role: Role
    side: SideName
    split: str
    counts: Spelling
    scores: Mapping[str, Score] = field(default_factory=dict)


@dataclass(frozen=True)
class SubwordGap:
    """How the upstream and the downstream vocabulary segment the downstream target text.

    seen, unseen: subwords of the downstream vocabulary that the upstream one has and lacks.
    text: what the tokens per sentence were measured on, in words ("dev, French side").
    spelling: what each vocabulary can spell.  unknown_tokens: the most frequent characters of that text that the
        upstream vocabulary lacks.
    lost: by side, lines of the test set that the upstream vocabulary gives back and the downstream one does not.
    """

    seen: int
    unseen: int
    text: str
    upstream_tokens_per_sentence: float
    downstream_tokens_per_sentence: float
    examples: tuple[SegmentationExample, ...] = ()
    spelling: tuple[SpelledText, ...] = ()
    unknown_tokens: tuple[str, ...] = ()
    lost: Mapping[SideName, LostText] = field(default_factory=dict)


@dataclass(frozen=True)
class StageSeconds:
    """One executed step."""

    stage: str
    seconds: float


@dataclass(frozen=True)
class ProvenanceFacts:
    """The data needed to repeat an experiment. `settings` are flat ("finetune.batch_size": "4000")."""

    settings: Mapping[str, str]
    versions: Mapping[str, str]
    git_commit: str | None
    device: str


@dataclass(frozen=True)
class Command:
    """A command for the reader, and its purpose."""

    purpose: str
    line: str


@dataclass(frozen=True, eq=False)
class ReportData:
    """A whole comparison. Compared by identity: `summary.summarise` remembers its result per object.

    languages: source and target.
    model: the model in words ("Transformer, 6 + 6 layers of width 512").
    sources, references: the test set, n segments each.
    over_segmented: words of the references that the upstream vocabulary segments into three pieces or more, with the
        pieces (see `words.over_segmented_words`).
    baseline: name of the system that the others are compared with, or None.
    rows: every system under every seed, in the order in which they are to be shown.
    select: the criterion that selected a finetuning's weights.
    text: monolingual text in addition to the task's pairs, by side.
    prompts: what models that continue text were prompted with, in words.
    unit: the segments that are scored and resampled, in words.
    characters_per_step: how many characters an update of the finetuning reads; None where its batches are of tokens.
    command: the command that made it; empty if Python did.
    """

    title: str
    languages: tuple[str, str]
    corpora: tuple[CorpusFacts, ...]
    vocabularies: tuple[VocabularyFacts, ...]
    gap: SubwordGap
    model: str
    sources: tuple[str, ...]
    references: tuple[str, ...]
    over_segmented: Mapping[str, tuple[str, ...]]
    baseline: str | None
    systems: tuple[SystemResult, ...]
    stages: tuple[StageSeconds, ...]
    provenance: ProvenanceFacts
    commands: tuple[Command, ...] = ()
    speed_batch_size: int = 32
    bootstrap_samples: int = 1000
    bootstrap_seed: int = 1
    select: SelectName = "bleu"
    text: tuple[TextFacts, ...] = ()
    prompts: str = ""
    unit: str = "sentences"
    characters_per_step: int | None = None
    command: str = ""

    @property
    def generated(self) -> bool:
        """Whether any corpus is the built-in one."""
        return any(corpus.generated for corpus in self.corpora)

    @property
    def metrics(self) -> tuple[MetricName, ...]:
        """The metrics that all systems were scored with, without a user's own."""
        return tuple(metric for metric in METRICS if all(metric in system.statistics for system in self.systems))

    @property
    def plugin_metrics(self) -> tuple[str, ...]:
        """Names of plugin metrics that all systems were scored with."""
        names_by_system = [[name for name in system.statistics if name not in METRICS] for system in self.systems]
        return (
            tuple(name for name in names_by_system[0] if all(name in names for names in names_by_system))
            if names_by_system
            else ()
        )

    @property
    def spelled_by_all(self) -> NDArray[np.bool_] | None:
        """Whether every system can spell source and reference of each test sentence; None if not measured."""
        masks = [system.spelled for system in self.systems if system.spelled is not None]
        return np.logical_and.reduce(masks) if masks and len(masks) == len(self.systems) else None

    @property
    def system_names(self) -> tuple[str, ...]:
        """System names in order of first appearance."""
        return tuple(dict.fromkeys(system.name for system in self.systems))

    @property
    def seeds(self) -> tuple[int, ...]:
        """All seeds, rising."""
        return tuple(sorted({system.seed for system in self.systems}))

    def results(self, name: str) -> tuple[SystemResult, ...]:
        """The results of one system, by rising seed."""
        return tuple(sorted((system for system in self.systems if system.name == name), key=lambda system: system.seed))

    def measured(self, record: type[R]) -> dict[str, list[R]]:
        """By system, its records of this class under all seeds; without the systems that some seed lacks it of."""
        by_system = {name: [result.measured(record) for result in self.results(name)] for name in self.system_names}
        complete = {name: [each for each in seeds if each is not None] for name, seeds in by_system.items()}
        return {name: seeds for name, seeds in complete.items() if len(seeds) == len(by_system[name])}
