# mypy: allow-untyped-calls
"""What a model family is: all that tells one kind of model from another, in one object.

Everything else asks the family of a model, or of a config.json, and compares no model type and no class. What a plan
asks (sizes, limits, parameters) is answered from config.json alone: torch and transformers are imported inside the
methods that build, load or run a model, never by importing this module.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from subgraft.base.errors import UserError
from subgraft.modeling.families.model_parts import (
    Config,
    Parameters,
    Projection,
    SequenceFormat,
    Side,
    Tables,
    TableSize,
)

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn
    from transformers import PreTrainedConfig, PreTrainedModel

    from subgraft.config.conditioning import SourceSettings
    from subgraft.config.corpora import Languages
    from subgraft.config.settings_base import SideName
    from subgraft.modeling.conditioning.copying import TargetStates
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# What a model that is not supported can be used for all the same.
ITS_VOCABULARY = (
    "Its vocabulary can be used: `subgraft similar`, and `subgraft vocab learn --like`, `extend`, `trim`, `compare`."
)


class Family(ABC):
    """One kind of model. There is one object of each, in `FAMILIES`; it has no state.

    model_type: as config.json names it; a configuration's `model.family` is the same word.
    sides: those that have a table. A BERT's one table is both sides' of the encoder-decoder made from it.
    objectives: what a checkpoint of it may have been pretrained with.
    generates: whether it writes text as it is; else `assemble` makes a model that does.
    one_table: whether encoder and decoder cannot have vocabularies of their own.
    attends_to_source: whether the layers of a decoder alone have a place for attention to a source.
    has_source: whether its models read a source that is no text of theirs.
    lends_encoder: whether its encoder, where it has one, can stand in another model: it is one of transformers' own.
    transposed: whether the weights of its projections are [inputs, outputs], where others' are [outputs, inputs].
    absent_weights: beginnings of the names of weights that a checkpoint need not have, since nothing reads them.
    """

    model_type: ClassVar[str]
    sides: ClassVar[tuple[SideName, ...]] = ("encoder", "decoder")
    objectives: ClassVar[frozenset[str]]
    generates: ClassVar[bool] = True
    one_table: ClassVar[bool] = False
    attends_to_source: ClassVar[bool] = False
    has_source: ClassVar[bool] = False
    lends_encoder: ClassVar[bool] = True
    transposed: ClassVar[bool] = False
    absent_weights: ClassVar[tuple[str, ...]] = ()

    # What config.json tells, without torch.

    def check(self, config: Config) -> None:  # noqa: B027
        """Raises UserError for models of this model type that are not known all the same."""

    def position_limit(self, config: Config) -> int | None:
        """The longest sequence that the model takes, in tokens; None where nothing limits it."""
        limit = config.get("max_position_embeddings")
        return None if limit is None else int(limit)

    def computed_numbers(self, config: Config) -> int:
        """How many numbers a loaded model holds that are neither parameters nor in its weights."""
        return 0

    @abstractmethod
    def layers(self, config: Config, side: SideName) -> int:
        """How many layers the side has; 0 for a side that has none of its own."""

    @abstractmethod
    def width(self, config: Config) -> int:
        """d, the length of a hidden state, and of an embedding unless `embedding_width` says else."""

    def embedding_width(self, config: Config) -> int:
        """The length of a row of the tables, where it is not that of a hidden state."""
        return self.width(config)

    @abstractmethod
    def inner_width(self, config: Config) -> int:
        """The width of the widest feed-forward layer."""

    def weight_scale(self, config: Config) -> float:
        """The standard deviation that the rows of the tables were drawn with. config: of the side."""
        told = config.get("init_std") or config.get("initializer_range")
        return float(told or self.width(config) ** -0.5)

    def vocabulary_sizes(self, config: Config) -> dict[SideName, int]:
        """How many rows each side's input table has."""
        return dict.fromkeys(self.sides, int(config["vocab_size"]))

    @abstractmethod
    def with_vocabularies(self, config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
        """The configuration after a transfer, with other vocabularies on the given sides."""

    def parameters(self, config: Config, frozen: Iterable[SideName] = ()) -> Parameters:
        """By formula; tensors that are tied count once. frozen: sides whose tables are not trained."""
        body, still = self.body_parameters(config), frozenset(frozen)
        tables = self.table_sizes(config)
        trained = sum(table.numbers for table in tables if not table.sides & still)
        return Parameters(body.total + sum(table.numbers for table in tables), body.trained + trained)

    @abstractmethod
    def body_parameters(self, config: Config) -> Parameters:
        """Of all that is no table."""

    @abstractmethod
    def table_sizes(self, config: Config) -> list[TableSize]:
        """Input tables, output projections and biases that are trained, each tensor once."""

    @abstractmethod
    def projections(self, config: Config) -> list[Projection]:
        """The linear maps of attention and feed-forward layers, which adapters may stand beside."""

    def in_words(self, config: Config) -> str:
        """The model's kind and size, as a report tells them."""
        layers = " + ".join(str(self.layers(config, side)) for side in self.sides)
        return f"{self.model_type}, {layers} layers of width {self.width(config)}"

    def assembled(self, config: Config) -> dict[str, Any]:
        """The configuration of the model that `assemble` makes; its own where the family generates as it is."""
        return dict(config)

    @abstractmethod
    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
    ) -> SequenceFormat:
        """The special tokens around a sequence, by the model's configuration and the tokenizers that it is read with.

        The tokenizers may be other ones than the model's own, so ids of the configuration are looked up by role.
        Raises UserError where a tokenizer lacks a token that is needed, and where the model marks languages and
        `languages` is None.
        """

    def runs_in_ctranslate2(self, config: Config) -> bool:
        """Whether `ctranslate2_specification` describes such models."""
        return False

    # New models. `settings` are the family's own in config/models.py.

    def described(self, settings: Any, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        """The configuration of a new model over vocabularies of these sizes, in all that its parameters depend on."""
        raise UserError(f"new models of the family {self.model_type} cannot be built")

    def build(self, settings: Any, encoder: Tokenizer, decoder: Tokenizer, seed: int) -> PreTrainedModel:
        """A new model over the tokenizers of its sides (a family of one vocabulary reads the decoder's alone).

        Its weights are a function of the seed; the caller's random state is left as it was.
        """
        raise UserError(f"new models of the family {self.model_type} cannot be built")

    def assemble(self, model: PreTrainedModel, tokenizer: Tokenizer, seed: int) -> PreTrainedModel:
        """The model that generates text, made from this one; new weights are a function of the seed."""
        raise UserError(f"a {self.model_type} model generates text as it is: there is nothing to assemble")

    # Models on disk.

    @abstractmethod
    def model_class(self) -> type[PreTrainedModel]:
        """The class of transformers that loads it."""

    def post_init(self, model: PreTrainedModel) -> None:  # noqa: B027
        """Mend what transformers constructs otherwise than the model means it, after building or loading."""

    def published_tokenizers(self, directory: Path) -> dict[SideName, Tokenizer] | None:
        """Tokenizers from a layout of files that only this family is published in; None where it is not that."""
        return None

    def published_numbering(self, encoder: Tokenizer, decoder: Tokenizer) -> Mapping[SideName, Sequence[int]]:
        """The order of each side's tokens, as ids that they have now, that the published layout asks for.

        Sides whose order is not asked for are left out.
        """
        return {}

    def save_published_tokenizers(
        self, encoder: Tokenizer, decoder: Tokenizer, directory: Path, settings: Mapping[str, Any]
    ) -> bool:
        """Write tokenizers in a layout of files that only this family is published in; False where there is none.

        They are numbered as `published_numbering` asks.  settings: more of tokenizer_config.json.  Raises UserError,
        and writes nothing, for tokenizers that transformers could not read in any layout.
        """
        return False

    def ctranslate2_specification(self, model: PreTrainedModel) -> Any:
        """CTranslate2's description of the model, weights included; the model is used up.

        Raises UserError where CTranslate2 has no such models.
        """
        raise UserError(
            f"{self.model_type} models cannot be exported to CTranslate2",
            hint="`subgraft export --to transformers` writes what transformers loads.",
        )

    # Models in memory: the sides and their tables.

    def side_config(self, model: PreTrainedModel, name: SideName) -> PreTrainedConfig:
        """The configuration that holds a side's sizes and padding: the model's own, unless each side has one."""
        config: PreTrainedConfig = model.config
        return config

    @abstractmethod
    def input_table(self, model: PreTrainedModel, name: SideName) -> nn.Embedding:
        """The side's own module."""

    def output_bias(self, model: PreTrainedModel) -> Tensor | None:
        """What is added to the logits, [1, V] or [V]."""
        bias: Tensor | None = model.get_output_embeddings().bias
        return bias

    def transform(self, model: PreTrainedModel) -> Callable[[Tensor], Tensor] | None:
        """What the decoder's top states go through before the output projection."""
        return None

    def side(self, model: PreTrainedModel, name: SideName) -> Side:
        """One side of the model. Raises UserError where the family has no such side."""
        if name not in self.sides:
            raise UserError(f"a {self.model_type} model has no {name}", hint=f"Its sides: {', '.join(self.sides)}.")
        table = self.input_table(model, name)
        if name == "encoder":
            return Side(name, table, None, None, False, table.padding_idx)
        output = model.get_output_embeddings()
        tied, padding_id = output.weight is table.weight, self.side_config(model, name).pad_token_id
        return Side(name, table, output, self.output_bias(model), tied, padding_id, self.transform(model))

    @abstractmethod
    def replace_tables(self, model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
        """The model with new tables at the given sides; sizes and padding ids in its configuration follow.

        The given model is used up. Tied projections stay tied, untied ones untied. Raises UserError where the family
        cannot have such tables, before anything is changed.
        """

    # Models in memory: hidden states. layer: after which one, counted from 1; None for the top of the stack.

    def encoder_states(self, model: nn.Module, *, layer: int | None = None, **inputs: Any) -> Tensor:
        """States [B, S, d] of `input_ids` or `inputs_embeds` under an `attention_mask`."""
        encoder: Any = model.get_encoder()  # type: ignore[operator]
        return states_at(encoder(**inputs, output_hidden_states=layer is not None), layer)

    def decoder_states(
        self, model: nn.Module, memory: Tensor, mask: Tensor, *, layer: int | None = None, **inputs: Any
    ) -> Tensor:
        """States [B, T, d] of `input_ids` or `inputs_embeds`, beside the encoder's states [B, S, d] and their mask."""
        decoded = model.get_decoder().base_model(  # type: ignore[operator]
            encoder_hidden_states=memory,
            encoder_attention_mask=mask,
            use_cache=False,
            output_hidden_states=layer is not None,
            **inputs,
        )
        return states_at(decoded, layer)

    def stack_states(self, model: nn.Module, *, layer: int | None = None, **inputs: Any) -> Tensor:
        """States [B, T, d] of a model of one stack, an encoder or a decoder alone."""
        stack: Any = model.base_model
        return states_at(stack(**inputs, output_hidden_states=layer is not None), layer)

    def source(self, config: Config) -> SourceSettings | None:
        """What the model reads beside the text that it writes; None where it has no source of its own."""
        return None

    def selects(self, config: Config) -> bool:
        """Whether the model has a content selector, which learns what of a source is copied."""
        return False

    def pretrained_stack(self, model: nn.Module) -> nn.Module | None:
        """The language model inside a decoder alone, or it itself; None where that is not pretrained."""
        return model

    def states_with_source(self, model: nn.Module, source: Tensor, mask: Tensor, **inputs: Any) -> TargetStates:
        """Of a decoder alone beside a source [B, S, …]; a model that has none does not look at it."""
        from subgraft.modeling.conditioning.copying import TargetStates

        return TargetStates(self.stack_states(model, **inputs))

    def input_scale(self, model: nn.Module, side: Side) -> float:
        """What rows of the side's table are multiplied by before they are given as `inputs_embeds`.

        By default what the embedding module itself multiplies by, which `inputs_embeds` pass by.
        """
        return float(getattr(side.input, "embed_scale", 1.0))


def states_at(output: Any, layer: int | None) -> Tensor:
    """The top states of a transformers output, or those after a layer."""
    states: Tensor = output.last_hidden_state if layer is None else output.hidden_states[layer]
    return states


def one_table_only(model_type: str) -> UserError:
    """What to raise where the one table of an encoder-decoder would have to be two."""
    return UserError(
        f"a {model_type} model has one table for all it reads and predicts, and so one vocabulary for both sides",
        hint="Give both sides one vocabulary: `sides: [encoder, decoder]` and `downstream.shared: true`.",
    )


def same_padding_only(model_type: str, padding_id: int | None, new: int | None) -> None:
    """Raises UserError where a model that counts positions from its padding id would get another one."""
    if new != padding_id:
        raise UserError(
            f"this {model_type} model counts positions from its padding id, {padding_id}, and "
            f"the vocabulary's is {new}",
            hint="Use a vocabulary that pads with the same id: `subgraft vocab learn` makes SentencePiece ones so.",
        )
