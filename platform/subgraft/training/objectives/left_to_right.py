"""BERT's ablation without sight of later tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    from subgraft.training.objectives.compute.interface import Objective, Request


class LeftToRightSettings(AnyObjective):
    """A causal language model of an encoder (Devlin et al. 2019, section 5.1, "LTR & No NSP"): each token is predicted
    from those before it, also in finetuning. The first state sees only the first token, so texts are classified with a
    head of kind bilstm.

    input: as in `masked`, without pairs.
    """

    kind: Literal["left-to-right"] = "left-to-right"
    input: Literal["sentences", "full-sentences", "doc-sentences"] = "sentences"

    writes = False
    one_sided = True

    @property
    def needs_documents(self) -> bool:  # type: ignore[override]
        return self.input != "sentences"

    def pretraining(self, request: Request) -> Objective:
        from subgraft.training.objectives.compute.left_to_right import LeftToRightObjective

        return LeftToRightObjective(self, request)
