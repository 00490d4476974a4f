"""How well a pretrained decoder continues with new subwords, by where their embeddings start.

    python benchmarks/language_model_starts.py MODEL --text TRAIN --dev DEV --other OTHER --out curves.jsonl
        [--start own mean fitted] [--min-count 100] [--characters 300000] [--row-characters 160000] [--extend-at 0]
        [--untie]

MODEL is a directory of a causal model with a byte-level vocabulary. TRAIN, DEV and OTHER are text files (.gz too), one
segment a line. Each start trains all weights on the same lines in the same order by a plain AdamW loop: constant rate
after ten updates, bf16 autocast, clipping at 1, updates of 2,000 characters. Old embeddings that are tied to the output
projection have three tenths of the rate, as an update moves all of them; --untie gives old tokens an output embedding
apart, and both the whole rate. A line of curves.jsonl is one evaluation: characters read, processor seconds so far (of
the start's preparation too), bits per character of DEV and of OTHER. With --extend-at, the model is trained in its old
vocabulary first, and then extended: frozen is what it is by then.

The starts; E are the old embeddings, tied to the output projection:

own         the old vocabulary.
mean        the vocabulary extended by TRAIN's subwords; a new row is the mean of its pieces' rows, tied.
distilled   input and output rows of new tokens apart, as a decoder asks different things of them:
            input    trained with the model frozen, so that the state after the first LAYERS layers at a new token is
                     that of its last piece in the old segmentation (token distillation below the middle of the model:
                     a third of the cost of the whole, as neither later layers nor the softmax are computed).
            output   in closed form: o(t) = E(first piece of t) + log(n(t) / n(f)) v. n(t) counts the new token and n(f)
                     the old first piece in TRAIN; so the new token takes its share of the probability that its first
                     piece has had. The first piece keeps the rest: E(f) + log(1 - Σ n(t) / n(f)) v. v is the direction
                     with h·v = 1 for final states h, by least squares, which stands for a bias that the model lacks.
fitted      the same input rows. E stays, and the output rows O are fitted to the frozen model's states: for the state h
            before each token y of the extended segmentation, read in the old one, minimise the mean of
            -log softmax([E; O] h)[y] plus |O - O(start)|² / n, from those of `distilled`. This is convex, the old rows'
            part of the softmax is computed once, and no gradient goes through the model. A quarter of the text is
            other text, where new tokens are not to be written: without it they take probability there, and English
            has 0.09 bits more (1.428, with it 1.340; the old vocabulary 1.331).
layers      as `fitted`, and after a third of the text the first LAYERS layers are trained with the input rows, at all
            tokens and on other text too, so that the states after them are those of the frozen model in the old
            segmentation. The output rows are fitted to states of the extended segmentation.
distilled-input   the same input rows, tied: the output rows are the input rows.
closed-form       the same output rows; input rows are the means.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import math
import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")  # else a code for each length takes gigabytes

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from subgraft.config.training import TIED_EMBEDDING_RATIO
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.subwords.vocabulary.extend import Extender
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

STARTS = ("own", "mean", "distilled", "fitted", "layers", "distilled-input", "closed-form")
UPDATE = 2000  # characters
MAX_TOKENS = 2500  # of a batch that is computed at once, with padding
WARMUP = 10
LAYERS = 0.4  # the share of the layers whose states are compared
EVALUATE_AT = (0, 25_000, 50_000, 100_000, 200_000, 300_000, 500_000, 1_000_000, 2_000_000, 3_000_000)
Ids = list[int]


def in_bf16() -> torch.autocast:
    """Products in bf16, on the device that new tensors are on."""
    return torch.autocast(torch.get_default_device().type, torch.bfloat16)


def lines_of(path: Path) -> list[str]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [line for line in content.decode().split("\n") if line.strip()]


@dataclass(frozen=True)
class NewTokens:
    """An extended vocabulary over the old one: the pieces of each new token, and counts of TRAIN.

    Attributes:
        pieces: Old ids of each new token, in the order of their ids.
        shift: log of each token's share of its first piece's occurrences; of a first piece, its rest [V].
    """

    old: Tokenizer
    extended: Tokenizer
    pieces: list[Ids]
    shift: Tensor

    @classmethod
    def of(cls, old: Tokenizer, text: Sequence[str], min_count: int, most: int = 1_000_000) -> NewTokens:
        extended = Extender.of(old, text).extend_at_most(most, min_count)
        cut = old.backend.model.tokenize  # also parts of characters, which are not text
        pieces = [[part.id for part in cut(piece)] for piece in extended.pieces[len(old) :]]
        before, after = (Counter(i for ids in each.encode_batch(text) for i in ids) for each in (old, extended))
        shift = torch.zeros(len(extended))
        taken: Counter[int] = Counter()
        for token, (first, *_) in enumerate(pieces, start=len(old)):
            shift[token] = math.log((after[token] + 0.5) / (before[first] + 1))
            taken[first] += after[token]
        for first, count in taken.items():
            rest = max(before[first] - count, 0) + 0.5
            shift[first] = max(math.log(rest / (before[first] + 1)), -4.0)  # what is hardly ever left may come back
        return cls(old, extended, pieces, shift)


class Decoder(nn.Module):
    """A causal model with rows for new tokens: tied ones, or output rows of their own.

    old_output: Output embeddings of old tokens; by default they are tied.
    """

    def __init__(self, model: Any, count: int, start: int, old_output: nn.Parameter | None = None) -> None:
        super().__init__()
        self.model, self.start = model, start
        self.old: nn.Parameter = model.get_input_embeddings().weight
        self.old_output = self.old if old_output is None else old_output
        width = self.old.shape[1]
        self.new_input = nn.Parameter(torch.empty(count, width))
        self.new_output: nn.Parameter | None = None

    @property
    def is_tied(self) -> bool:
        return self.old_output is self.old

    def untie(self) -> None:
        self.old_output = nn.Parameter(self.old.detach().clone())

    def states(self, ids: Tensor, layers: int | None = None, rows: Tensor | None = None) -> Tensor:
        """States [B, T, d]: final ones after the last norm, or those after some layers."""
        table = torch.cat([self.old, self.new_input if rows is None else rows])
        embedded = F.embedding(ids, table)
        body = self.model.model
        if layers is None:
            return body(inputs_embeds=embedded).last_hidden_state  # type: ignore[no-any-return]
        positions = torch.arange(ids.shape[1])[None]
        rotary = body.rotary_emb(embedded, positions)
        for layer in body.layers[:layers]:
            embedded = layer(embedded, attention_mask=None, position_embeddings=rotary, position_ids=positions)
        return embedded

    def losses(self, sentences: Sequence[Ids]) -> Iterator[Tensor]:
        """The negative log-likelihood in nats of all tokens, batch by batch."""
        for batch in batches(sentences):
            ids, mask = padded([[self.start, *sentences[i][:-1]] for i in batch])
            labels, _ = padded([sentences[i] for i in batch])
            with in_bf16():
                output = self.new_input if self.new_output is None else self.new_output
                logits = self.states(ids)[mask] @ torch.cat([self.old_output, output]).T
            yield F.cross_entropy(logits.float(), labels[mask], reduction="sum")

    @torch.no_grad()
    def bits(self, text: Sequence[str], tokenizer: Tokenizer) -> float:
        """Bits per character."""
        nats = sum(float(loss) for loss in self.losses(tokenizer.encode_batch(text)))
        return nats / math.log(2) / sum(map(len, text))


def batches(sentences: Sequence[Ids]) -> Iterator[list[int]]:
    """Indices of sentences of about equal lengths, at most MAX_TOKENS with padding."""
    batch: list[int] = []
    for i in sorted(range(len(sentences)), key=lambda i: len(sentences[i])):
        if batch and (len(batch) + 1) * (len(sentences[i]) + 1) > MAX_TOKENS:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def padded(sentences: Sequence[Ids]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, sentences))
    ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids in sentences])
    return ids, torch.tensor([[True] * len(ids) + [False] * (longest - len(ids)) for ids in sentences])


@dataclass(frozen=True)
class Line:
    """A line in both segmentations; `last` is the old position of each new-segmentation token's last piece."""

    old: Ids
    extended: Ids
    last: list[int]

    @property
    def first(self) -> list[int]:
        """The old position of the first piece of each token of the extended segmentation."""
        return [0, *(position + 1 for position in self.last[:-1])]


def in_both(new: NewTokens, text: Sequence[str]) -> list[Line]:
    """Lines whose old tokens are the pieces of their new ones: all but those where a join has moved another one."""
    first_new = len(new.old)
    lines = []
    for old, extended in zip(new.old.encode_batch(text), new.extended.encode_batch(text), strict=True):
        sizes = [len(new.pieces[token - first_new]) if token >= first_new else 1 for token in extended]
        last = [end - 1 for end in accumulate(sizes)]
        if extended and last[-1] == len(old) - 1:
            lines.append(Line(old, extended, last))
    return lines


def distil(
    decoder: Decoder,
    new: NewTokens,
    text: Sequence[str],
    layers: int,
    layers_rate: float = 0.0,
    rate: float = 0.03,
) -> None:
    """Train the input rows of new tokens: relative distance of states to those of their last pieces, after `layers`.

    layers_rate: of these layers, which are trained too if it is positive, after a third of the text, at all tokens.
    """
    rows = nn.Parameter(decoder.new_input.detach().clone())
    trained = decoder.model.model.layers[:layers]
    teacher = Decoder(copy.deepcopy(decoder.model), 0, decoder.start) if layers_rate else decoder
    weights = list(trained.parameters())
    groups = [{"params": [rows]}, *([{"params": weights}] if layers_rate else [])]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), weight_decay=0.0)
    updates = list(of_size(text, 3000))
    joint_from = len(updates) // 3 if layers_rate else len(updates)
    for number, update in enumerate(updates):
        joint = number >= joint_from
        trained.requires_grad_(joint)
        optimizer.param_groups[0]["lr"] = rate * (1 - number / len(updates))
        if joint:
            part = (number - joint_from) / (len(updates) - joint_from)
            optimizer.param_groups[1]["lr"] = layers_rate * min(1.0, (number - joint_from + 1) / 5) * (1 - part)
        lines = [line for line in in_both(new, update) if joint or max(line.extended) >= len(new.old)]
        for batch in batches([line.extended for line in lines]):
            old, _ = padded([[decoder.start, *lines[i].old] for i in batch])
            extended, _ = padded([[decoder.start, *lines[i].extended] for i in batch])
            places = [
                (row, last + 1, position + 1)
                for row, i in enumerate(batch)
                for position, last in enumerate(lines[i].last)
                if joint or lines[i].extended[position] >= len(new.old)
            ]
            row, before, after = (torch.tensor(each) for each in zip(*places, strict=True))
            with in_bf16():
                with torch.no_grad():
                    wanted = teacher.states(old, layers)[row, before].float()
                states = decoder.states(extended, layers, rows)[row, after].float()
            distance = (states - wanted).norm(dim=-1) / wanted.norm(dim=-1)
            # About the number of new tokens of an update, so that clipping seldom matters.
            (distance.sum() / 300).backward(inputs=[rows, *(weights if joint else ())])
        if joint:
            nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
    trained.requires_grad_(True)
    with torch.no_grad():
        decoder.new_input.copy_(rows)


@torch.no_grad()
def bias_direction(decoder: Decoder, text: Sequence[str], tokenizer: Tokenizer) -> Tensor:
    """v [d] with h·v = 1 for final states h in the old segmentation: least squares with a small ridge."""
    width = decoder.old.shape[1]
    gram, total = torch.zeros(width, width), torch.zeros(width)
    sentences = tokenizer.encode_batch(text)
    for batch in batches(sentences):
        ids, mask = padded([[decoder.start, *sentences[i][:-1]] for i in batch])
        with in_bf16():
            states = decoder.states(ids)
        states = states[mask].float()
        gram += states.T @ states
        total += states.sum(0)
    ridge = 0.01 * gram.diagonal().mean()
    direction: Tensor = torch.linalg.solve(gram + ridge * torch.eye(width), total)
    return direction


@torch.no_grad()
def set_output_rows(decoder: Decoder, new: NewTokens, direction: Tensor, *, shift_old: bool) -> None:
    """Output rows in closed form. shift_old: whether old first pieces get less probability, by tied rows."""
    first = torch.tensor([pieces[0] for pieces in new.pieces])
    count = len(new.old)
    decoder.new_output = nn.Parameter(decoder.old_output[first] + new.shift[count:, None] * direction)
    if shift_old:
        decoder.old_output.add_(new.shift[:count, None] * direction)


def fit_output_rows(decoder: Decoder, new: NewTokens, text: Sequence[str], *, in_extended: bool) -> None:
    """Fit the output rows of new tokens to the states before each token of the extended segmentation.

    in_extended: whether these states are read in it, or else in the old one.
    """
    assert decoder.new_output is not None
    count, states, labels = len(new.old), list[Tensor](), Ids()
    with torch.no_grad(), in_bf16():
        lines = in_both(new, text)
        read_as = [line.extended if in_extended else line.old for line in lines]
        for batch in batches(read_as):
            ids, _ = padded([[decoder.start, *read_as[i][:-1]] for i in batch])
            batch_states = decoder.states(ids)
            places = [list(range(len(lines[i].extended))) if in_extended else lines[i].first for i in batch]
            states += [batch_states[row, place].float() for row, place in enumerate(places)]
            labels += [token for i in batch for token in lines[i].extended]
    read, target = torch.cat(states), torch.tensor(labels)
    with torch.no_grad():
        old_logits = torch.cat([torch.logsumexp(part @ decoder.old_output.T, -1) for part in torch.split(read, 2000)])
        old_target = (read * decoder.old_output[target.clamp(max=count - 1)]).sum(-1)
    rows, start = nn.Parameter(decoder.new_output.detach().clone()), decoder.new_output.detach()
    is_new, row = target >= count, (target - count).clamp(min=0)
    optimizer = torch.optim.LBFGS([rows], max_iter=40, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        logits = read @ rows.T
        own = torch.where(is_new, logits.gather(1, row[:, None])[:, 0], old_target)
        loss = (torch.logaddexp(old_logits, logits.logsumexp(-1)) - own).mean()
        loss = loss + (rows - start).square().sum() / len(read)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        decoder.new_output.copy_(rows)


def of_size(text: Iterable[str], characters: int) -> Iterator[list[str]]:
    """Consecutive lines of at least so many characters."""
    update: list[str] = []
    for line in text:
        update.append(line)
        if sum(map(len, update)) >= characters:
            yield update
            update = []


def of_characters(text: Sequence[str], characters: int) -> Sequence[str]:
    """The first lines, of at least so many characters."""
    return next(of_size(text, characters), text)


def prepare(
    start: str, own: Decoder, new: NewTokens, text: Sequence[str], other: Sequence[str], settings: argparse.Namespace
) -> Decoder:
    """A model of its own vocabulary with the rows of a start. other: text in which new tokens are not to be written."""
    model = own.model
    decoder = Decoder(model, len(new.pieces), settings.start_token, None if own.is_tied else own.old_output)
    with torch.no_grad():
        decoder.new_input.copy_(torch.stack([decoder.old[pieces].mean(0) for pieces in new.pieces]))
    beginning, a_third = of_characters(text, settings.row_characters), settings.row_characters // 3
    untied = start in ("distilled", "fitted", "layers", "closed-form")
    direction = bias_direction(decoder, text[:50], new.old) if untied else None
    layers, mixed = round(LAYERS * model.config.num_hidden_layers), [*beginning, *of_characters(other, a_third)]
    if start in ("distilled", "fitted", "distilled-input"):
        distil(decoder, new, beginning, layers)
    if start == "layers":
        distil(decoder, new, random.Random(settings.seed).sample(mixed, len(mixed)), layers, settings.rate)
    if direction is not None:
        set_output_rows(decoder, new, direction, shift_old=start not in ("fitted", "layers"))
    if start in ("fitted", "layers"):
        fit_output_rows(decoder, new, mixed, in_extended=start == "layers")
    return decoder


class Training:
    """Plain AdamW on all weights: updates of the same lines, with bf16 autocast and clipping."""

    def __init__(self, own: Decoder, rate: float) -> None:
        """own: the model in its own vocabulary."""
        body = [each for each in own.model.parameters() if each.requires_grad and each is not own.old]
        embeddings = [own.old] if own.is_tied else [own.old, own.old_output]
        self._parameters = [*body, *embeddings]
        groups: list[dict[str, Any]] = [
            {"params": body, "rate": rate},
            {"params": embeddings, "rate": rate * TIED_EMBEDDING_RATIO if own.is_tied else rate},
        ]
        self._optimizer = torch.optim.AdamW(groups, lr=1.0, weight_decay=0.0, fused=True)
        self._updates = 0

    def add_rows(self, decoder: Decoder, rate: float) -> None:
        """Train the rows of new tokens too."""
        rows = [each for each in (decoder.new_input, decoder.new_output) if each is not None and len(each)]
        if rows:
            self._optimizer.add_param_group({"params": rows, "rate": rate})
            self._parameters += rows

    def update(self, decoder: Decoder, sentences: Sequence[Ids]) -> None:
        self._updates += 1
        for group in self._optimizer.param_groups:
            group["lr"] = group["rate"] * min(1.0, self._updates / WARMUP)
        count = sum(map(len, sentences))
        for loss in decoder.losses(sentences):
            (loss / count).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()


def run(start: str, settings: argparse.Namespace) -> None:
    torch.manual_seed(settings.seed)
    text, dev, other = lines_of(settings.text), lines_of(settings.dev)[:100], lines_of(settings.other)
    further, other = other[200:], other[:100]
    old = load_tokenizers(settings.model)["decoder"]
    new = NewTokens.of(old, text, settings.min_count)
    random.Random(settings.seed).shuffle(text)
    model = AutoModelForCausalLM.from_pretrained(settings.model, dtype=torch.float32)
    decoder, tokenizer = Decoder(model, 0, settings.start_token), old
    if settings.untie:
        decoder.untie()
    training, seconds, read, remaining = Training(decoder, settings.rate), 0.0, 0, list(EVALUATE_AT)

    def evaluate() -> None:
        point = {
            "start": start,
            "extended_at": settings.extend_at,
            "seed": settings.seed,
            "untied": settings.untie,
            "new_tokens": len(decoder.new_input),
            "tokens": sum(map(len, tokenizer.encode_batch(dev))),
            "characters": read,
            "seconds": round(seconds, 1),
            "dev": round(decoder.bits(dev, tokenizer), 4),
            "other": round(decoder.bits(other, tokenizer), 4),
        }
        print(json.dumps(point), flush=True)
        with settings.out.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(point) + "\n")

    for update in of_size(text, UPDATE):
        extends = tokenizer is old and start != "own" and read >= settings.extend_at
        if extends and read:
            evaluate()  # what the old vocabulary has
        began = time.process_time()
        if extends:
            decoder, tokenizer = prepare(start, decoder, new, text, further, settings), new.extended
            training.add_rows(decoder, settings.row_rate)
        seconds += time.process_time() - began
        if extends or read >= remaining[0]:
            remaining = [place for place in EVALUATE_AT if place > read]
            evaluate()
        if read >= settings.characters:
            return
        began = time.process_time()
        training.update(decoder, tokenizer.encode_batch(update))
        read += sum(map(len, update))
        seconds += time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--other", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", nargs="+", choices=STARTS, default=["own", "mean", "fitted"])
    parser.add_argument("--min-count", type=int, default=100)
    parser.add_argument("--characters", type=int, default=300_000)
    parser.add_argument("--row-characters", type=int, default=160_000)
    parser.add_argument("--extend-at", type=int, default=0, help="characters read in the old vocabulary before")
    parser.add_argument("--untie", action="store_true", help="output embeddings of old tokens apart")
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--row-rate", type=float, default=1e-3)
    parser.add_argument("--start-token", type=int, default=0, help="0 is SmolLM2's end of text, which begins each line")
    parser.add_argument("--seed", type=int, default=1)
    settings = parser.parse_args()
    torch.set_num_threads(1)
    for start in settings.start:
        run(start, settings)


if __name__ == "__main__":
    main()
