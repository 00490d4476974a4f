"""Qwen2, Qwen2.5 (Yang et al., 2024) and Qwen3 (2025): Llamas except for biases, and norms of queries and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.modeling.families.llama import Llama
from subgraft.modeling.families.model_parts import Config, Parameters

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from subgraft.config.models import LlamaSettings


class Qwen2(Llama):
    """Queries, keys and values have a bias; texts have no beginning token, only the previous text's end token."""

    model_type = "qwen2"

    def body_parameters(self, config: Config) -> Parameters:
        plain = super().body_parameters({**config, "attention_bias": False, "mlp_bias": False})
        queries, keys = self._heads(config)
        total = plain.total + self.depth(config) * (queries + 2 * keys)
        return Parameters(total, total)

    def described(self, settings: LlamaSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        raise UserError(f"a {self.model_type} model cannot be built", hint="Build a llama, or take a checkpoint.")

    def model_class(self) -> type[PreTrainedModel]:
        from transformers import Qwen2ForCausalLM

        return Qwen2ForCausalLM

    def runs_in_ctranslate2(self, config: Config) -> bool:
        return False

    def ctranslate2_specification(self, model: PreTrainedModel) -> Any:
        """Refused: the Llama loader would omit biases and norms."""
        raise UserError(f"models of the family {self.model_type} are not exported to CTranslate2")


class Qwen3(Qwen2):
    """Each head's queries and keys are normalised; biases exist only if config.json says so."""

    model_type = "qwen3"

    def body_parameters(self, config: Config) -> Parameters:
        plain = Llama.body_parameters(self, {**config, "mlp_bias": False})
        total = plain.total + self.depth(config) * 2 * self._head_size(config)
        return Parameters(total, total)

    def _head_size(self, config: Config) -> int:
        return int(config.get("head_dim") or 128)

    def model_class(self) -> type[PreTrainedModel]:
        from transformers import Qwen3ForCausalLM

        return Qwen3ForCausalLM
