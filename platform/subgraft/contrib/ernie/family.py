"""ERNIE (Baidu; Sun et al., 2019, and AAAI 2020): BERT's layers; ERNIE 2 adds an embedding of the task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from subgraft.contrib.ernie.settings import ErnieSettings
from subgraft.modeling.families.bert import Bert
from subgraft.modeling.families.model_parts import Config

# transformers' default of a configuration that does not name it.
_TASKS = 3


class Ernie(Bert):
    """A BERT whose tokens may have an embedding of the objective that they are read for (ERNIE 2, section 3.2)."""

    model_type = "ernie"
    transformers_class = "ErnieForMaskedLM"
    next_sentence_class = "ErnieForPreTraining"
    stack_class, decoder_class = "ErnieModel", "ErnieForCausalLM"
    objectives = ErnieSettings.objectives

    def task_embeddings(self, config: Config) -> int:
        return int(config.get("task_type_vocab_size", _TASKS)) if config.get("use_task_id") else 0

    def config_dict(self, settings: Any, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        sizes = super().config_dict(settings, encoder_size, decoder_size)
        if settings.task_embeddings:
            sizes |= {"use_task_id": True, "task_type_vocab_size": settings.task_embeddings}
        return {**sizes, "type_vocab_size": settings.segments}

    def stack_parameters(self, config: Config, layer: Callable[[int, int], int]) -> int:
        return super().stack_parameters(config, layer) + self.task_embeddings(config) * self.width(config)
