"""All stages."""

from __future__ import annotations

from subgraft.base.entries import imported
from subgraft.embeddings.methods.network import ImportedNetworkStage
from subgraft.embeddings.methods.registry import METHODS
from subgraft.pipeline.measurements.registry import ENTRIES
from subgraft.pipeline.stages.corpora import BackTranslatedStage, CopiedStage, CorpusStage, ReversedStage, TextStage
from subgraft.pipeline.stages.evaluation import EvaluateStage
from subgraft.pipeline.stages.models import (
    AssembleStage,
    BuildStage,
    CheckpointStage,
    SavedWeightsStage,
    SourceEncoderStage,
    TransferStage,
    UntieStage,
)
from subgraft.pipeline.stages.report import ReportStage
from subgraft.pipeline.stages.training import (
    EmbeddingWarmupStage,
    FinetuneStage,
    MultitaskStage,
    PretrainStage,
    UnsupervisedStage,
)
from subgraft.pipeline.stages.vocabularies import (
    AdaptedVocabularyStage,
    GapStage,
    ImportedVocabularyStage,
    StaticEmbeddingsStage,
    VocabularyStage,
)
from subgraft.training.stage import Stage

# Those of contrib.
CONTRIB = (
    "context.stage:ContextStage",
    "conditioning.stage:ConditionStage",
    "ernie_thu.stages:EntityStage",
    "allocation.stages:CurveStage",
    "allocation.stages:AllocationStage",
    "allocation.stages:JointVocabularyStage",
    "allocation.stages:CapacityStage",
    "allocation.stages:AllocationReportStage",
)
STAGES: tuple[type[Stage], ...] = (
    CorpusStage,
    TextStage,
    CopiedStage,
    ReversedStage,
    BackTranslatedStage,
    VocabularyStage,
    AdaptedVocabularyStage,
    GapStage,
    CheckpointStage,
    BuildStage,
    PretrainStage,
    SavedWeightsStage,
    AssembleStage,
    *dict.fromkeys(method.trains for method in METHODS.values() if method.trains),
    ImportedNetworkStage,
    StaticEmbeddingsStage,
    *(method.learning for method in METHODS.values() if method.learning),
    UntieStage,
    TransferStage,
    EmbeddingWarmupStage,
    SourceEncoderStage,
    MultitaskStage,
    FinetuneStage,
    UnsupervisedStage,
    EvaluateStage,
    *(measurement.stage for measurement in ENTRIES if measurement.stage),
    ImportedVocabularyStage,
    *(imported(f"subgraft.contrib.{stage}") for stage in CONTRIB),
    ReportStage,
)
