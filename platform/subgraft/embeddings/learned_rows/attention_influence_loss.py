# mypy: allow-untyped-calls
"""Attention influence: new tokens' rows by distilling how segments of a text attend to each other (MATT).

Haltiuk and Smywiński-Pohl, "Model-Aware Tokenizer Transfer", arXiv 2510.21954. The frozen model reads a sentence in the
old segmentation (teacher) and in the new one (student). The segments are the smallest spans of characters on whose ends
both agree. The influence of segment j on segment i in one self-attention is the mean over the tokens of i of the sum
over the tokens of j of attention weight times value. New rows are trained so that the student's influences match the
teacher's (mean squared difference). Only layers up to that one are computed.

The mean over a segment's tokens, and the initialisation of new rows with the mean of a token's subwords, are choices of
this implementation; the authors initialise with FOCUS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from subgraft.base.errors import UserError
from subgraft.embeddings.learned_rows.segmentation_pairs import SegmentationBatch
from subgraft.embeddings.learned_rows.student_embeddings import StudentEmbeddings, StudentTable
from subgraft.embeddings.methods.attention_influence import AttentionInfluenceSettings
from subgraft.modeling.families import family_of
from subgraft.modeling.sides import Side, decoder_states_from_memory, encoder_states, without_dropout

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from subgraft.config.settings_base import SideName


class AttentionInfluenceLoss(nn.Module):
    """The loss of a batch; only the embeddings of new tokens are trained."""

    def __init__(
        self, model: PreTrainedModel, side: Side, start: StudentTable, settings: AttentionInfluenceSettings
    ) -> None:
        super().__init__()
        self.model = without_dropout(model.requires_grad_(False))
        self.embeddings = StudentEmbeddings(model, side, start)
        self._decodes = side.name == "decoder"
        layers = family_of(model).layers(model.config.to_dict(), side.name)
        self._attend = AttentionCapture(model, side.name, settings.layer or max(1, round(layers / 3)))

    def forward(self, batch: SegmentationBatch) -> dict[str, Tensor]:
        """The sum over pairs of segments of squared differences of influences, as means over the width."""
        before, after = self._decoder(batch) if self._decodes else self._encoder(batch)
        sentence, old, new = batch.agreeing.unbind(dim=1)
        teacher = segments(sentence, old, before.values.shape[:2])
        student = segments(sentence, new, after.values.shape[:2])
        return {"distillation": squared_differences(before, teacher, after, student)}

    def _decoder(self, batch: SegmentationBatch) -> tuple[Attended, Attended]:
        mask, decoded = batch.teacher.attention_mask, decoder_states_from_memory
        with torch.no_grad():
            memory = encoder_states(self.model, input_ids=batch.teacher.input_ids, attention_mask=mask)
            ids = batch.teacher.decoder_input_ids
            teacher = self._attend(lambda: decoded(self.model, memory, mask, input_ids=ids, output_attentions=True))
        embedded = self.embeddings(batch.student.decoder_input_ids)
        return teacher, self._attend(
            lambda: decoded(self.model, memory, mask, inputs_embeds=embedded, output_attentions=True)
        )

    def _encoder(self, batch: SegmentationBatch) -> tuple[Attended, Attended]:
        before, after = batch.teacher, batch.student

        def encoded(mask: Tensor, **read: Any) -> Attended:
            return self._attend(lambda: encoder_states(self.model, attention_mask=mask, output_attentions=True, **read))

        with torch.no_grad():
            teacher = encoded(before.attention_mask, input_ids=before.input_ids)
        return teacher, encoded(after.attention_mask, inputs_embeds=self.embeddings(after.input_ids))


def segments(sentence: Tensor, last: Tensor, shape: torch.Size) -> Tensor:
    """Bool [B, T, I]: whether a token is in a segment, by the sentence [n] and last position [n] of each segment.

    Tokens after a sentence's last segment are in none.
    """
    ends = torch.zeros(shape, dtype=torch.long, device=last.device)
    ends[sentence, last] = 1
    counts = ends.sum(dim=1)
    index = ends.cumsum(dim=1) - ends
    segment = torch.arange(int(counts.max()), device=last.device)
    membership: Tensor = (index[..., None] == segment) & (index < counts[:, None])[..., None]
    return membership


def squared_differences(teacher: Attended, in_teacher: Tensor, student: Attended, in_student: Tensor) -> Tensor:
    """The sum over pairs of segments of the squared difference of influences, as means over the width.

    With the tokens p of both segmentations in one list, and the teacher's weights negated, a difference is the sum over
    p in j of C_ip V_p. The sum over i and j of its square is that over p and q of one segment of (CᵀC)_pq (V Vᵀ)_pq:
    no tensor has an element for each pair of segments and each dimension.
    """
    with torch.autocast(student.values.device.type, enabled=False):  # large terms cancel
        teacher, student = _upcast(teacher), _upcast(student)
        membership = torch.cat([in_teacher, in_student], dim=1).to(student.values.dtype)
        weights = torch.cat([-_segment_weights(teacher, in_teacher), _segment_weights(student, in_student)], dim=-1)
        values = torch.cat([teacher.values, student.values], dim=1).transpose(1, 2)
        products = (weights.mT @ weights) * (values @ values.mT) * (membership @ membership.mT)[:, None]
        return products.sum() / (values.shape[1] * values.shape[3])


def _segment_weights(attended: Attended, inside: Tensor) -> Tensor:
    """The attention weights of segments [B, H, I, T]: the mean over the tokens of each segment."""
    membership = inside.to(attended.weights.dtype)
    shares = membership / membership.sum(dim=1, keepdim=True).clamp(min=1)
    return shares.mT[:, None] @ attended.weights


def _upcast(attended: Attended) -> Attended:
    """Convert to fp32, unless it is wider."""
    dtype = torch.promote_types(attended.values.dtype, torch.float32)
    return Attended(attended.weights.to(dtype), attended.values.to(dtype))


@dataclass(frozen=True)
class Attended:
    """The result of a self-attention. weights: [B, H, T, T], of each token over all tokens.  values: [B, T, H, d/H]."""

    weights: Tensor
    values: Tensor


class _StopForwardPass(Exception):  # noqa: N818 - no error
    """The layer has been computed, and later ones are not needed."""


class AttentionCapture:
    """Runs passes of a model up to a self-attention and returns what it computes.

    From then on the side computes attention without fused kernels, because these return no weights.

    Args:
        layer: Counted from 1.

    Raises:
        UserError: The family's self-attention has no linear map of values of its own.
    """

    def __init__(self, model: PreTrainedModel, side: SideName, layer: int) -> None:
        stack: Any = model.get_encoder() if side == "encoder" else model.get_decoder()
        stack.set_attn_implementation("eager")
        attentions = []
        for name, module in stack.named_modules():
            # The linear map of values, by its names in BART, Marian, mBART and Llama, in T5, and in BERT.
            values = next((child for own, child in module.named_children() if own in ("v_proj", "v", "value")), None)
            to_source = any(cross in name for cross in ("encoder_attn", "EncDecAttention", "crossattention"))
            if values is not None and not to_source:
                attentions.append((module, values))
        if len(attentions) < layer:
            raise UserError(f"no layer {layer} with values of its own in this {model.config.model_type}'s {side}")
        self._attention, self._values = attentions[layer - 1]
        self._head_size: int | None = getattr(self._attention, "head_dim", None)
        config: Any = getattr(self._attention, "config", stack.config)  # an assembled model's stack may have a copy
        config._attn_implementation = "eager"

    def __call__(self, run: Callable[[], object]) -> Attended:
        """The weights and values of the self-attention in the pass that `run` starts; layers after it are not run."""
        seen: dict[str, Tensor] = {}

        def keep_values(module: nn.Module, inputs: Any, output: Tensor) -> None:
            seen["values"] = output

        def stop(module: nn.Module, inputs: Any, output: tuple[Tensor, ...]) -> None:
            seen["weights"] = output[-1]
            raise _StopForwardPass

        hooks = self._values.register_forward_hook(keep_values), self._attention.register_forward_hook(stop)
        try:
            run()
        except _StopForwardPass:
            pass
        finally:
            for hook in hooks:
                hook.remove()
        weights = seen["weights"]
        values = seen["values"].unflatten(-1, (-1, self._head_size or seen["values"].shape[-1] // weights.shape[1]))
        # Several heads share the values of one, as in Llama 3.
        return Attended(weights, values.repeat_interleave(weights.shape[1] // values.shape[2], dim=2))
