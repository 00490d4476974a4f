"""Token Distillation: new tokens' rows by distilling hidden states (Dobler, Elliott and de Melo 2025).

The frozen model reads a sentence in the old segmentation (teacher) and in the new one (student). The new tokens' input
rows start as the mean of their subwords and are trained so that the student's hidden states match the teacher's
wherever both have read the same text. arXiv 2505.20133, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from subgraft.config.initialisers import TokenDistillationSettings
from subgraft.embeddings.initialisers.new_rows import Request, mix_subwords
from subgraft.embeddings.learned_rows.segmentation_pairs import SegmentationBatch
from subgraft.embeddings.transplanting.transplant import table_over
from subgraft.modeling.sides import Side, decoder_states_from_memory, encoder_states, input_scale, without_dropout
from subgraft.subwords.similar_tokens.token_subwords import spelled_by
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


@dataclass(frozen=True)
class StudentTable:
    """The new vocabulary's input embeddings before training.

    Attributes:
        table: [V, d], rows of seen tokens are copied, those of unseen ones are the mean of their subwords.
        tokens: ids of the tokens to train: unseen ones, except those that the teacher reads as unknown.
    """

    table: Tensor
    tokens: tuple[int, ...]

    @classmethod
    @torch.no_grad()
    def of(cls, side: Side, source: Tokenizer, target: Tokenizer) -> StudentTable:
        alignment = align(source, target)
        entries = [entry for token in alignment.unseen if (entry := target.entries[token]) is not None]
        request = Request(side, source, entries, len(alignment.others), 0.0, 0, 0, None)
        table = table_over(side.input.weight.detach(), alignment, mix_subwords(request).input)
        return cls(table, spelled_by(source, target))


class TokenDistillationLoss(nn.Module):
    """The loss of a batch. Its parameter is added to the rows of new tokens [K, d] and starts at zero.

    So a row that no sentence has trained remains the mean of its subwords, with any optimizer.
    """

    def __init__(self, model: nn.Module, side: Side, start: StudentTable, settings: TokenDistillationSettings) -> None:
        super().__init__()
        self.model = without_dropout(model.requires_grad_(False))
        self.added = nn.Parameter(torch.zeros(len(start.tokens), start.table.shape[1]))
        row = torch.full((len(start.table),), -1)
        row[list(start.tokens)] = torch.arange(len(start.tokens))
        self.register_buffer("_table", start.table, persistent=False)
        self.register_buffer("_row", row, persistent=False)
        self._start = start
        self._side = side.name
        self.embed_scale = input_scale(model, side)
        self._settings = settings

    def forward(self, batch: SegmentationBatch) -> dict[str, Tensor]:
        """The sum of distances over the positions where the segmentations agree."""
        teacher, student = self._decoder(batch) if self._side == "decoder" else self._encoder(batch)
        sentence, before, after = batch.meeting.unbind(dim=1)
        difference = student[sentence, after].float() - teacher[sentence, before].float()
        if self._settings.distance == "euclidean":
            return {"distillation": torch.linalg.vector_norm(difference, dim=-1).sum()}
        return {"distillation": difference.square().mean(dim=-1).sum()}

    def _decoder(self, batch: SegmentationBatch) -> tuple[Tensor, Tensor]:
        layer, mask = self._settings.layer, batch.teacher.attention_mask
        with torch.no_grad():
            memory = encoder_states(self.model, input_ids=batch.teacher.input_ids, attention_mask=mask)
            ids = batch.teacher.decoder_input_ids
            teacher = decoder_states_from_memory(self.model, memory, mask, layer=layer, input_ids=ids)
        embedded = self.embed(batch.student.decoder_input_ids)
        return teacher, decoder_states_from_memory(self.model, memory, mask, layer=layer, inputs_embeds=embedded)

    def _encoder(self, batch: SegmentationBatch) -> tuple[Tensor, Tensor]:
        layer, before, after = self._settings.layer, batch.teacher, batch.student
        with torch.no_grad():
            mask = before.attention_mask
            teacher = encoder_states(self.model, layer=layer, input_ids=before.input_ids, attention_mask=mask)
        embedded = self.embed(after.input_ids)
        mask = after.attention_mask
        return teacher, encoder_states(self.model, layer=layer, inputs_embeds=embedded, attention_mask=mask)

    def embed(self, ids: Tensor) -> Tensor:
        """The model's input [B, T, d] for ids of the new vocabulary."""
        table: Tensor = self._table  # type: ignore[assignment]
        rows = self._row[ids]  # type: ignore[index]
        added = torch.where((rows >= 0)[..., None], F.embedding(rows.clamp(min=0), self.added), 0.0)
        return ((F.embedding(ids, table) + added) * self.embed_scale).to(table.dtype)

    @torch.no_grad()
    def trained(self) -> tuple[Tensor, Tensor]:
        """Ids [n] and rows [n, d] of the tokens that training has changed, in fp32."""
        added = self.added.cpu()
        changed = (added != 0).any(dim=1)
        tokens = torch.tensor(self._start.tokens, dtype=torch.long)[changed]
        return tokens, self._start.table[tokens].float() + added[changed]
