"""One file per arrow of the pipeline: it reads records, calls one thing, writes one record.

The table below is every stage there is. A revision is raised by hand when a stage's result changes for the same recipe.
"""

from subgraft.stages import (
    assemble,
    build,
    checkpoint,
    corpus,
    evaluate,
    finetune,
    gap,
    generator,
    intrinsic,
    likelihood,
    likelihood_matching,
    pretrain,
    report,
    static_embeddings,
    token_distillation,
    transfer,
    vocabulary,
)
from subgraft.stages.stage import Stage

CORPUS = Stage("corpus", 1, corpus.run)
VOCABULARY = Stage("vocabulary", 1, vocabulary.run)
GAP = Stage("gap", 2, gap.run)
CHECKPOINT = Stage("checkpoint", 1, checkpoint.run)
BUILD = Stage("build", 1, build.run)
PRETRAIN = Stage("pretrain", 3, pretrain.run, distributed=True, accelerated=True)
ASSEMBLE = Stage("assemble", 1, assemble.run)
GENERATOR = Stage("generator", 3, generator.run, distributed=True, accelerated=True)
STATIC = Stage("static", 1, static_embeddings.run)
DISTILLATION = Stage("distillation", 2, token_distillation.run, distributed=True, accelerated=True)
MATCHING = Stage("matching", 1, likelihood_matching.run, distributed=True, accelerated=True)
TRANSFER = Stage("transfer", 2, transfer.run)
INTRINSIC = Stage("intrinsic", 2, intrinsic.run)
FINETUNE = Stage("finetune", 3, finetune.run, distributed=True, accelerated=True)
EVALUATE = Stage("evaluate", 4, evaluate.run, accelerated=True)
LIKELIHOOD = Stage("likelihood", 1, likelihood.run, accelerated=True)
REPORT = Stage("report", 5, report.run)

STAGES = (
    CORPUS,
    VOCABULARY,
    GAP,
    CHECKPOINT,
    BUILD,
    PRETRAIN,
    ASSEMBLE,
    GENERATOR,
    STATIC,
    DISTILLATION,
    MATCHING,
    TRANSFER,
    INTRINSIC,
    FINETUNE,
    EVALUATE,
    LIKELIHOOD,
    REPORT,
)
