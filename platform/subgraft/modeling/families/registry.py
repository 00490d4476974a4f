"""The registry of model families, and functions that apply a family to a config.json without torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from subgraft.base.entries import imported
from subgraft.base.errors import UserError
from subgraft.modeling.families.bart import Bart, Pegasus, SourcedBart
from subgraft.modeling.families.bert import Bert, DistilBert, Electra, ModernBert, Roberta, XLMRoberta
from subgraft.modeling.families.bert2bert import Bert2Bert
from subgraft.modeling.families.deberta import DebertaV2
from subgraft.modeling.families.decoder_only import DecoderOnly
from subgraft.modeling.families.encoder_only import EncoderOnly
from subgraft.modeling.families.family import ITS_VOCABULARY, Family
from subgraft.modeling.families.gpt import GPT2, OPT, Bloom, GPTNeoX
from subgraft.modeling.families.llama import Gemma, Gemma2, Gemma3, Llama, Mistral, Phi3, Qwen2, Qwen3
from subgraft.modeling.families.m2m100 import M2M100
from subgraft.modeling.families.marian import Marian
from subgraft.modeling.families.mbart import FactorisedMBart, MBart, SplitMBart
from subgraft.modeling.families.t5 import MT5, T5

if TYPE_CHECKING:
    from torch import nn

    from subgraft.config.models import ModelSettings
    from subgraft.config.settings_base import SideName
    from subgraft.modeling.families.model_parts import Config, Parameters

T = TypeVar("T")

# A new family is one entry here. An encoder can be both sides of an encoder-decoder if transformers has such a decoder,
# and any decoder can get a source.
ENCODERS: tuple[EncoderOnly, ...] = (
    Bert(),
    DistilBert(),
    Roberta(),
    XLMRoberta(),
    Electra(),
    ModernBert(),
    DebertaV2(),
)
DECODERS: tuple[DecoderOnly, ...] = (
    GPT2(),
    Llama(),
    Mistral(),
    Qwen2(),
    Qwen3(),
    Gemma(),
    Gemma2(),
    Gemma3(),
    Phi3(),
    OPT(),
    GPTNeoX(),
    Bloom(),
)
ENCODER_DECODERS: tuple[Family, ...] = (
    Marian(),
    MBart(),
    SplitMBart(),
    FactorisedMBart(),
    Bart(),
    SourcedBart(),
    Pegasus(),
    M2M100(),
    T5(),
    MT5(),
)
# Families of contrib, which import this package; its encoders as well can be both sides of an encoder-decoder.
CONTRIB_ENCODERS = (
    "ernie.family:Ernie",
    "ernie_thu.family:Knowledgeable",
    "ernie3.family:Branched",
    "xlnet.family:XLNet",
)
CONTRIB = ("context.family:ContextMBart",)


class _Families(Mapping[str, Family]):
    """All families by model type; those of contrib are imported when the first family is asked for."""

    @cached_property
    def _of_type(self) -> dict[str, Family]:
        encoders = (*ENCODERS, *_of_contrib(CONTRIB_ENCODERS))
        others = (
            Bert2Bert(encoders),
            imported("subgraft.contrib.conditioning.family:Conditional")(DECODERS),
            *_of_contrib(CONTRIB),
        )
        families = (*encoders, *DECODERS, *ENCODER_DECODERS, *others)
        return {family.model_type: family for family in families}

    def __getitem__(self, model_type: str) -> Family:
        return self._of_type[model_type]

    def __iter__(self) -> Iterator[str]:
        return iter(self._of_type)

    def __len__(self) -> int:
        return len(self._of_type)


def _of_contrib(entries: Iterable[str]) -> Iterator[Any]:
    return (imported(f"subgraft.contrib.{entry}")() for entry in entries)


FAMILIES: Mapping[str, Family] = _Families()


def family_of(model: Config | nn.Module) -> Family:
    """The family of a loaded model or of a config.json. Raises UserError for an unknown one."""
    if isinstance(model, Mapping):
        family = family_named(model["model_type"])
        family.check(model)
        return family
    config: Any = model.config
    return family_named(config.model_type)


def is_known(config: Config) -> bool:
    """Whether the model of a config.json belongs to a supported family."""
    try:
        family_of(config)
    except UserError:
        return False
    return True


@cache
def family_named(model_type: str) -> Family:
    """The family of a model type or of a configuration's `model.family`.

    An installed package may offer one by an entry point of `subgraft.families`.

    Raises:
        UserError: The family is not supported, or a package offers something else under its name.
    """
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    from subgraft.config.plugins import FAMILIES as GROUP
    from subgraft.config.plugins import offered

    plugin = offered(GROUP).get(model_type)
    if plugin is None:
        raise UserError(
            f"models of the family {model_type!r:.60} are not supported",
            hint=f"Supported families: {', '.join(sorted(FAMILIES))}. {ITS_VOCABULARY}",
        )
    kind = plugin.load()
    if not (isinstance(kind, type) and issubclass(kind, Family) and getattr(kind, "model_type", None) == model_type):
        what = f"{plugin.package} offers no subclass of Family with this model_type: {plugin.entry.value}"
        raise UserError(what, where=f"{GROUP}: {model_type}")
    return kind()


def count_parameters(config: Config, frozen: Iterable[SideName] = ()) -> Parameters:
    """Parameters of the model in a config.json; tied tensors count once. frozen: sides with frozen embeddings."""
    return _require_entries(lambda: family_of(config).parameters(config, frozen))


def config_dict(model: ModelSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
    """The entries of a new model's configuration on which its number of parameters depends."""
    return family_named(model.model_type).config_dict(model, encoder_size, decoder_size)


def as_both_sides(config: Config) -> dict[str, Any]:
    """The configuration of the encoder-decoder that is assembled from a model that does not generate text itself."""
    return _require_entries(lambda: family_of(config).assembled(config))


def vocabulary_sizes(config: Config) -> dict[SideName, int]:
    """The number of rows of each side's embeddings."""
    return _require_entries(lambda: family_of(config).vocabulary_sizes(config))


def with_vocabularies(config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
    """The configuration after a transfer that gives some sides vocabularies of other sizes."""
    return _require_entries(lambda: family_of(config).with_vocabularies(config, sizes))


def with_next_sentence(config: Config) -> dict[str, Any]:
    """The configuration with a head that also predicts whether a segment follows another."""
    return {**config, "architectures": [family_of(config).next_sentence_class]}


def _require_entries(ask: Callable[[], T]) -> T:
    """The result of a family's method. Raises UserError if config.json lacks an entry that the family needs."""
    try:
        return ask()
    except KeyError as error:
        raise UserError(f"config.json does not say {error}, which a model of its type needs") from error
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UserError(f"config.json describes no model of its type: {error}") from error
