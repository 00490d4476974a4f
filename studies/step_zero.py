"""What starts are worth before any training: dev bits per character of a model with a new vocabulary, by initialiser.

    python studies/step_zero.py --model MODEL --vocabulary DIR --corpus DIR --languages en-fr \
        mean random-matched network=DIR patt=DIR

MODEL, the vocabulary and the corpus are artifacts of a run, under .subgraft/store/{pretrain,vocabulary,corpus}; a
trained generator is named behind its method. The decoder gets the vocabulary. Seconds are those of making the rows and
putting them into the model.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from subgraft.config.corpora import Languages
from subgraft.data.text.batches import BatchPlan
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.evaluation.metrics.bits_per_character import bits_per_character, count_characters
from subgraft.interfaces.cli.arguments import language_pair
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import without_dropout
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData, token_loss
from subgraft.training.objectives.compute.translation import Translation

# As finetunings are watched.
DEV_SENTENCES, DEV_TOKENS = 200, 4000


def started(model: Path, vocabulary: Tokenizer, method: Method) -> tuple[Bundle, float]:
    """The model with the vocabulary, and the seconds that took."""
    bundle = Bundle.load(model)
    began = time.perf_counter()
    made, _, _ = transplant(bundle.model, bundle.tokenizers, {"decoder": vocabulary}, method)
    seconds = time.perf_counter() - began
    return Bundle(without_dropout(made), bundle.encoder, vocabulary), seconds


@torch.no_grad()
def bits(bundle: Bundle, pairs: list[tuple[str, str]], languages: Languages) -> float:
    """Bits per character of the targets."""
    form, room = bundle.sequence_format(languages), bundle.max_positions
    examples = Translation(pairs, bundle.encoder, bundle.decoder, form, room)
    data = Seq2SeqData(examples, *bundle.padding)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        batches = BatchPlan(examples.lengths, DEV_TOKENS, seed=0).epoch(0)
        nats = sum(float(token_loss(bundle.model, data.batch(indices, 0))) for indices in batches)
    return bits_per_character(nats, count_characters(target for _, target in pairs))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", type=Path, required=True)
    options.add_argument("--vocabulary", type=Path, required=True)
    options.add_argument("--corpus", type=Path, required=True)
    options.add_argument("--languages", type=language_pair, required=True)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("methods", nargs="+", metavar="METHOD[=GENERATOR]")
    args = options.parse_args()
    torch.set_num_threads(args.threads)
    vocabulary = Tokenizer.load(args.vocabulary)
    pairs = list(Corpus.open(args.corpus).pairs("dev"))[:DEV_SENTENCES]
    print("| start | bits per character | seconds |\n|---|---|---|")
    for asked in args.methods:
        name, _, generator = asked.partition("=")
        bundle, seconds = started(args.model, vocabulary, Method(name, Path(generator) if generator else None))
        print(f"| {name} | {bits(bundle, pairs, args.languages):.3f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
