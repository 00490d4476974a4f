"""Settings of heads that transformers has no class for, on the body of an encoder."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from subgraft.base.limits import MAX_WIDTH
from subgraft.config.settings_base import Settings

# The layers of the BiLSTM of Devlin et al. (2019, section 5.3), and the gates of an LSTM and a GRU.
LSTM_LAYERS = 2
_LSTM_GATES, _GRU_GATES = 4, 3


class SanSettings(Settings):
    """The stochastic answer network, MT-DNN's head for pairs of texts (Liu et al., ACL 2019, section 3): in each step a
    state of the second text attends to the first one and predicts, and the predictions are averaged.

    kind: the kind of head.
    steps: the number of predictions that are averaged.
    step_dropout: the probability that training leaves a prediction out of the average; one always remains.
    """

    kind: Literal["san"] = "san"
    steps: Annotated[int, Field(ge=1, le=100)] = 5
    step_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1

    def parameters(self, width: int, labels: int) -> int:
        """Parameters on states of this width."""
        return width + width**2 + 2 * _GRU_GATES * width * (width + 1) + labels * (4 * width + 1)


class BilstmSettings(Settings):
    """A BiLSTM of two layers on the concatenated states of the top layers (Devlin et al. 2019, section 5.3): with
    `train: head` the feature-based use of a model. Tags are predicted from its states at words' first pieces, labels of
    a text from the maximum of its states over the tokens.

    kind: the kind of head.
    width: the width of its states in each direction.
    concatenated_layers: how many layers of the body it reads, from the top.
    """

    kind: Literal["bilstm"] = "bilstm"
    width: Annotated[int, Field(ge=1, le=MAX_WIDTH)] = 768
    concatenated_layers: Annotated[int, Field(ge=1, le=1000)] = 4

    def parameters(self, width: int, labels: int) -> int:
        """Parameters on states of this width."""
        inputs = self.concatenated_layers * width + (LSTM_LAYERS - 1) * 2 * self.width
        return 2 * _LSTM_GATES * self.width * (inputs + LSTM_LAYERS * (self.width + 2)) + labels * (2 * self.width + 1)


HeadSettings: TypeAlias = Annotated[SanSettings | BilstmSettings, Field(discriminator="kind")]
