"""The stages of an experiment: one file per stage, which reads artifacts, calls one wing, and writes one artifact.

`STAGES` lists all stages; each imports its libraries only when it runs. Increase a stage's revision when its result
changes for the same recipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from subgraft.pipeline.recipes.allocations import (
    AllocationRecipe,
    AllocationReportRecipe,
    CapacityRecipe,
    CurveRecipe,
    JointVocabularyRecipe,
)
from subgraft.pipeline.recipes.corpora import (
    BackTranslatedRecipe,
    CopiedRecipe,
    CorpusRecipe,
    ReversedRecipe,
    TextRecipe,
)
from subgraft.pipeline.recipes.embeddings import (
    GeneratorRecipe,
    ImportedNetworkRecipe,
    LikelihoodMatchingRecipe,
    NetworkRecipe,
    TokenDistillationRecipe,
    VocadtRecipe,
)
from subgraft.pipeline.recipes.evaluation import EvaluateRecipe, IntrinsicRecipe, LikelihoodRecipe, ReportRecipe
from subgraft.pipeline.recipes.models import (
    AssembleRecipe,
    BuildRecipe,
    CheckpointRecipe,
    ConditionRecipe,
    TransferRecipe,
)
from subgraft.pipeline.recipes.recipe import Recipe
from subgraft.pipeline.recipes.training import EmbeddingWarmupRecipe, FinetuneRecipe, PretrainRecipe
from subgraft.pipeline.recipes.vocabularies import (
    AdaptedVocabularyRecipe,
    GapRecipe,
    ImportedVocabularyRecipe,
    StaticEmbeddingsRecipe,
    VocabularyRecipe,
)
from subgraft.pipeline.stages.stage import Inputs, Stage, StageFunction

if TYPE_CHECKING:
    from subgraft.training.context import Context, Json


@dataclass(frozen=True)
class _Function:
    """A stage's function, MODULE:NAME in this folder; the module is imported when the function is called."""

    path: str

    def __call__(self, recipe: Recipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
        function: StageFunction = resolve_name(f"{__name__}.{self.path}")
        return function(recipe, inputs, out, context)


CORPUS = Stage("corpus", 1, _Function("corpora:import_corpus"), CorpusRecipe)
TEXT = Stage("text", 1, _Function("corpora:import_text"), TextRecipe)
COPIED = Stage("copied", 1, _Function("corpora:copy_text"), CopiedRecipe)
REVERSED = Stage("reversed", 1, _Function("corpora:reverse_corpus"), ReversedRecipe)
BACK_TRANSLATED = Stage(
    "back-translated", 1, _Function("back_translation:run"), BackTranslatedRecipe, distributed=True, accelerated=True
)
VOCABULARY = Stage("vocabulary", 1, _Function("vocabularies:learn_vocabulary"), VocabularyRecipe)
ADAPTED_VOCABULARY = Stage("adapted-vocabulary", 1, _Function("vocabularies:adapt_vocabulary"), AdaptedVocabularyRecipe)
GAP = Stage("gap", 1, _Function("vocabularies:measure_gap"), GapRecipe)
CHECKPOINT = Stage("checkpoint", 1, _Function("models:import_checkpoint"), CheckpointRecipe)
BUILD = Stage("build", 1, _Function("models:build_model"), BuildRecipe)
PRETRAIN = Stage("pretrain", 1, _Function("pretrain:run"), PretrainRecipe, distributed=True, accelerated=True)
ASSEMBLE = Stage("assemble", 1, _Function("models:assemble_model"), AssembleRecipe)
GENERATOR = Stage(
    "generator", 1, _Function("generators:train_generator"), GeneratorRecipe, distributed=True, accelerated=True
)
NETWORK = Stage("network", 1, _Function("generators:train_network"), NetworkRecipe, distributed=True, accelerated=True)
IMPORTED_NETWORK = Stage("given-network", 1, _Function("generators:import_network"), ImportedNetworkRecipe)
STATIC = Stage("static", 1, _Function("static_embeddings:train_static_embeddings"), StaticEmbeddingsRecipe)
DISTILLATION = Stage(
    "distillation", 1, _Function("token_distillation:run"), TokenDistillationRecipe, distributed=True, accelerated=True
)
MATCHING = Stage(
    "matching",
    1,
    _Function("likelihood_matching:match_likelihood"),
    LikelihoodMatchingRecipe,
    distributed=True,
    accelerated=True,
)
VOCADT = Stage("vocadt", 1, _Function("vocadt:run"), VocadtRecipe, distributed=True, accelerated=True)
TRANSFER = Stage("transfer", 1, _Function("transfer:run_transfer"), TransferRecipe)
EMBEDDING_WARMUP = Stage(
    "embedding-warmup", 1, _Function("finetune:run"), EmbeddingWarmupRecipe, distributed=True, accelerated=True
)
CONDITION = Stage("condition", 1, _Function("models:condition_model"), ConditionRecipe)
INTRINSIC = Stage("intrinsic", 1, _Function("transfer:measure_intrinsic"), IntrinsicRecipe)
FINETUNE = Stage("finetune", 1, _Function("finetune:run"), FinetuneRecipe, distributed=True, accelerated=True)
EVALUATE = Stage("evaluate", 1, _Function("evaluate:evaluate_model"), EvaluateRecipe, accelerated=True)
LIKELIHOOD = Stage("likelihood", 1, _Function("likelihood:measure_likelihood"), LikelihoodRecipe, accelerated=True)
IMPORTED_VOCABULARY = Stage(
    "given-vocabulary", 1, _Function("vocabularies:import_vocabulary"), ImportedVocabularyRecipe
)
CURVE = Stage("curve", 1, _Function("allocations:measure_curve"), CurveRecipe)
ALLOCATION = Stage("allocation", 1, _Function("allocations:allocate"), AllocationRecipe)
JOINT_VOCABULARY = Stage("joint-vocabulary", 1, _Function("allocations:learn_joint_vocabulary"), JointVocabularyRecipe)
CAPACITY = Stage("capacity", 1, _Function("allocations:measure_capacity"), CapacityRecipe)
ALLOCATION_REPORT = Stage("allocation-report", 1, _Function("allocations:report_allocation"), AllocationReportRecipe)
REPORT = Stage("report", 1, _Function("report:run"), ReportRecipe)

STAGES = tuple(stage for stage in vars().values() if isinstance(stage, Stage))
