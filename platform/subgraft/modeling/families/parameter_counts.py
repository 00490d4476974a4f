"""Parameter counts of the parts of a Transformer (Vaswani et al., 2017, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from subgraft.modeling.families.model_parts import Projection


def projections(
    names: Sequence[str], feed_forward: Sequence[str], width: int, inner: int, layers: int, attentions: int = 1
) -> list[Projection]:
    """The linear maps of a stack.

    Args:
        names: Names of the query, key, value and output projections.
        feed_forward: Names of the two feed-forward projections.
        width: The width of hidden states.
        inner: The width of the feed-forward layer.
        layers: The number of layers.
        attentions: The number of attentions in each layer.
    """
    maps = [Projection(name, width, width, layers * attentions) for name in names]
    into, out = feed_forward
    return [*maps, Projection(into, width, inner, layers), Projection(out, inner, width, layers)]


def linear(inputs: int, outputs: int, bias: bool = True) -> int:
    return inputs * outputs + (outputs if bias else 0)


def maps(projections: Iterable[Projection], has_bias: Callable[[str], bool] = lambda _: True) -> int:
    """Parameters of linear maps. has_bias: whether the map of this name has a bias."""
    return sum(each.times * linear(each.inputs, each.outputs, has_bias(each.name)) for each in projections)


def norm(width: int) -> int:
    """Layer normalisation: a gain and a bias."""
    return 2 * width


def padded_positions(count: int, width: int) -> int:
    """Learned positions after two rows that transformers keeps for padding."""
    return (count + 2) * width


def attention(width: int) -> int:
    """Query, key, value and output projections of the model's width."""
    return 4 * linear(width, width)


def feed_forward(width: int, inner: int) -> int:
    return linear(width, inner) + linear(inner, width)


def encoder_layer(width: int, inner: int) -> int:
    """Also a layer of a decoder-only model, which differs in its mask only."""
    return attention(width) + feed_forward(width, inner) + 2 * norm(width)


def decoder_layer(width: int, inner: int) -> int:
    """A layer with cross-attention."""
    return encoder_layer(width, inner) + attention(width) + norm(width)
