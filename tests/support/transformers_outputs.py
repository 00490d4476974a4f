# mypy: allow-untyped-calls
"""Outputs of a published checkpoint here and in transformers alone, from the same directory."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedTokenizerFast

from published import Checkpoint, english, german
from subgraft.config.evaluation import MeasurementSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of, language_code
from subgraft.modeling.hub import read_config
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.pipeline.compute.outputs import translator

# Hard to cut: white space of all kinds, code points composed and not, scripts that no piece is of, marks and markup.
ADVERSARIAL = (
    "",
    " ",
    "  two  spaces  ",
    "tab\there",
    "a_b_c ▁d __e__ ##f Ġg",
    "naïve café nai\u0308ve",
    "ﬁne ½ ② ｆｕｌｌ",
    "日本語のテキスト한국어 ไทย",
    "مرحبا بالعالم שלום",
    "😀👍🏽 e\u0301\u0302",
    "zero\u200bwidth\u00a0space\u00adsoft",
    "http://example.org/?q=1&r=<b>x</b>",
    "1,234.56 € 10^-3 -- ... !!!",
    "don't can't I'll 'quoted' “so”",
    "UPPER lower MiXeD straße STRASSE",
    "x" * 120,
    "    def f(x):\n\n\n\t\treturn      x",
    "<tool_call>{}</tool_call> a<think> </think>b <|fim_prefix|><table>  <td>",
    "$%&/()=?`´*+~#'-_.:,;<>|^°",
)


def lines(count: int = 1000) -> list[str]:
    """Real ones where SUBGRAFT_DATA names a folder of corpora, else of the built-in corpus; adversarial ones first."""
    results: list[str] = []
    data = os.environ.get("SUBGRAFT_DATA")
    for path in sorted(Path(data).glob("en-*/*/*.en.gz")) if data else ():
        with gzip.open(path, "rt", encoding="utf-8") as file:
            results += [line.rstrip("\n") for _, line in zip(range(count // 4), file, strict=False)]
    return [*ADVERSARIAL, *(results or [*english(), *german()])[:count]]


def reference(directory: Path, checkpoint: Checkpoint) -> Any:
    """The tokenizer that users of transformers have."""
    if checkpoint.as_file:
        return PreTrainedTokenizerFast(tokenizer_file=str(directory / "tokenizer.json"), pad_token="<s>")
    return AutoTokenizer.from_pretrained(directory, **checkpoint.settings)


def differing(directory: Path, checkpoint: Checkpoint, texts: Sequence[str]) -> list[str]:
    """The texts whose ids are not those that transformers' tokenizer gives, special tokens around them included.

    A decoder alone is given no end, and a beginning only by some tokenizers: of these the ids between are compared.
    """
    theirs = reference(directory, checkpoint)
    tokenizers = load_tokenizers(directory)
    ours = tokenizers.get("encoder", tokenizers["decoder"])
    config = read_config(directory)
    form = family_of(config).sequence_format(config, ours, tokenizers["decoder"], checkpoint.languages)
    alone = "encoder" not in tokenizers
    result = ours.encode_batch(texts)
    if not alone:
        result = [[*form.source_beginning, *ids, *form.source_ending] for ids in result]
    expected = [theirs(checkpoint.prompt + text, add_special_tokens=not alone).input_ids for text in texts]
    return [text for text, ids, wanted in zip(texts, result, expected, strict=True) if ids != wanted]


@torch.inference_mode()
def equal_outputs(directory: Path, checkpoint: Checkpoint, texts: Sequence[str]) -> tuple[int, int]:
    """How many greedy outputs are transformers' own, token by token, and how many of them are different texts' own.

    Ours may end first, at our limit by the length of the source; theirs are compared as far. Where the first tokens
    that differ are tied in the model's precision, which one is written depends on the processor: an output is compared
    as far as that.
    """
    bundle = Bundle.load(directory)
    if "encoder" not in bundle.tokenizers:
        return _continued(directory, bundle, texts)
    settings = MeasurementSettings(beam=1, batch_size=7)
    ours = [one.tokens for one in translator(bundle, checkpoint.languages, settings).with_probabilities(texts)]
    tokenizer = reference(directory, checkpoint)
    model = AutoModelForSeq2SeqLM.from_pretrained(directory).eval()
    forced = _forced(directory, bundle, checkpoint)
    equal = 0
    ends = [[bundle.decoder.special[role]] for role in ("eos", "pad")]  # an output is read up to either
    begins = 1 + bundle.sequence_format(checkpoint.languages).target_begins
    for text, output in zip(texts, ours, strict=True):
        arguments = tokenizer(checkpoint.prompt + text, return_tensors="pt")
        arguments.pop("token_type_ids", None)
        limit = {"max_length": begins + len(output) + 1, "num_beams": 1, "early_stopping": False, **forced}
        asked = {"return_dict_in_generate": True, "output_scores": True, "forced_eos_token_id": None}
        result = model.generate(**arguments, **limit, **asked)
        written = result.sequences[0].tolist()
        body, last = tuple(written[begins : begins + len(output)]), written[begins + len(output) :]
        scores = result.scores[begins - 1 :]  # the start is not scored
        equal += (output == body and (bool(output) or last[:1] in ends)) or _tied(output, body, scores, model.dtype)
    return equal, len(set(ours))


def _tied(output: Sequence[int], body: Sequence[int], scores: Sequence[Tensor], dtype: torch.dtype) -> bool:
    """Whether the first tokens that differ have scores whose difference is below the precision.

    Two computations of two scores: rounding the results alone moves each of the four by up to half
    the spacing of the type, together by two spacings.
    """
    differing = [step for step, (one, other) in enumerate(zip(output, body, strict=False)) if one != other]
    if not differing:
        return False
    of_ours, of_theirs = (float(scores[differing[0]][0, tokens[differing[0]]]) for tokens in (output, body))
    return abs(of_ours - of_theirs) <= 2 * torch.finfo(dtype).eps * abs(of_theirs)


def _forced(directory: Path, bundle: Bundle, checkpoint: Checkpoint) -> dict[str, Any]:
    """How users of transformers set the target language: a forced first token, or the start of the output."""
    kind = bundle.model.config.model_type
    if checkpoint.languages is None or kind not in ("mbart", "m2m_100"):
        return {}
    code = language_code(bundle.decoder, checkpoint.languages.target)
    old = kind == "mbart" and bundle.model.config.decoder_start_token_id is None
    return {"decoder_start_token_id" if old else "forced_bos_token_id": code}


def _continued(directory: Path, bundle: Bundle, texts: Sequence[str]) -> tuple[int, int]:
    from subgraft.pipeline.compute.continuation import continuer

    write = continuer(bundle, None, MeasurementSettings(beam=1), max_tokens=12)
    start = bundle.sequence_format(None).start
    # Of half precision padding changes the last bits, and with them the choice between nearly equal tokens.
    ours = write(texts, 7 if bundle.model.dtype == torch.float32 else 1)
    tokenizer: Any = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory).eval()
    equal = 0
    for text, output in zip(texts, ours, strict=True):
        prompt = tokenizer(text, add_special_tokens=False).input_ids
        arguments = torch.tensor([[start, *prompt]])
        written = model.generate(arguments, max_new_tokens=12, num_beams=1, do_sample=False)[0, 1:].tolist()
        whole = tokenizer.decode(written, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        added, written_here = _one_line(whole[len(tokenizer.decode(prompt)) :]), _one_line(output)
        equal += added.startswith(written_here) and bool(added) == bool(written_here)
    return equal, len(set(ours))


def _one_line(text: str) -> str:
    return "".join(" " if character in "\n\r\v\f\x85\u2028\u2029" else character for character in text)


# Of models whose decoder may have a vocabulary of its own.
SOURCES = torch.tensor([[5, 49, 30, 2], [6, 2, 7, 7]])
SOURCE_MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
TARGETS = torch.tensor([[8, 29, 28], [8, 3, 2]])


def logits_of_targets(model: Any) -> Tensor:
    logits: Tensor = model(SOURCES, attention_mask=SOURCE_MASK, decoder_input_ids=TARGETS).logits
    return logits


def check_remote_code(model: Any, place: Path) -> None:
    """transformers computes the same from the saved directory, in a process that cannot import this package."""
    model.save_pretrained(place / "model")
    torch.save({"logits": logits_of_targets(model)}, place / "expected")
    program = f"""
import sys
sys.modules["subgraft"] = None
import torch
from transformers import AutoModelForSeq2SeqLM
model = AutoModelForSeq2SeqLM.from_pretrained({str(place / "model")!r}, trust_remote_code=True).eval()
sources, mask = torch.tensor({SOURCES.tolist()}), torch.tensor({SOURCE_MASK.tolist()})
found = model(sources, attention_mask=mask, decoder_input_ids=torch.tensor({TARGETS.tolist()})).logits
expected = torch.load({str(place / "expected")!r}, weights_only=True)["logits"]
assert torch.allclose(found, expected, atol=1e-6)
assert not any(name.startswith("subgraft.") for name in sys.modules)
"""
    environment = {**os.environ, "HF_HOME": str(place / "home"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
