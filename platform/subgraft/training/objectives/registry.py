"""All objectives, by kind.

To add one: a module like `masked_seq2seq.py` or `denoising.py` and, here, its entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import Field

from subgraft.base.entries import imported
from subgraft.data.tasks.registry import TASKS
from subgraft.training.objectives.causal import CausalSettings
from subgraft.training.objectives.conditioned import (
    ConditionedSettings,
    FeatureConditionedSettings,
    TextConditionedSettings,
)
from subgraft.training.objectives.conversations import ConversationSettings
from subgraft.training.objectives.denoising import DenoisingSettings
from subgraft.training.objectives.labelled import LabelledPairsSettings, LabelledSettings
from subgraft.training.objectives.left_to_right import LeftToRightSettings
from subgraft.training.objectives.masked import MaskedSettings
from subgraft.training.objectives.masked_seq2seq import MaskedSeq2SeqSettings
from subgraft.training.objectives.multitask_masked import MultitaskMaskedSettings
from subgraft.training.objectives.objective import AnyObjective
from subgraft.training.objectives.translation import (
    DocumentTranslationSettings,
    TranslationSettings,
)

# In the order of documents and messages.
ENTRIES: tuple[type[AnyObjective], ...] = (
    TranslationSettings,
    DocumentTranslationSettings,
    imported("subgraft.contrib.context.objective:ContextTranslationSettings"),
    DenoisingSettings,
    MaskedSettings,
    LeftToRightSettings,
    imported("subgraft.contrib.ernie_thu.objective:MaskedEntitiesSettings"),
    imported("subgraft.contrib.ernie3.objective:KnowledgeTextSettings"),
    CausalSettings,
    imported("subgraft.contrib.xlnet.objective:PermutationSettings"),
    MultitaskMaskedSettings,
    MaskedSeq2SeqSettings,
    ConditionedSettings,
    TextConditionedSettings,
    FeatureConditionedSettings,
    ConversationSettings,
    imported("subgraft.contrib.ernie.objectives:DialogueSettings"),
    imported("subgraft.contrib.ernie.objectives:CapitalisationSettings"),
    imported("subgraft.contrib.ernie.objectives:TokenDocumentSettings"),
    imported("subgraft.contrib.ernie.objectives:ReorderingSettings"),
    imported("subgraft.contrib.ernie.objectives:DistanceSettings"),
    imported("subgraft.contrib.ernie.objectives:DiscourseSettings"),
    imported("subgraft.contrib.ernie.objectives:RelevanceSettings"),
    LabelledSettings,
    LabelledPairsSettings,
)
OBJECTIVES: Mapping[str, type[AnyObjective]] = {each.model_fields["kind"].default: each for each in ENTRIES}
_PRETRAINING = {kind: each for kind, each in OBJECTIVES.items() if each.pretraining is not AnyObjective.pretraining}
# The kinds of pretraining of decoders alone.
CONTINUING_KINDS = frozenset(kind for kind, each in _PRETRAINING.items() if each.continues)

if TYPE_CHECKING:
    ObjectiveSettings: TypeAlias = AnyObjective
    TaskObjectiveSettings: TypeAlias = AnyObjective
else:  # settings accept exactly the objectives that have the training; `kind` selects one
    _FINETUNING = [each for each in ENTRIES if each.finetuning is not AnyObjective.finetuning]
    _ADDITIONAL = [each for each in ENTRIES if each.additional is not AnyObjective.additional]
    ObjectiveSettings = Annotated[reduce(or_, _PRETRAINING.values()), Field(discriminator="kind")]
    TaskObjectiveSettings = Annotated[reduce(or_, [*_FINETUNING, *_ADDITIONAL]), Field(discriminator="kind")]


def task_objective(task: str) -> TaskObjectiveSettings:
    """The objective of a task, with its settings in `TASKS`."""
    settings = TASKS[task].finetuned_on
    return OBJECTIVES[settings["kind"]].model_validate(settings)
