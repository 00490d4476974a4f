"""Causal language modelling with an encoder: the ablation "LTR & No NSP" (Devlin et al. 2019, section 5.1).

The model's configuration declares it a decoder, so transformers hides later tokens wherever the model is used: in
pretraining, in finetuning, and outside of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from subgraft.training.objectives.masked import MaskedSettings
from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    import numpy as np

    from subgraft.subwords.vocabulary.tokenizer import Tokenizer
    from subgraft.training.objectives.compute.interface import Examples, Objective, ObjectiveInputs
    from subgraft.training.objectives.compute.masked_inputs import InputText
    from subgraft.training.objectives.compute.single_stack import StackExample


class LeftToRightSettings(AnyObjective):
    """A causal language model of an encoder (Devlin et al. 2019, section 5.1, "LTR & No NSP"): each token is predicted
    from those before it, also in finetuning. The first state sees only the first token, so texts are classified with a
    head of kind bilstm.

    input: as in `masked`, without pairs.
    """

    kind: Literal["left-to-right"] = "left-to-right"
    input: Literal["sentences", "full-sentences", "doc-sentences"] = "sentences"

    writes = False
    one_sided = True

    @property
    def needs_documents(self) -> bool:  # type: ignore[override]
        return self.input != "sentences"

    def pretraining(self, request: ObjectiveInputs) -> Objective:
        """Raises UserError for a model that sees later tokens, and a corpus without the documents that it needs."""
        from subgraft.modeling.heads import require_left_to_right
        from subgraft.training.objectives.compute.causal import CausalView
        from subgraft.training.objectives.compute.masked_inputs import inputs_of
        from subgraft.training.objectives.compute.single_stack import StackObjective

        model, tokenizer = request.bundle.model, request.bundle.encoder
        require_left_to_right(model)
        examples = CausalInputs(inputs_of(MaskedSettings(input=self.input), request), tokenizer)
        return StackObjective(model, examples, tokenizer.special["pad"], CausalView)


class CausalInputs:
    """Texts between [CLS] and [SEP]. Each token, and the [SEP], is predicted from the state of the token before it."""

    def __init__(self, inputs: Examples[InputText], tokenizer: Tokenizer) -> None:
        self._inputs = inputs
        self._begin, self._end = tokenizer.special["bos"], tokenizer.special["eos"]

    def __len__(self) -> int:
        return len(self._inputs)

    @property
    def lengths(self) -> np.ndarray:
        lengths: np.ndarray = self._inputs.lengths + 2
        return lengths

    def example(self, index: int, epoch: int) -> StackExample:
        from subgraft.training.objectives.compute.causal import shift_labels

        return shift_labels([self._begin, *self._inputs.example(index, epoch).tokens, self._end])
