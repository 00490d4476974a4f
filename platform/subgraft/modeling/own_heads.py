# mypy: allow-untyped-calls
"""Heads that transformers has no class for. They replace the head in transformers' class of a model with a head.

config.json has an entry with the head's settings, and model.safetensors has its weights next to the body's, so such a
model is saved and loaded like any other. transformers itself would load only the body.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils.generic import ModelOutput

from subgraft.config.heads import LSTM_LAYERS, BilstmSettings, SanSettings
from subgraft.modeling.families import family_of
from subgraft.modeling.families.heads import kind_of_class, own_head_in


class San(nn.Module):
    """The stochastic answer network (Liu et al., ACL 2019, equations 3 to 5).

    The state s starts as a weighted mean of the second text's tokens; x is a weighted mean of the first text's tokens,
    by attention from s. Each step predicts from (s, x), and s becomes GRU(s, x). As in the authors' code, the first x
    is computed from the first s, which the paper does not define. The outputs are the logarithms of the mean of the
    steps' probabilities.
    """

    def __init__(self, settings: SanSettings, width: int, labels: int, dropout: float) -> None:
        super().__init__()
        self._steps, self._step_dropout = settings.steps, settings.step_dropout
        self.dropout = nn.Dropout(dropout)
        self.summary = nn.Linear(width, 1, bias=False)
        self.attention = nn.Linear(width, width, bias=False)
        self.memory = nn.GRUCell(width, width)
        self.classifier = nn.Linear(4 * width, labels)

    def forward(self, layers: tuple[Tensor, ...], mask: Tensor, segments: Tensor) -> Tensor:
        """The logits [R, C].

        Args:
            layers: the states of all layers, [R, T, d] each.
            mask: zero for padding [R, T].
            segments: the text of each token, 0 or 1 [R, T].
        """
        states = self.dropout(layers[-1])
        first, second = (_additive_mask(mask.bool() & (segments == text)) for text in (0, 1))
        state = _weighted_mean(states, self.summary(states).squeeze(-1) + second)
        steps = []
        for step in range(self._steps):
            read = _weighted_mean(states, (states @ self.attention(state)[:, :, None]).squeeze(-1) + first)
            features = torch.cat([state, read, (state - read).abs(), state * read], dim=-1)
            steps.append(self.classifier(features).log_softmax(dim=-1))
            if step + 1 < self._steps:
                state = self.memory(read, state)
        is_counted = self.remaining(len(states), states.device)
        weights = (is_counted / is_counted.sum(dim=1, keepdim=True)).log()
        return (torch.stack(steps, dim=1) + weights[:, :, None]).logsumexp(dim=1)

    def remaining(self, rows: int, device: torch.device) -> Tensor:
        """Whether each step's prediction counts, as 0 or 1 [R, K]: in evaluation all of them, in training at least one.

        In training a random step always counts, and each other step with probability 1 - step_dropout.
        """
        if not self.training:
            return torch.ones(rows, self._steps, device=device)
        is_counted = torch.rand(rows, self._steps, device=device) >= self._step_dropout
        always_counted = torch.randint(self._steps, (rows, 1), device=device)
        return is_counted.scatter(1, always_counted, value=True).float()


class Bilstm(nn.Module):
    """A BiLSTM on the concatenated states of the top layers (Devlin et al. 2019, section 5.3)."""

    def __init__(self, settings: BilstmSettings, width: int, labels: int, dropout: float, of_tokens: bool) -> None:
        super().__init__()
        self._layers, self._of_tokens = settings.concatenated_layers, of_tokens
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(self._layers * width, settings.width, LSTM_LAYERS, batch_first=True, bidirectional=True)
        self.classifier = nn.Linear(2 * settings.width, labels)

    def forward(self, layers: tuple[Tensor, ...], mask: Tensor, segments: Tensor) -> Tensor:
        """The logits of each token [R, T, C], or of the maximum over tokens [R, C]. The arguments are those of San."""
        del segments
        inputs = self.dropout(torch.cat(layers[-self._layers :], dim=-1))
        # Rows are padded on the right. Packing makes the backward direction start at the last token of each text.
        packed = pack_padded_sequence(inputs, mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=mask.shape[1])
        if not self._of_tokens:
            states = states.masked_fill(mask[:, :, None] == 0, -torch.inf).amax(dim=1)
        logits: Tensor = self.classifier(self.dropout(states))
        return logits


def _additive_mask(seen: Tensor) -> Tensor:
    """The mask that is added to attention scores: a very low number at invisible places."""
    return torch.zeros(seen.shape, device=seen.device).masked_fill(~seen, torch.finfo(torch.float32).min)


def _weighted_mean(states: Tensor, logits: Tensor) -> Tensor:
    """The mean of [R, T, d], by the softmax of [R, T]."""
    return (logits.softmax(dim=-1).to(states.dtype)[:, None, :] @ states).squeeze(1)


class _WithOwnHead:
    """A mixin that replaces the head of transformers' class."""

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__(config)  # type: ignore[call-arg]
        model: Any = self
        for name, child in list(model.named_children()):
            if child is not model.base_model:
                delattr(model, name)
        if getattr(model.base_model, "pooler", None) is not None:
            model.base_model.pooler = None
        entries = config.to_dict()
        settings, labels, width = own_head_in(entries), model.config.num_labels, model.config.hidden_size
        dropout_keys = (*family_of(entries).head_dropout_keys, "hidden_dropout_prob", "dropout")
        rates = (getattr(config, name, None) for name in dropout_keys)
        dropout = next((float(rate) for rate in rates if rate is not None), 0.0)
        if isinstance(settings, BilstmSettings):
            of_tokens = kind_of_class(type(self).__name__) == "tokens"
            model.own_head = Bilstm(settings, width, labels, dropout, of_tokens)
        else:
            assert settings is not None
            model.own_head = San(settings, width, labels, dropout)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, segments: Tensor | None = None, **inputs: Tensor
    ) -> ModelOutput:
        """segments: the text of each token [R, T]; 0 by default."""
        model: Any = self
        outputs = model.base_model(
            input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=True, **inputs
        )
        segments = torch.zeros_like(input_ids) if segments is None else segments
        with torch.autocast(input_ids.device.type, enabled=False):
            weight = model.own_head.classifier.weight
            states = (*outputs.hidden_states[:-1], outputs.last_hidden_state)  # which a norm may follow
            layers = tuple(each.to(weight.dtype) for each in states)
            return SequenceClassifierOutput(logits=model.own_head(layers, attention_mask, segments))

    def train(self, mode: bool = True) -> Any:
        """Set the mode; a frozen body stays in evaluation mode, without dropout."""
        model: Any = super().train(mode)  # type: ignore[misc]
        if not any(parameter.requires_grad for parameter in model.base_model.parameters()):
            model.base_model.eval()
        return model

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        model: Any = self
        if isinstance(module, nn.GRUCell):
            module.reset_parameters()
        elif module is not model:  # whose class may draw the head that is no longer there
            super()._init_weights(module)  # type: ignore[misc]


# The classes that were created, by the name of transformers' class.
_CLASSES: dict[str, type[PreTrainedModel]] = {}


def with_own_head(kind_class: type[PreTrainedModel]) -> type[PreTrainedModel]:
    """transformers' class of a model with a head, with the head of a configuration's entry in place of it."""
    members = {"__module__": kind_class.__module__, "__doc__": _WithOwnHead.__doc__}
    name = kind_class.__name__
    return _CLASSES.get(name) or _CLASSES.setdefault(name, type(f"OwnHead{name}", (_WithOwnHead, kind_class), members))
