# mypy: allow-untyped-calls
"""The interface of a model family: everything that distinguishes one kind of model from another, in one object.

All other code asks the family of a model or of a config.json, and never compares model types or classes. Sizes, limits
and parameter counts are computed from config.json alone: torch and transformers are imported inside the methods that
build, load or run a model, never at import of this module.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from subgraft.base.errors import UserError
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.heads import Head, head_in, is_headed
from subgraft.modeling.families.input_layout import DEFAULT_MAX_LENGTH, InputLayout
from subgraft.modeling.families.model_parts import Config, Parameters, Projection, Side, Tables, TableSize
from subgraft.modeling.families.sequence_format import SequenceFormat

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn
    from transformers import PreTrainedConfig, PreTrainedModel

    from subgraft.config.corpora import Languages
    from subgraft.config.settings_base import HeadKind, SideName
    from subgraft.modeling.conditioning.copying import TargetStates
    from subgraft.modeling.conditioning.settings import SourceSettings
    from subgraft.modeling.families.gguf_layout import GgufLayout
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# A hint for unsupported models.
ITS_VOCABULARY = (
    "Its vocabulary can be used: `subgraft similar`, and `subgraft vocab learn --like`, `extend`, `trim`, `compare`."
)
# The entity of a token without one, in a model that reads entities.
NO_ENTITY = -1


class Family(ABC):
    """One kind of model. `FAMILIES` holds one stateless object of each.

    Attributes:
        model_type: The name in config.json; also the value of `model.family` in a configuration.
        sides: The sides that have embeddings. A BERT's single matrix serves both sides of the encoder-decoder that is
            assembled from it.
        objectives: Pretraining objectives that a checkpoint of this family may have.
        generates: Whether the model generates text; if not, `assemble` makes a model that does.
        one_table: Whether encoder and decoder must share one vocabulary.
        attends_to_source: Whether the layers of a decoder-only model support cross-attention to a source.
        has_source: Whether its models read a source next to the text that they write (`conditioning`).
        lends_encoder: Whether another model can use its encoder: it is one of transformers' own classes.
        transposed: Whether projection weights are [inputs, outputs] instead of [outputs, inputs].
        absent_weights: Name prefixes of unused weights, which a checkpoint may lack.
        head_dropout_keys: The names in config.json of the dropout before a classifying head's output.
        forwards_inputs: The additional inputs that make each token of a stack see only earlier ones; empty if this is
            always the case.
        retained_head: Name prefixes of weights outside of the body that a classifying head shares with the head that
            predicts tokens.
        pads_left: Whether inputs of a head for whole texts are padded on the left, because it reads the last state.
        transformers_class: The name of the transformers class that loads the model.
        next_sentence_class: The name of the class that also predicts whether a segment follows another, if any.
        auto_class: The transformers auto class of the head that predicts tokens, if it is not the usual one.
        ctranslate2_loader: The name of CTranslate2's loader of such models; None if they are not exported to it.
        ctranslate2_encoder: The name of CTranslate2's loader of their encoder without a head; None if it has none.
        memory: The class of objectives whose model's layers read their own states of earlier blocks of a document, as
            an entry; None for layers that have no memory.
        gguf: How llama.cpp names and arranges their weights; None if they are not exported to it.
        width_key, inner_width_key, layers_key, heads_key, positions_key: The names of these sizes in config.json.
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
    head_dropout_keys: ClassVar[tuple[str, ...]] = ("classifier_dropout",)
    forwards_inputs: ClassVar[Mapping[str, Any]] = {}
    retained_head: ClassVar[tuple[str, ...]] = ()
    pads_left: ClassVar[bool] = False
    transformers_class: ClassVar[str]
    next_sentence_class: ClassVar[str | None] = None
    auto_class: ClassVar[str | None] = None
    ctranslate2_loader: ClassVar[str | None] = None
    ctranslate2_encoder: ClassVar[str | None] = None
    memory: ClassVar[str | None] = None
    gguf: ClassVar[GgufLayout | None] = None
    width_key: ClassVar[str] = "hidden_size"
    inner_width_key: ClassVar[str] = "intermediate_size"
    layers_key: ClassVar[str] = "num_hidden_layers"
    heads_key: ClassVar[str] = "num_attention_heads"
    positions_key: ClassVar[str] = "max_position_embeddings"

    # Computed from config.json, without torch.

    def check(self, config: Config) -> None:  # noqa: B027
        """Raises UserError for unsupported models of this model type."""

    def check_token_head(self, config: Config) -> None:  # noqa: B027
        """Raises UserError for models that were pretrained without a head that predicts tokens."""

    def completed(self, config: Config, weights: Iterable[str]) -> Config:
        """The configuration, completed by entries that can be derived only from the names of the stored weights."""
        return config

    def predicts_next_sentence(self, config: Config) -> bool:
        """Whether the model of a config.json also predicts whether a segment follows another."""
        return self.next_sentence_class is not None and config.get("architectures") == [self.next_sentence_class]

    def position_limit(self, config: Config) -> int | None:
        """The longest sequence that the model accepts, in tokens; None for no limit."""
        limit = config.get(self.positions_key)
        return None if limit is None else int(limit)

    def computed_numbers(self, config: Config) -> int:
        """The number of elements that a loaded model computes: they are neither parameters nor stored weights."""
        return 0

    def entity_ids(self, model: PreTrainedModel) -> Mapping[str, int]:
        """The entities that a model reads, by name; none if it reads none."""
        return {}

    def take_inputs(self, model: PreTrainedModel, inputs: Mapping[str, Path]) -> None:  # noqa: B027
        """Give a new model what it reads besides its vocabularies, from the directories of its inputs."""

    def task_embeddings(self, config: Config) -> int:
        """The number of objectives with an embedding, which is added to the token embeddings in their batches."""
        return 0

    @abstractmethod
    def layers(self, config: Config, side: SideName) -> int:
        """The number of layers of a side; 0 for a side without its own layers."""

    def width(self, config: Config) -> int:
        """d, the width of hidden states, and of embeddings unless `embedding_width` is overridden."""
        return int(config[self.width_key])

    def embedding_width(self, config: Config) -> int:
        """The width of the embeddings."""
        return self.width(config)

    def inner_width(self, config: Config) -> int:
        """The width of the widest feed-forward layer."""
        return int(config[self.inner_width_key])

    def weight_scale(self, config: Config) -> float:
        """The standard deviation of the initial embeddings. config: the side's configuration."""
        scale = config.get("init_std") or config.get("initializer_range")
        return float(scale or self.width(config) ** -0.5)

    def vocabulary_sizes(self, config: Config) -> dict[SideName, int]:
        """The number of rows of each side's input embeddings."""
        return dict.fromkeys(self.sides, int(config["vocab_size"]))

    @abstractmethod
    def with_vocabularies(self, config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
        """The configuration after a transfer that gives some sides vocabularies of other sizes."""

    def parameters(self, config: Config, frozen: Iterable[SideName] = ()) -> Parameters:
        """Parameter counts by formula; tied tensors count once. frozen: sides whose embeddings are not trained."""
        head, untrained = head_in(config), frozenset(frozen)
        if head is None:
            body, tables = self.body_parameters(config), self.table_sizes(config)
        else:
            # A model with a classifying head has one table and no output projection.
            rows = int(config["vocab_size"]) * self.embedding_width(config)
            body, tables = self.headed_body_parameters(config, head), [TableSize(frozenset(self.sides), rows)]
        trained = sum(table.numbers for table in tables if not table.sides & untrained)
        return Parameters(body.total + sum(table.numbers for table in tables), body.trained + trained)

    @abstractmethod
    def body_parameters(self, config: Config) -> Parameters:
        """Parameters outside the embeddings and the output projection."""

    @abstractmethod
    def table_sizes(self, config: Config) -> list[TableSize]:
        """Input embeddings, output projections and their trained biases, each tensor once."""

    def headed_body_parameters(self, config: Config, head: Head) -> Parameters:
        """Parameters outside the embeddings of a model with a classifying head."""
        body, own = self.body_parameters(config), self.classifier_parameters(config, head)
        return Parameters(body.total + own, body.trained + own)

    def classifier_parameters(self, config: Config, head: Head) -> int:
        """Parameters of a classifying head. A head for texts has a dense layer before its outputs."""
        width = self.width(config)
        dense = parameter_counts.linear(width, width) if head.kind in ("sequence", "choice") else 0
        return dense + parameter_counts.linear(width, len(head.labels))

    @abstractmethod
    def projections(self, config: Config) -> list[Projection]:
        """The linear maps of attention and feed-forward layers, to which adapters can be attached."""

    def in_words(self, config: Config) -> str:
        """The model's kind and size, for reports."""
        layers = " + ".join(str(self.layers(config, side)) for side in self.sides)
        return f"{self.model_type}, {layers} layers of width {self.width(config)}"

    def assembled(self, config: Config) -> dict[str, Any]:
        """The configuration of the model that `assemble` makes; unchanged for a family that generates text itself."""
        return dict(config)

    @abstractmethod
    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
    ) -> SequenceFormat:
        """The special tokens around source and target sequences.

        The tokenizers may differ from the model's own, so ids in the configuration are looked up by role.

        Raises:
            UserError: A tokenizer lacks a required token, or the model has language codes and `languages` is None.
        """

    def input_layout(self, config: Config, tokenizer: Tokenizer, languages: Languages | None) -> InputLayout:
        """The special tokens around one text and a pair of texts that a model with a classifying head reads.

        Raises UserError as `sequence_format` does.
        """
        form = self.sequence_format(config, tokenizer, tokenizer, languages)
        separator, longest = self.separator(form.source_ending), self.position_limit(config)
        segments = self.has_segments(config)
        return InputLayout(
            form.source_beginning, separator, form.source_ending, segments, longest or DEFAULT_MAX_LENGTH
        )

    def separator(self, ending: tuple[int, ...]) -> tuple[int, ...]:
        """The tokens between two texts, given those after the last."""
        return ending

    def sentence_separator(self, tokenizer: Tokenizer) -> tuple[int, ...]:
        """The tokens between the sentences of a text that the model reconstructs; by default none, as in BART."""
        return ()

    def ends_blocks(self, config: Config) -> bool:
        """Whether a text of several sentences ends with another token than its sentences, as translated blocks must."""
        return False

    def has_segments(self, config: Config) -> bool:
        """Whether the model reads segment ids, which mark the tokens of a second text."""
        return False

    def runs_in_ctranslate2(self, config: Config) -> bool:
        """Whether `ctranslate2_specification` supports such models."""
        return self.ctranslate2_loader is not None

    # New models. `settings` are the family's own in config/models.py.

    def config_dict(self, settings: Any, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        """The entries of a new model's configuration that determine its parameters, for vocabularies of these sizes.

        By default those of a model with one stack, under the names that the family declares.
        """
        return {
            "model_type": self.model_type,
            "vocab_size": decoder_size,
            self.width_key: settings.d_model,
            self.layers_key: settings.layers,
            self.heads_key: settings.attention_heads,
            self.inner_width_key: settings.ffn_dim,
            self.positions_key: settings.max_positions,
        }

    def build(self, settings: Any, encoder: Tokenizer, decoder: Tokenizer, seed: int) -> PreTrainedModel:
        """A new model for these tokenizers (a family with one vocabulary uses the decoder's only).

        The weights depend on the seed only; the caller's random state is unchanged.
        """
        import torch

        kind: Any = self.model_class()
        entries = self.new_config(settings, encoder, decoder)
        config = kind.config_class(**{name: value for name, value in entries.items() if name != "model_type"})
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model: PreTrainedModel = kind(config)
        longest = getattr(config, "max_position_embeddings", None)
        if config.is_encoder_decoder and longest is not None:
            # Without a limit of its own, generate stops after 20 tokens.
            model.generation_config.max_length = longest
        self.post_init(model)
        return model

    def new_config(self, settings: Any, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        """The complete configuration of a new model for these tokenizers, as transformers' class takes it."""
        raise UserError(f"new models of the family {self.model_type} cannot be built")

    def assemble(self, model: PreTrainedModel, tokenizer: Tokenizer, seed: int) -> PreTrainedModel:
        """A model that generates text, assembled from this one; its new weights depend on the seed only."""
        raise UserError(f"a {self.model_type} model generates text as it is: there is nothing to assemble")

    def with_source_encoder(self, config: Config, layers: int, vocabulary: int, padding_id: int = 0) -> dict[str, Any]:
        """The configuration of the model with a source encoder of this number of layers and tokens."""
        raise UserError(f"a {self.model_type} model takes no source encoder", hint="Use a BART.")

    def with_context(self, config: Config, sentences: int, end_id: int) -> dict[str, Any]:
        """The configuration of a model whose encoder also reads the previous `sentences`, each ending with `end_id`."""
        hint = "Use an mBART whose sides share one vocabulary."
        raise UserError(f"a {self.model_type} model reads no sentences before", hint=hint)

    def untied(self, config: Config) -> dict[str, Any]:
        """The configuration of the model that `untie` makes: the same if its embeddings are two tables already.

        Raises UserError for a family that is not untied.
        """
        raise UserError(f"the output embeddings of a {self.model_type} model are not untied: only a decoder's are")

    def untie(self, model: PreTrainedModel) -> None:
        """Give the model output embeddings of its own, equal to the input embeddings with which they were tied."""
        raise NotImplementedError(self.model_type)

    def first_step_parameters(self, model: PreTrainedModel) -> list[nn.Parameter]:
        """The parameters that the first step of a finetuning with a source encoder trains."""
        raise UserError(f"a {self.model_type} model has no source encoder")

    # Models on disk.

    def model_class(self) -> type[PreTrainedModel]:
        """The class that loads the model: by default the transformers class that `transformers_class` names."""
        import transformers

        kind: type[PreTrainedModel] = getattr(transformers, self.transformers_class)
        return kind

    def class_of(self, config: Config) -> type[PreTrainedModel]:
        """The class that loads the model of a config.json: `next_sentence_class` if it says so, else `model_class`."""
        return self.model_class_with_next_sentence() if self.predicts_next_sentence(config) else self.model_class()

    def model_class_with_next_sentence(self) -> type[PreTrainedModel]:
        """The class that `next_sentence_class` names, by default of transformers."""
        import transformers

        kind: type[PreTrainedModel] = getattr(transformers, str(self.next_sentence_class))
        return kind

    def head_class(self, kind: HeadKind) -> type[PreTrainedModel] | None:
        """A class of this package for a kind of head; None where transformers' own is used, if it has one."""
        return None

    def for_transformers(self, model: PreTrainedModel) -> PreTrainedModel:
        """The part of the model that transformers has a class for: by default the model itself."""
        return model

    def post_init(self, model: PreTrainedModel) -> None:  # noqa: B027
        """Correct, after building or loading, what transformers constructs differently from the model's definition."""

    def published_tokenizers(self, directory: Path) -> dict[SideName, Tokenizer] | None:
        """Tokenizers from a file layout that is specific to this family; None if the directory does not have it."""
        return None

    def published_numbering(self, encoder: Tokenizer, decoder: Tokenizer) -> Mapping[SideName, Sequence[int]]:
        """The token order, as current ids, that the published layout requires of each side, if any."""
        return {}

    def save_published_tokenizers(
        self, encoder: Tokenizer, decoder: Tokenizer, directory: Path, settings: Mapping[str, Any]
    ) -> bool:
        """Write tokenizers in the file layout that is specific to this family; False if it has none.

        Args:
            encoder: The source tokenizer, numbered as `published_numbering` requires.
            decoder: The target tokenizer, numbered likewise.
            directory: Receives the files.
            settings: Additional entries of tokenizer_config.json.

        Raises:
            UserError: transformers cannot read these tokenizers in any layout; nothing is written.
        """
        return False

    def ctranslate2_settings(self, config: Config) -> Mapping[str, Any]:
        """Values that CTranslate2's loader expects in the model's configuration, where they differ from its own."""
        return {}

    def ctranslate2_specification(self, model: PreTrainedModel) -> Any:
        """CTranslate2's specification of the model with its weights. Consumes the model.

        Raises UserError if CTranslate2 does not support the model, or a feature of it, such as its activation function.
        """
        config = model.config.to_dict()
        if self.ctranslate2_loader is None or not self.runs_in_ctranslate2(config):
            raise UserError(
                f"this {self.model_type} model cannot be exported to CTranslate2",
                hint="`subgraft export --to transformers` writes what transformers loads.",
            )
        from ctranslate2.converters import transformers as loaders

        for name, value in self.ctranslate2_settings(config).items():
            setattr(model.config, name, value)
        try:
            return getattr(loaders, self.ctranslate2_loader)().get_model_spec(model)
        except (NotImplementedError, KeyError) as error:
            raise UserError(f"CTranslate2 cannot run this {self.model_type} model: {error}") from error

    # Models in memory: the sides and their tables.

    def side_config(self, model: PreTrainedModel, name: SideName) -> PreTrainedConfig:
        """The configuration with a side's sizes and padding id: the model's, unless each side has its own."""
        config: PreTrainedConfig = model.config
        return config

    @abstractmethod
    def input_table(self, model: PreTrainedModel, name: SideName) -> nn.Embedding:
        """The module of a side's input embeddings."""

    def output_bias(self, model: PreTrainedModel) -> Tensor | None:
        """The bias that is added to the logits, [1, V] or [V]."""
        bias: Tensor | None = model.get_output_embeddings().bias
        return bias

    def transform(self, model: PreTrainedModel) -> Callable[[Tensor], Tensor] | None:
        """The transform of the decoder's top states before the output projection, if any."""
        return None

    def side(self, model: PreTrainedModel, name: SideName) -> Side:
        """One side of the model. Raises UserError if the family has no such side."""
        if name not in self.sides:
            raise UserError(f"a {self.model_type} model has no {name}", hint=f"Its sides: {', '.join(self.sides)}.")
        table = self.input_table(model, name)
        if name == "encoder":
            return Side(name, table, None, None, False, table.padding_idx)
        if is_headed(model):
            return Side(name, table, None, None, False, self.side_config(model, name).pad_token_id)
        output = model.get_output_embeddings()
        config, tied = self.side_config(model, name), output.weight is table.weight
        bias, transform = self.output_bias(model), self.transform(model)
        return Side(name, table, output, bias, tied, config.pad_token_id, transform, logit_cap(config))

    def check_padding(self, padding_id: int | None, new: int | None) -> None:  # noqa: B027
        """Raises UserError if the model does not support another padding id."""

    @abstractmethod
    def replace_tables(self, model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
        """The model with new embeddings on some sides; its configuration gets their sizes and padding ids.

        Consumes the model. Tied projections stay tied, untied ones untied. Raises UserError, before any change, if the
        family does not support such embeddings.
        """

    # Models in memory: hidden states. layer: the layer after which they are taken, from 1; None for the top.

    def encoder_states(self, model: nn.Module, *, layer: int | None = None, **inputs: Any) -> Tensor:
        """States [B, S, d] of `input_ids` or `inputs_embeds` under an `attention_mask`."""
        encoder: Any = model.get_encoder()  # type: ignore[operator]
        return states_at(encoder(**inputs, output_hidden_states=layer is not None), layer)

    def decoder_states(
        self, model: nn.Module, memory: Tensor, mask: Tensor, *, layer: int | None = None, **inputs: Any
    ) -> Tensor:
        """States [B, T, d] of `input_ids` or `inputs_embeds`, given encoder states [B, S, d] and their mask."""
        decoded = model.get_decoder().base_model(  # type: ignore[operator]
            encoder_hidden_states=memory,
            encoder_attention_mask=mask,
            use_cache=False,
            output_hidden_states=layer is not None,
            **inputs,
        )
        return states_at(decoded, layer)

    def stack_states(self, model: nn.Module, *, layer: int | None = None, **inputs: Any) -> Tensor:
        """States [B, T, d] of an encoder-only or decoder-only model."""
        stack: Any = model.base_model
        return states_at(stack(**inputs, output_hidden_states=layer is not None), layer)

    def unused_parameters(self, model: nn.Module, *, forwards: bool) -> Iterable[nn.Parameter]:
        """Parameters of layers that a pass does not use; `forwards`: a pass in which tokens see earlier ones alone."""
        return ()

    def source(self, config: Config) -> SourceSettings | None:
        """The settings of the model's source; None for a model without one."""
        return None

    def selects(self, config: Config) -> bool:
        """Whether the model has a content selector, which learns which source tokens are copied."""
        return False

    def pretrained_stack(self, model: nn.Module) -> nn.Module | None:
        """The language model inside a conditioned model, or the model itself; None if it is not pretrained."""
        return model

    def states_with_source(self, model: nn.Module, source: Tensor, mask: Tensor, **inputs: Any) -> TargetStates:
        """Target states of a decoder-only model given a source [B, S, …]; a model without a source ignores it."""
        from subgraft.modeling.conditioning.copying import TargetStates

        return TargetStates(self.stack_states(model, **inputs))

    def input_scale(self, model: nn.Module, side: Side) -> float:
        """The factor by which embeddings must be multiplied before they are passed as `inputs_embeds`.

        By default the factor that the embedding module applies to ids and that `inputs_embeds` bypass.
        """
        return float(getattr(side.input, "embed_scale", 1.0))


def logit_cap(config: PreTrainedConfig) -> float | None:
    """The soft cap of a model's logits; None if they have none."""
    cap: float | None = getattr(config, "final_logit_softcapping", None)
    return cap or None


def softcap(logits: Tensor, cap: float | None) -> Tensor:
    """c * tanh(x / c) for each logit x; the logits themselves without a cap."""
    return logits if cap is None else cap * (logits / cap).tanh()


def states_at(output: Any, layer: int | None) -> Tensor:
    """The top states of a transformers output, or those after a layer."""
    states: Tensor = output.last_hidden_state if layer is None else output.hidden_states[layer]
    return states


# How to give both sides one vocabulary, in each way to use Subgraft.
BOTH_SIDES = (
    "Give both sides one vocabulary: `--sides encoder,decoder` of `subgraft transfer`, sides=('encoder', 'decoder') in "
    "Python, or `sides: [encoder, decoder]` and `downstream.shared: true` in a configuration."
)


def separate_tables_error(model_type: str) -> UserError:
    """The error for separate vocabularies of the two sides of a model with one embedding matrix."""
    return UserError(
        f"a {model_type} model has one embedding matrix, and so one vocabulary for both sides",
        hint=BOTH_SIDES,
    )


def require_same_padding(model_type: str, padding_id: int | None, new: int | None) -> None:
    """Raises UserError if a model that counts positions from its padding id would get another padding id."""
    if new != padding_id:
        raise UserError(
            f"this {model_type} model counts positions from its padding id, {padding_id}, and "
            f"the vocabulary's is {new}",
            hint="Use a vocabulary that pads with the same id: `subgraft vocab learn` makes SentencePiece ones so.",
        )
