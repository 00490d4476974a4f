"""Causal language modelling with an encoder: the ablation "LTR & No NSP" (Devlin et al. 2019, section 5.1).

The model's configuration declares it a decoder, so transformers hides later tokens wherever the model is used: in
pretraining, in finetuning, and outside of this package.
"""

from __future__ import annotations

import numpy as np

from subgraft.config.settings_base import SideName
from subgraft.modeling.left_to_right import require_left_to_right
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.causal import CausalView, shift_labels
from subgraft.training.objectives.compute.interface import Examples, Request
from subgraft.training.objectives.compute.masked_inputs import AROUND, InputText, inputs_of
from subgraft.training.objectives.compute.single_stack import StackExample, StackObjective
from subgraft.training.objectives.left_to_right import LeftToRightSettings
from subgraft.training.objectives.masked import MaskedSettings


class CausalInputs:
    """Texts between [CLS] and [SEP]. Each token, and the [SEP], is predicted from the state of the token before it."""

    def __init__(self, inputs: Examples[InputText], tokenizer: Tokenizer) -> None:
        self._inputs = inputs
        self._begin, self._end = tokenizer.special["bos"], tokenizer.special["eos"]

    def __len__(self) -> int:
        return len(self._inputs)

    @property
    def lengths(self) -> np.ndarray:
        lengths: np.ndarray = self._inputs.lengths + AROUND
        return lengths

    def example(self, index: int, epoch: int) -> StackExample:
        return shift_labels([self._begin, *self._inputs.example(index, epoch).tokens, self._end])


class LeftToRightObjective(StackObjective):
    """Left-to-right language modelling of the text of each language."""

    def __init__(self, settings: LeftToRightSettings, request: Request) -> None:
        """Raises UserError for a model that sees later tokens, and a corpus without the documents that it needs."""
        model, tokenizer = request.bundle.model, request.bundle.encoder
        require_left_to_right(model)
        examples = CausalInputs(inputs_of(MaskedSettings(input=settings.input), request), tokenizer)
        super().__init__(model, examples, tokenizer.special["pad"])

    def view(self, name: SideName) -> CausalView:
        del name
        return CausalView(self._examples, self._padding)
