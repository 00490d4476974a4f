"""The card of an exported model, as the Hugging Face hub reads it: metadata, scores with their signatures, and use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from subgraft.config.corpora import Languages
from subgraft.config.tasks import TASKS

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

    from subgraft.modeling.exporting.transformers import Loading

UNKNOWN_LICENCE = "unknown"
# What only a registered model's directory has beside its card: command lines and places are nothing to publish.
RECORD_BESIDE = "`record.json` beside this file has every setting."
# The tag of a registered version that names the published model that it was made from.
BASE_MODEL = "base_model"
# What the hub calls metrics, by the tags of a registered version.
METRICS = {"BLEU": "bleu", "chrF": "chrf", "TER": "ter", "ROUGE-L": "rouge", "METEOR": "meteor"}
_TAGS = {
    "AutoModelForSeq2SeqLM": "text2text-generation",
    "AutoModelForCausalLM": "text-generation",
    "AutoModelForMaskedLM": "fill-mask",
}


@dataclass(frozen=True)
class Publication:
    """The metadata of a model to be published.

    Attributes:
        name: The repository, OWNER/NAME.
        licence: A licence id from the hub's list.
        base_model: The published model that it was made from.
        languages: Its languages.
        tags: The tags of a registered version; without them, the card has no scores.
        card: The card of a registered version.
    """

    name: str
    licence: str | None = None
    base_model: str | None = None
    languages: Languages | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    card: str = ""


def model_card(publication: Publication, loading: Loading) -> str:
    """README.md: metadata, the body of the registered model's card, and the code that loads it in transformers."""
    from huggingface_hub import ModelCard, ModelCardData

    spoken = publication.languages
    data = ModelCardData(
        language=list(dict.fromkeys((spoken.source, spoken.target))) if spoken else None,
        license=publication.licence or UNKNOWN_LICENCE,
        library_name="transformers",
        base_model=publication.base_model or publication.tags.get(BASE_MODEL),
        pipeline_tag=_pipeline_tag(publication, loading),
        tags=["subgraft"],
        model_name=publication.name.rpartition("/")[2],
        eval_results=list(_results(publication.tags)) or None,
    )
    told = ModelCard(publication.card).text.strip() if publication.card else f"# {data.model_name}"
    body = told.replace(RECORD_BESIDE, "").rstrip()
    return f"---\n{data.to_yaml()}\n---\n\n{body}\n\n{_use(publication.name, loading)}"


def _pipeline_tag(publication: Publication, loading: Loading) -> str:
    task, spoken = publication.tags.get("task"), publication.languages
    if task is not None:
        return next((facts.hub_tag for name, facts in TASKS.items() if name == task), _TAGS[loading.model_class])
    translates = loading.model_class == "AutoModelForSeq2SeqLM" and spoken and spoken.source != spoken.target
    return "translation" if translates else _TAGS[loading.model_class]


def _results(tags: Mapping[str, str]) -> Iterator[EvalResult]:
    """The model index: every test score with a signature."""
    from huggingface_hub import EvalResult

    task = next((facts.hub_tag for name, facts in TASKS.items() if name == tags.get("task")), "text-generation")
    experiment = tags.get("experiment", "unknown")
    for metric, called in METRICS.items():
        if {f"test.{metric}", f"signature.{metric}"} <= tags.keys():
            yield EvalResult(
                task_type=task,
                dataset_type=experiment,
                dataset_name=f"test set of the experiment {experiment}",
                dataset_split="test",
                metric_type=called,
                metric_name=metric,
                metric_value=float(tags[f"test.{metric}"]),
                metric_args={"signature": tags[f"signature.{metric}"]},
            )


def _use(name: str, loading: Loading) -> str:
    """Example code that loads the model in transformers and generates text."""
    codes = {True: ", trust_remote_code=True", False: ""}
    text = f"{loading.prompt} A text.".lstrip()
    lines = [
        "## With transformers\n",
        "```python",
        f"from transformers import {loading.model_class}, AutoTokenizer\n",
        f'tokenizer = AutoTokenizer.from_pretrained("{name}"{codes[loading.tokenizer_code]})',
        f'model = {loading.model_class}.from_pretrained("{name}"{codes[loading.model_code]})',
    ]
    if loading.model_class != "AutoModelForMaskedLM":
        lines += [
            f'inputs = tokenizer("{text}", return_tensors="pt", return_token_type_ids=False)',
            "print(tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True))",
        ]
    return "\n".join([*lines, "```", ""])
