"""The assistant's turns of conversations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from subgraft.config.settings_base import Settings
from subgraft.training.objectives.causal import CausalSettings
from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    from subgraft.config.training import FinetuneSettings
    from subgraft.training.objectives.compute.interface import ObjectiveInputs, TaskText


class ChatSettings(Settings):
    """How conversations are learnt, for `task: chat`.

    turns: the assistant's turns that are learnt: all, or the last of each conversation.
    template: the chat template of a model without one, as Jinja text; it should end each answer with eos_token.
    """

    turns: Literal["all", "last"] = "all"
    template: str | None = None


class ConversationSettings(AnyObjective):
    """The assistant's turns of a conversation, each token given all before it."""

    kind: Literal["chat"] = "chat"
    chat: ChatSettings = ChatSettings()

    continues = True

    def on_plain_text(self, pretrained: Sequence[AnyObjective]) -> AnyObjective:
        return CausalSettings(packed=False).after(pretrained)

    def finetuning(self, request: ObjectiveInputs, training: FinetuneSettings) -> TaskText:
        from subgraft.training.objectives.compute.conversations import ConversationsOfTask

        return ConversationsOfTask(self, request, training)
