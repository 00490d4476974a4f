"""One file per arrow of the pipeline: it reads records, calls one thing, writes one record.

The table below is every stage there is. A revision is raised by hand when a stage's result changes for the same recipe.
"""

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
    GivenNetworkRecipe,
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
from subgraft.pipeline.recipes.training import FinetuneRecipe, PretrainRecipe, RowsFirstRecipe
from subgraft.pipeline.recipes.vocabularies import (
    AdaptedVocabularyRecipe,
    GapRecipe,
    GivenVocabularyRecipe,
    StaticEmbeddingsRecipe,
    VocabularyRecipe,
)
from subgraft.pipeline.stages.stage import Stage

CORPUS = Stage("corpus", 2, "corpus", CorpusRecipe)
TEXT = Stage("text", 2, "text", TextRecipe)
COPIED = Stage("copied", 1, "copied", CopiedRecipe)
REVERSED = Stage("reversed", 1, "reversed", ReversedRecipe)
BACK_TRANSLATED = Stage(
    "back-translated", 1, "back_translated", BackTranslatedRecipe, distributed=True, accelerated=True
)
VOCABULARY = Stage("vocabulary", 1, "vocabulary", VocabularyRecipe)
ADAPTED_VOCABULARY = Stage("adapted-vocabulary", 1, "adapted_vocabulary", AdaptedVocabularyRecipe)
GAP = Stage("gap", 2, "gap", GapRecipe)
CHECKPOINT = Stage("checkpoint", 1, "checkpoint", CheckpointRecipe)
BUILD = Stage("build", 1, "build", BuildRecipe)
PRETRAIN = Stage("pretrain", 3, "pretrain", PretrainRecipe, distributed=True, accelerated=True)
ASSEMBLE = Stage("assemble", 1, "assemble", AssembleRecipe)
GENERATOR = Stage("generator", 3, "generator", GeneratorRecipe, distributed=True, accelerated=True)
NETWORK = Stage("network", 1, "network", NetworkRecipe, distributed=True, accelerated=True)
GIVEN_NETWORK = Stage("given-network", 1, "given_network", GivenNetworkRecipe)
STATIC = Stage("static", 1, "static_embeddings", StaticEmbeddingsRecipe)
DISTILLATION = Stage(
    "distillation", 2, "token_distillation", TokenDistillationRecipe, distributed=True, accelerated=True
)
MATCHING = Stage("matching", 1, "likelihood_matching", LikelihoodMatchingRecipe, distributed=True, accelerated=True)
VOCADT = Stage("vocadt", 1, "vocadt", VocadtRecipe, distributed=True, accelerated=True)
TRANSFER = Stage("transfer", 2, "transfer", TransferRecipe)
ROWS_FIRST = Stage("rows-first", 1, "finetune", RowsFirstRecipe, distributed=True, accelerated=True)
CONDITION = Stage("condition", 1, "condition", ConditionRecipe)
INTRINSIC = Stage("intrinsic", 2, "intrinsic", IntrinsicRecipe)
FINETUNE = Stage("finetune", 3, "finetune", FinetuneRecipe, distributed=True, accelerated=True)
EVALUATE = Stage("evaluate", 4, "evaluate", EvaluateRecipe, accelerated=True)
LIKELIHOOD = Stage("likelihood", 1, "likelihood", LikelihoodRecipe, accelerated=True)
GIVEN_VOCABULARY = Stage("given-vocabulary", 1, "given_vocabulary", GivenVocabularyRecipe)
CURVE = Stage("curve", 1, "curve", CurveRecipe)
ALLOCATION = Stage("allocation", 1, "allocation", AllocationRecipe)
JOINT_VOCABULARY = Stage("joint-vocabulary", 1, "joint_vocabulary", JointVocabularyRecipe)
CAPACITY = Stage("capacity", 1, "capacity", CapacityRecipe)
ALLOCATION_REPORT = Stage("allocation-report", 1, "allocation_report", AllocationReportRecipe)
REPORT = Stage("report", 6, "report", ReportRecipe)

STAGES = (
    CORPUS,
    TEXT,
    COPIED,
    REVERSED,
    BACK_TRANSLATED,
    VOCABULARY,
    ADAPTED_VOCABULARY,
    GAP,
    CHECKPOINT,
    BUILD,
    PRETRAIN,
    ASSEMBLE,
    GENERATOR,
    NETWORK,
    GIVEN_NETWORK,
    STATIC,
    DISTILLATION,
    MATCHING,
    VOCADT,
    TRANSFER,
    ROWS_FIRST,
    CONDITION,
    INTRINSIC,
    FINETUNE,
    EVALUATE,
    LIKELIHOOD,
    GIVEN_VOCABULARY,
    CURVE,
    ALLOCATION,
    JOINT_VOCABULARY,
    CAPACITY,
    ALLOCATION_REPORT,
    REPORT,
)
