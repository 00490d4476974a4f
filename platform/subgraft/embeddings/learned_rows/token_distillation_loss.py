"""Token Distillation: new tokens' rows by distilling hidden states (Dobler, Elliott and de Melo 2025).

The frozen model reads a sentence in the old segmentation (teacher) and in the new one (student). The new tokens' input
rows start as the mean of their subwords and are trained so that the student's hidden states match the teacher's
wherever both have read the same text. arXiv 2505.20133, section 3.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from subgraft.embeddings.learned_rows.segmentation_pairs import SegmentationBatch
from subgraft.embeddings.learned_rows.student_embeddings import StudentEmbeddings, StudentTable
from subgraft.embeddings.methods.token_distillation import TokenDistillationSettings
from subgraft.modeling.sides import Side, decoder_states_from_memory, encoder_states, without_dropout


class TokenDistillationLoss(nn.Module):
    """The loss of a batch; only the embeddings of new tokens are trained."""

    def __init__(self, model: nn.Module, side: Side, start: StudentTable, settings: TokenDistillationSettings) -> None:
        super().__init__()
        self.model = without_dropout(model.requires_grad_(False))
        self.embeddings = StudentEmbeddings(model, side, start)
        self._side = side.name
        self._settings = settings

    def forward(self, batch: SegmentationBatch) -> dict[str, Tensor]:
        """The sum of distances over the positions where the segmentations agree."""
        teacher, student = self._decoder(batch) if self._side == "decoder" else self._encoder(batch)
        sentence, before, after = batch.agreeing.unbind(dim=1)
        difference = student[sentence, after].float() - teacher[sentence, before].float()
        if self._settings.distance == "relative":
            norm = torch.linalg.vector_norm(teacher[sentence, before].float(), dim=-1)
            return {"distillation": (torch.linalg.vector_norm(difference, dim=-1) / norm).sum()}
        if self._settings.distance == "euclidean":
            return {"distillation": torch.linalg.vector_norm(difference, dim=-1).sum()}
        return {"distillation": difference.square().mean(dim=-1).sum()}

    def _decoder(self, batch: SegmentationBatch) -> tuple[Tensor, Tensor]:
        layer, mask = self._settings.layer, batch.teacher.attention_mask
        with torch.no_grad():
            memory = encoder_states(self.model, input_ids=batch.teacher.input_ids, attention_mask=mask)
            ids = batch.teacher.decoder_input_ids
            teacher = decoder_states_from_memory(self.model, memory, mask, layer=layer, input_ids=ids)
        embedded = self.embeddings(batch.student.decoder_input_ids)
        return teacher, decoder_states_from_memory(self.model, memory, mask, layer=layer, inputs_embeds=embedded)

    def _encoder(self, batch: SegmentationBatch) -> tuple[Tensor, Tensor]:
        layer, before, after = self._settings.layer, batch.teacher, batch.student
        with torch.no_grad():
            mask = before.attention_mask
            teacher = encoder_states(self.model, layer=layer, input_ids=before.input_ids, attention_mask=mask)
        embedded = self.embeddings(after.input_ids)
        mask = after.attention_mask
        return teacher, encoder_states(self.model, layer=layer, inputs_embeds=embedded, attention_mask=mask)
