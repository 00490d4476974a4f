# mypy: allow-untyped-calls
"""Published translators with new vocabularies, exported: transformers and CTranslate2's converter need nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from published import ENGLISH_GERMAN, POSITIONS, english, german, half, mbart_50, opus_mt
from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings
from subgraft.config.settings_base import SideName, VocabularyKind
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.publishing import Publication, model_card
from subgraft.modeling.exporting.transformers import Loading, export_transformers
from subgraft.modeling.load import load_model
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.pipeline.compute.outputs import translator
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:Recommended")
TEXTS = [*english(6), "Straße, 7,50 € – “no” (½)", "  two   spaces ", "so ÄÖÜ mit äöü ☃☃"]


def _with_bias(directory: Path) -> None:
    """As converted from Marian: a bias of every token but padding, which is never written and has a row of zeros."""
    path = directory / "model.safetensors"
    weights = load_file(path)
    bias = torch.randn(weights["final_logits_bias"].shape, generator=torch.Generator().manual_seed(1))
    bias[0, -1] = 0
    save_file({**weights, "final_logits_bias": bias}, path, metadata={"format": "pt"})
    settings = directory / "generation_config.json"
    message = json.loads(settings.read_text()) | {"bad_words_ids": [[bias.shape[1] - 1]], "num_beams": 4}
    settings.write_text(json.dumps(message))


def binary(directory: Path) -> None:
    opus_mt(directory)
    _with_bias(directory)


def tc_big(directory: Path) -> None:
    opus_mt(directory, (">>fra<<", ">>deu<<", ">>cmn_Hans<<"), end=77)
    _with_bias(directory)
    half(directory)


def separate_vocabs(directory: Path) -> None:
    opus_mt(directory, separate=True)
    _with_bias(directory)


def resaved(directory: Path) -> None:
    binary(directory / "published")
    AutoTokenizer.from_pretrained(directory / "published").save_pretrained(directory)
    AutoModelForSeq2SeqLM.from_pretrained(directory / "published").save_pretrained(directory)


def trainers_checkpoint(directory: Path) -> None:
    """What transformers' trainer leaves behind after a step."""
    resaved(directory / "start")
    tokenizer = AutoTokenizer.from_pretrained(directory / "start")
    model = AutoModelForSeq2SeqLM.from_pretrained(directory / "start")
    settings = transformers.Seq2SeqTrainingArguments(
        output_dir=str(directory), max_steps=1, use_cpu=True, report_to=[], disable_tqdm=True, learning_rate=1e-3
    )
    rows = [dict(tokenizer(english()[0], text_target=german()[0]))] * 2
    transformers.Seq2SeqTrainer(model, settings, train_dataset=rows, processing_class=tokenizer).train()


def _with_new_vocabulary(directory: Path, sides: Sequence[SideName]) -> Bundle:
    bundle = Bundle(load_model(directory, torch.float32), *load_tokenizers(directory).values())
    if not sides:
        return bundle
    text = german(300) if len(sides) == 1 else [*english(300), *german(300)]
    learnt = learn(text, kind="unigram", size=340, like=bundle.decoder)
    chosen = dict.fromkeys(sides, learnt)
    made = transplant(bundle.model, {"encoder": bundle.encoder, "decoder": bundle.decoder}, chosen, Method("mean"))
    return Bundle(made.model, chosen.get("encoder", bundle.encoder), chosen.get("decoder", bundle.decoder))


# Published settings force an end where the limit is reached, which ours does not.
SEARCH: dict[str, Any] = {"num_beams": 1, "do_sample": False, "max_length": POSITIONS, "forced_eos_token_id": None}


def _outputs(bundle: Bundle, texts: Sequence[str]) -> list[tuple[list[str], str]]:
    """Pieces and texts, by our search."""
    result = translator(bundle, ENGLISH_GERMAN, MeasurementSettings(beam=1)).with_probabilities(texts)
    assert len({output.tokens for output in result}) > 3, "the outputs differ from text to text"
    return [([bundle.decoder.pieces[token] for token in output.tokens], output.text) for output in result]


def _same(result: Sequence[str], expected: Sequence[str]) -> bool:
    """Ours ends some outputs sooner, by a limit in bytes."""
    return list(result[: len(expected)]) == list(expected) and (bool(expected) or not result)


@pytest.mark.parametrize(
    ("publish", "sides"),
    [
        (binary, ()),
        (binary, ("decoder",)),
        (binary, ("encoder", "decoder")),
        (tc_big, ("decoder",)),
        (tc_big, ("encoder", "decoder")),
        (separate_vocabs, ()),
        (separate_vocabs, ("decoder",)),
        (resaved, ("decoder",)),
        (trainers_checkpoint, ("decoder",)),
    ],
)
def test_transformers_alone_gives_the_same_output(
    publish: Callable[[Path], None], sides: Sequence[SideName], tmp_path: Path
) -> None:
    source, out = tmp_path / "published", tmp_path / "exported"
    publish(source)
    source = next(source.glob("checkpoint-*"), source)
    bundle = _with_new_vocabulary(source, sides)
    bundle.save(tmp_path / "model")
    out.mkdir()
    loading = export_transformers(tmp_path / "model", out, ENGLISH_GERMAN)
    assert not loading.tokenizer_code and not loading.model_code
    assert not list(out.glob("*.py")) and not (out / "tokenizer.json").exists()
    texts = [f"{loading.prompt} {text}".lstrip() for text in TEXTS]
    expected = _outputs(bundle, TEXTS)

    tokenizer: Any = AutoTokenizer.from_pretrained(out)
    model = AutoModelForSeq2SeqLM.from_pretrained(out, dtype=torch.float32).eval()
    form, sources, targets = bundle.sequence_format(ENGLISH_GERMAN), *_numberings(out)
    for text, ids, (pieces, written) in zip(texts, bundle.encoder.encode_batch(TEXTS), expected, strict=True):
        inputs = tokenizer(text, return_tensors="pt")
        around = [*form.source_beginning, *ids, *form.source_ending]
        assert [sources[i] for i in inputs["input_ids"][0].tolist()] == [bundle.encoder.pieces[i] for i in around]
        result = model.generate(**inputs, **SEARCH)[0]
        assert tokenizer.decode(result, skip_special_tokens=True).startswith(written)
        assert _same([targets[i] for i in result.tolist()[1:]], pieces)
    labels, ids = tokenizer(text_target=german()[0])["input_ids"], bundle.decoder.encode(german()[0])
    assert [targets[i] for i in labels] == [*(bundle.decoder.pieces[i] for i in ids), "</s>"]
    read = load_tokenizers(out)["encoder"]
    assert [[read.pieces[i] for i in row] for row in read.encode_batch(TEXTS)] == [
        [bundle.encoder.pieces[i] for i in row] for row in bundle.encoder.encode_batch(TEXTS)
    ]
    _check_converter(out, texts, [pieces for pieces, _ in expected], sources if sources == targets else None)


def _numberings(exported: Path) -> tuple[list[str], list[str]]:
    """The pieces of sources and of targets by id, as the exported files say."""
    own, shared = exported / "target_vocab.json", exported / "vocab.json"
    read = [json.loads(path.read_text(encoding="utf-8")) for path in (shared, own if own.exists() else shared)]
    return sorted(read[0], key=read[0].__getitem__), sorted(read[1], key=read[1].__getitem__)


def _check_converter(
    exported: Path, texts: Sequence[str], expected: Sequence[Sequence[str]], pieces: Sequence[str] | None
) -> None:
    """CTranslate2's own converter: the same outputs, and of two vocabularies, which it does not know, a refusal.

    pieces: of one vocabulary.
    """
    place, tokenizer = str(exported.parent / "ctranslate2"), AutoTokenizer.from_pretrained(exported)
    converter = ctranslate2.converters.TransformersConverter(str(exported))
    if pieces is None:
        with pytest.raises(ValueError, match="vocabulary"):
            converter.convert(place, quantization="float32")
        return
    converter.convert(place, quantization="float32")
    sources = [[pieces[i] for i in tokenizer(text)["input_ids"]] for text in texts]
    running = ctranslate2.Translator(place, intra_threads=1)
    written = running.translate_batch(sources, beam_size=1, max_decoding_length=POSITIONS)
    assert all(_same(one.hypotheses[0], output) for one, output in zip(written, expected, strict=True))


def _transferred(learnt: Tokenizer, sides: Sequence[SideName], place: Path) -> Path:
    """The binary one with a vocabulary of another kind."""
    binary(place / "published")
    bundle = Bundle.load(place / "published")
    chosen = dict.fromkeys(sides, learnt)
    made = transplant(bundle.model, {"encoder": bundle.encoder, "decoder": bundle.decoder}, chosen, Method("mean"))
    Bundle(made.model, chosen.get("encoder", bundle.encoder), learnt).save(place / "model")
    return place / "model"


@pytest.mark.parametrize("kind", ["wordpiece", "byte-level-bpe"])
def test_two_vocabularies_without_native_files_are_refused(
    kind: VocabularyKind, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    binary(tmp_path / "like")
    learnt = learn(german(300), kind=kind, size=400, like=load_tokenizers(tmp_path / "like")["decoder"])
    model = _transferred(learnt, ("decoder",), tmp_path)
    assert main(["export", str(model), "--to", "transformers", "--out", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert "SentencePiece" in message and "target vocabulary" in message and "--to ctranslate2" in message
    assert not (tmp_path / "out").exists()
    # One vocabulary of any kind is a tokenizer.json, which AutoTokenizer reads for a Marian too.
    shared = _transferred(learnt, ("encoder", "decoder"), tmp_path / "shared")
    assert main(["export", str(shared), "--to", "transformers", "--out", str(tmp_path / "out")]) == 0
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    text = german()[0]
    pieces = [learnt.pieces[i] for i in (*learnt.encode(text), learnt.special["eos"])]
    assert tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) == pieces


def test_the_code_of_the_target_language_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tc_big(tmp_path / "model")
    command = ["export", str(tmp_path / "model"), "--to", "transformers", "--languages", "en-de"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    assert ">>deu<<" in capsys.readouterr().out
    loading = Loading("AutoModelForSeq2SeqLM", False, False, ">>deu<<")
    assert 'tokenizer(">>deu<< A text."' in model_card(Publication("me/it"), loading)


def test_an_mbart_50_of_one_new_vocabulary_needs_no_code_of_ours(tmp_path: Path) -> None:
    """Two vocabularies it does not have in transformers: those need a class of ours, and are refused without it."""
    spoken = Languages(source="en_XX", target="de_DE")
    mbart_50(tmp_path / "published")
    bundle = Bundle.load(tmp_path / "published")
    learnt = learn([*english(300), *german(300)], kind="unigram", size=440, like=bundle.decoder)
    both: dict[SideName, Tokenizer] = {"encoder": learnt, "decoder": learnt}
    own: dict[SideName, Tokenizer] = {"encoder": bundle.encoder, "decoder": bundle.decoder}
    made = Bundle(transplant(bundle.model, own, both, Method("mean")).model, learnt, learnt)
    made.save(tmp_path / "model")
    out = tmp_path / "exported"
    out.mkdir()
    assert not export_transformers(tmp_path / "model", out, spoken).tokenizer_code
    tokenizer: Any = AutoTokenizer.from_pretrained(out)
    model = AutoModelForSeq2SeqLM.from_pretrained(out).eval()
    ctranslate2.converters.TransformersConverter(str(out)).convert(str(tmp_path / "ctranslate2"))
    running = ctranslate2.Translator(str(tmp_path / "ctranslate2"), intra_threads=1)
    code = learnt.languages["de_DE"]
    expected = translator(made, spoken, MeasurementSettings(beam=1)).with_probabilities(TEXTS)
    for text, output in zip(TEXTS, expected, strict=True):
        inputs = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        result = model.generate(**inputs, **SEARCH)[0].tolist()
        pieces = [learnt.pieces[token] for token in output.tokens[: POSITIONS - 2]]
        assert result[1] == code and _same([learnt.pieces[token] for token in result[2:]], pieces)
        source = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
        written = running.translate_batch(
            [source], target_prefix=[[learnt.pieces[code]]], beam_size=1, max_decoding_length=POSITIONS
        )
        assert _same(written[0].hypotheses[0][1:], pieces)
