"""The stages of an experiment: each reads artifacts, calls one wing, and writes one artifact.

`STAGES` lists all stages; each imports its libraries only when it runs. Increase a stage's revision when its result
changes for the same recipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
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
    AttentionInfluenceRecipe,
    DistillationRecipe,
    GeneratorRecipe,
    ImportedNetworkRecipe,
    LikelihoodMatchingRecipe,
    NetworkRecipe,
    TokenDistillationRecipe,
    VocadtRecipe,
)
from subgraft.pipeline.recipes.evaluation import (
    EvaluateRecipe,
    IntrinsicRecipe,
    LikelihoodRecipe,
    ReportRecipe,
    SeenPairsRecipe,
)
from subgraft.pipeline.recipes.models import (
    AssembleRecipe,
    BuildRecipe,
    CheckpointRecipe,
    ConditionRecipe,
    ContextRecipe,
    EntityRecipe,
    SavedWeightsRecipe,
    SourceEncoderRecipe,
    TransferRecipe,
)
from subgraft.pipeline.recipes.training import (
    EmbeddingWarmupRecipe,
    FinetuneRecipe,
    MultitaskRecipe,
    PretrainRecipe,
    UnsupervisedRecipe,
)
from subgraft.pipeline.recipes.vocabularies import (
    AdaptedVocabularyRecipe,
    GapRecipe,
    ImportedVocabularyRecipe,
    StaticEmbeddingsRecipe,
    VocabularyRecipe,
)
from subgraft.pipeline.stages.stage import Inputs, Stage

if TYPE_CHECKING:
    from subgraft.training.context import Context, Json


def _import_corpus(recipe: CorpusRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.corpora import import_corpus

    return import_corpus(recipe, inputs, out, context)


def _import_text(recipe: TextRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.corpora import import_text

    return import_text(recipe, inputs, out, context)


def _copy_text(recipe: CopiedRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.corpora import copy_text

    return copy_text(recipe, inputs, out, context)


def _reverse_corpus(recipe: ReversedRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.corpora import reverse_corpus

    return reverse_corpus(recipe, inputs, out, context)


def _back_translation(recipe: BackTranslatedRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.back_translation import back_translate

    return back_translate(recipe, inputs, out, context)


def _learn_vocabulary(recipe: VocabularyRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.vocabularies import learn_vocabulary

    return learn_vocabulary(recipe, inputs, out, context)


def _adapt_vocabulary(
    recipe: AdaptedVocabularyRecipe, inputs: Inputs, out: Path, context: Context
) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.vocabularies import adapt_vocabulary

    return adapt_vocabulary(recipe, inputs, out, context)


def _measure_gap(recipe: GapRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.vocabularies import measure_gap

    return measure_gap(recipe, inputs, out, context)


def _import_checkpoint(recipe: CheckpointRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.models import import_checkpoint

    return import_checkpoint(recipe, inputs, out, context)


def _build_model(recipe: BuildRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.models import build_model

    return build_model(recipe, inputs, out, context)


def _pretrain(recipe: PretrainRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.pretrain import run

    return run(recipe, inputs, out, context)


def _take_saved_weights(recipe: SavedWeightsRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.models import take_saved_weights

    return take_saved_weights(recipe, inputs, out, context)


def _assemble_model(recipe: AssembleRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.models import assemble_model

    return assemble_model(recipe, inputs, out, context)


def _add_source_encoder(recipe: SourceEncoderRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.models import add_source_encoder

    return add_source_encoder(recipe, inputs, out, context)


def _add_context(recipe: ContextRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.models import add_context

    return add_context(recipe, inputs, out, context)


def _train_generator(recipe: GeneratorRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.generators import train_generator

    return train_generator(recipe, inputs, out, context)


def _train_network(recipe: NetworkRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.generators import train_network

    return train_network(recipe, inputs, out, context)


def _import_network(recipe: ImportedNetworkRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.generators import import_network

    return import_network(recipe, inputs, out, context)


def _embed_entities(recipe: EntityRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.models import embed_entities

    return embed_entities(recipe, inputs, out, context)


def _train_static_embeddings(
    recipe: StaticEmbeddingsRecipe, inputs: Inputs, out: Path, context: Context
) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.transfer import train_static_embeddings

    return train_static_embeddings(recipe, inputs, out, context)


def _distil(recipe: DistillationRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.learned_rows import distil

    return distil(recipe, inputs, out, context)


def _match_likelihood(
    recipe: LikelihoodMatchingRecipe, inputs: Inputs, out: Path, context: Context
) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.learned_rows import match_likelihood

    return match_likelihood(recipe, inputs, out, context)


def _vocadt(recipe: VocadtRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.vocadt import run

    return run(recipe, inputs, out, context)


def _run_transfer(recipe: TransferRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.transfer import run_transfer

    return run_transfer(recipe, inputs, out, context)


def _finetune(recipe: FinetuneRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.finetune import run

    return run(recipe, inputs, out, context)


def _train_on_tasks(recipe: MultitaskRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.multitask import run

    return run(recipe, inputs, out, context)


def _translate_unsupervised(
    recipe: UnsupervisedRecipe, inputs: Inputs, out: Path, context: Context
) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.back_translation import train_both_directions

    return train_both_directions(recipe, inputs, out, context)


def _condition_model(recipe: ConditionRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.models import condition_model

    return condition_model(recipe, inputs, out, context)


def _measure_intrinsic(recipe: IntrinsicRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.transfer import measure_intrinsic

    return measure_intrinsic(recipe, inputs, out, context)


def _evaluate_model(recipe: EvaluateRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.evaluate import evaluate_model

    return evaluate_model(recipe, inputs, out, context)


def _measure_likelihood(recipe: LikelihoodRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.evaluate import measure_likelihood

    return measure_likelihood(recipe, inputs, out, context)


def _count_seen_pairs(recipe: SeenPairsRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.corpora import count_seen_pairs

    return count_seen_pairs(recipe, inputs, out, context)


def _import_vocabulary(
    recipe: ImportedVocabularyRecipe, inputs: Inputs, out: Path, context: Context
) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.vocabularies import import_vocabulary

    return import_vocabulary(recipe, inputs, out, context)


def _measure_curve(recipe: CurveRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.allocations import measure_curve

    return measure_curve(recipe, inputs, out, context)


def _allocate(recipe: AllocationRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.allocations import allocate

    return allocate(recipe, inputs, out, context)


def _learn_joint_vocabulary(
    recipe: JointVocabularyRecipe, inputs: Inputs, out: Path, context: Context
) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.allocations import learn_joint_vocabulary

    return learn_joint_vocabulary(recipe, inputs, out, context)


def _measure_capacity(recipe: CapacityRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.allocations import measure_capacity

    return measure_capacity(recipe, inputs, out, context)


def _report_allocation(
    recipe: AllocationReportRecipe, inputs: Inputs, out: Path, context: Context
) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.allocations import report_allocation

    return report_allocation(recipe, inputs, out, context)


def _report(recipe: ReportRecipe, inputs: Inputs, out: Path, context: Context) -> Mapping[str, Json]:
    from subgraft.pipeline.stages.report import run

    return run(recipe, inputs, out, context)


CORPUS = Stage("corpus", 2, _import_corpus, CorpusRecipe)
TEXT = Stage("text", 1, _import_text, TextRecipe)
COPIED = Stage("copied", 1, _copy_text, CopiedRecipe)
REVERSED = Stage("reversed", 1, _reverse_corpus, ReversedRecipe)
BACK_TRANSLATED = Stage(
    "back-translated", 1, _back_translation, BackTranslatedRecipe, distributed=True, accelerated=True
)
VOCABULARY = Stage("vocabulary", 2, _learn_vocabulary, VocabularyRecipe)
ADAPTED_VOCABULARY = Stage("adapted-vocabulary", 2, _adapt_vocabulary, AdaptedVocabularyRecipe)
GAP = Stage("gap", 2, _measure_gap, GapRecipe)
CHECKPOINT = Stage("checkpoint", 3, _import_checkpoint, CheckpointRecipe)
BUILD = Stage("build", 1, _build_model, BuildRecipe)
PRETRAIN = Stage("pretrain", 3, _pretrain, PretrainRecipe, distributed=True, accelerated=True)
SAVED_WEIGHTS = Stage("saved-weights", 1, _take_saved_weights, SavedWeightsRecipe)
ASSEMBLE = Stage("assemble", 1, _assemble_model, AssembleRecipe)
GENERATOR = Stage("generator", 4, _train_generator, GeneratorRecipe, distributed=True, accelerated=True)
NETWORK = Stage("network", 4, _train_network, NetworkRecipe, distributed=True, accelerated=True)
IMPORTED_NETWORK = Stage("imported-network", 1, _import_network, ImportedNetworkRecipe)
STATIC = Stage("static", 1, _train_static_embeddings, StaticEmbeddingsRecipe)
DISTILLATION = Stage("distillation", 2, _distil, TokenDistillationRecipe, distributed=True, accelerated=True)
ATTENTION_INFLUENCE = Stage(
    "attention-influence", 2, _distil, AttentionInfluenceRecipe, distributed=True, accelerated=True
)
MATCHING = Stage(
    "matching",
    1,
    _match_likelihood,
    LikelihoodMatchingRecipe,
    distributed=True,
    accelerated=True,
)
VOCADT = Stage("vocadt", 2, _vocadt, VocadtRecipe, distributed=True, accelerated=True)
TRANSFER = Stage("transfer", 2, _run_transfer, TransferRecipe)
EMBEDDING_WARMUP = Stage("embedding-warmup", 2, _finetune, EmbeddingWarmupRecipe, distributed=True, accelerated=True)
SOURCE_ENCODER = Stage("source-encoder", 1, _add_source_encoder, SourceEncoderRecipe)
CONTEXT = Stage("context", 1, _add_context, ContextRecipe)
CONDITION = Stage("condition", 1, _condition_model, ConditionRecipe)
INTRINSIC = Stage("intrinsic", 2, _measure_intrinsic, IntrinsicRecipe)
MULTITASK = Stage("multitask", 2, _train_on_tasks, MultitaskRecipe, distributed=True, accelerated=True)
FINETUNE = Stage("finetune", 2, _finetune, FinetuneRecipe, distributed=True, accelerated=True)
UNSUPERVISED = Stage("unsupervised", 1, _translate_unsupervised, UnsupervisedRecipe, distributed=True, accelerated=True)
EVALUATE = Stage("evaluate", 2, _evaluate_model, EvaluateRecipe, accelerated=True)
LIKELIHOOD = Stage("likelihood", 1, _measure_likelihood, LikelihoodRecipe, accelerated=True)
SEEN_PAIRS = Stage("seen-pairs", 1, _count_seen_pairs, SeenPairsRecipe)
IMPORTED_VOCABULARY = Stage("imported-vocabulary", 2, _import_vocabulary, ImportedVocabularyRecipe)
ENTITIES = Stage("entities", 1, _embed_entities, EntityRecipe)
CURVE = Stage("curve", 1, _measure_curve, CurveRecipe)
ALLOCATION = Stage("allocation", 1, _allocate, AllocationRecipe)
JOINT_VOCABULARY = Stage("joint-vocabulary", 1, _learn_joint_vocabulary, JointVocabularyRecipe)
CAPACITY = Stage("capacity", 1, _measure_capacity, CapacityRecipe)
ALLOCATION_REPORT = Stage("allocation-report", 1, _report_allocation, AllocationReportRecipe)
REPORT = Stage("report", 2, _report, ReportRecipe)

STAGES = tuple(stage for stage in vars().values() if isinstance(stage, Stage))
