# mypy: allow-untyped-calls
"""Models with classifying heads whose encoder runs in CTranslate2, and whose head runs in PyTorch.

The directory is one of `ctranslate2_directory` with the head's weights in `head.safetensors`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling

from subgraft.base.errors import UserError
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.heads import require_head_class
from subgraft.modeling.inference.ctranslate2_directory import ExportedModel
from subgraft.modeling.inference.ctranslate2_search import engine

HEAD = "head.safetensors"


class ExportedEncoder(nn.Module):
    """An encoder in CTranslate2 that replaces the body of a transformers model.

    encoder: CTranslate2's.  segments: whether the encoder reads segments.
    """

    def __init__(self, encoder: Any, segments: bool) -> None:
        super().__init__()
        self._encoder, self._segments = encoder, segments

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None, **_: Any
    ) -> BaseModelOutputWithPooling:
        """The states [B, T, d], and those of the pooler [B, d], of rows [B, T] padded on the right."""
        import ctranslate2

        def storage_view(tensor: Tensor) -> Any:
            return ctranslate2.StorageView.from_array(tensor.cpu().int().contiguous().numpy())

        segments = None
        if self._segments:
            segments = (torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids).tolist()
        outputs = self._encoder.forward_batch(
            storage_view(input_ids), storage_view(attention_mask.sum(dim=1)), segments
        )
        pooled = None if outputs.pooler_output is None else _tensor(outputs.pooler_output).to(input_ids.device)
        return BaseModelOutputWithPooling(
            last_hidden_state=_tensor(outputs.last_hidden_state).to(input_ids.device), pooler_output=pooled
        )


def _tensor(view: Any) -> Tensor:
    import ctranslate2

    return torch.from_numpy(np.array(view.to_device(ctranslate2.Device.cpu))).float()


def load_exported_head(exported: ExportedModel) -> Bundle:
    """The model of an exported directory, for predictions. Raises UserError for a damaged directory."""
    where, config, head = exported.directory, AutoConfig.for_model(**exported.settings.model), exported.head
    assert head is not None, "it predicts no labels"
    kind: Any = require_head_class(exported.settings.model, head.kind)
    with torch.device("meta"):
        model: PreTrainedModel = kind(config)
    body = ExportedEncoder(engine(exported), exported.family.has_segments(exported.settings.model))
    setattr(model, model.base_model_prefix, body)
    try:
        model.load_state_dict(load_file(where / HEAD), assign=True)
    except (OSError, RuntimeError, ValueError) as error:
        hint = "Make it again: `subgraft export MODEL --to ctranslate2 --out DIR`."
        raise UserError(f"the head's weights cannot be loaded: {error}", where=str(where / HEAD), hint=hint) from error
    model.eval()
    model.name_or_path = str(where)
    return Bundle(model, exported.encoder, exported.decoder)
