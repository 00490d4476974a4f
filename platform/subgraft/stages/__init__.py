"""One file per arrow of the pipeline: it reads records, calls one thing, writes one record.

The table below is every stage there is. A revision is raised by hand when a stage's result changes for the same recipe.
"""

from subgraft.recipes.adapted_vocabulary import AdaptedVocabularyRecipe
from subgraft.recipes.allocation import AllocationRecipe
from subgraft.recipes.allocation_report import AllocationReportRecipe
from subgraft.recipes.assemble import AssembleRecipe
from subgraft.recipes.back_translated import BackTranslatedRecipe
from subgraft.recipes.build import BuildRecipe
from subgraft.recipes.capacity import CapacityRecipe
from subgraft.recipes.checkpoint import CheckpointRecipe
from subgraft.recipes.condition import ConditionRecipe
from subgraft.recipes.copied import CopiedRecipe
from subgraft.recipes.corpus import CorpusRecipe
from subgraft.recipes.curve import CurveRecipe
from subgraft.recipes.evaluate import EvaluateRecipe
from subgraft.recipes.finetune import FinetuneRecipe
from subgraft.recipes.gap import GapRecipe
from subgraft.recipes.generator import GeneratorRecipe
from subgraft.recipes.given_network import GivenNetworkRecipe
from subgraft.recipes.given_vocabulary import GivenVocabularyRecipe
from subgraft.recipes.intrinsic import IntrinsicRecipe
from subgraft.recipes.joint_vocabulary import JointVocabularyRecipe
from subgraft.recipes.likelihood import LikelihoodRecipe
from subgraft.recipes.likelihood_matching import LikelihoodMatchingRecipe
from subgraft.recipes.network import NetworkRecipe
from subgraft.recipes.pretrain import PretrainRecipe
from subgraft.recipes.report import ReportRecipe
from subgraft.recipes.reversed import ReversedRecipe
from subgraft.recipes.rows_first import RowsFirstRecipe
from subgraft.recipes.static_embeddings import StaticEmbeddingsRecipe
from subgraft.recipes.text import TextRecipe
from subgraft.recipes.token_distillation import TokenDistillationRecipe
from subgraft.recipes.transfer import TransferRecipe
from subgraft.recipes.vocabulary import VocabularyRecipe
from subgraft.recipes.vocadt import VocadtRecipe
from subgraft.stages.stage import Stage

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
