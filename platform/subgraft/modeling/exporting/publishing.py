"""Publishing an exported model on the Hugging Face hub: its card (metadata, scores, use), and the upload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.base.errors import OperationalError, UserError
from subgraft.config.corpora import Languages
from subgraft.data.tasks.registry import TASKS

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

    from subgraft.modeling.exporting.transformers import Loading

# An earlier upload may have had more files of weights, which would still be loaded.
OLD_WEIGHTS = ["*.safetensors", "*.safetensors.index.json"]
# Status codes for a token without the necessary permission.
REFUSED = (401, 403)
UNKNOWN_LICENCE = "unknown"
# record.json is not published: it contains command lines and paths.
RECORD_NOTE = "`record.json` next to this file has every setting."
# The tag of a registered version that names the published model that it was made from.
BASE_MODEL = "base_model"
# The hub's names of metrics, by the tags of a registered version.
METRICS = {"BLEU": "bleu", "chrF": "chrf", "TER": "ter", "ROUGE-L": "rouge", "METEOR": "meteor"}
_TAGS = {
    "AutoModelForSeq2SeqLM": "text2text-generation",
    "AutoModelForCausalLM": "text-generation",
    "AutoModelForMaskedLM": "fill-mask",
    "AutoModelForPreTraining": "fill-mask",
    "AutoModelForSequenceClassification": "text-classification",
    "AutoModelForTokenClassification": "token-classification",
    "AutoModelForQuestionAnswering": "question-answering",
    "AutoModelForMultipleChoice": "multiple-choice",
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

    languages, task = publication.languages, publication.tags.get("task")
    tag = _TAGS[loading.model_class]
    if task is not None:
        tag = next((facts.hub_tag for name, facts in TASKS.items() if name == task), tag)
    elif loading.model_class == "AutoModelForSeq2SeqLM" and languages and languages.source != languages.target:
        tag = "translation"
    data = ModelCardData(
        language=list(dict.fromkeys((languages.source, languages.target))) if languages else None,
        license=publication.licence or UNKNOWN_LICENCE,
        library_name="transformers",
        base_model=publication.base_model or publication.tags.get(BASE_MODEL),
        pipeline_tag=tag,
        tags=["subgraft"],
        model_name=publication.name.rpartition("/")[2],
        eval_results=list(_results(publication.tags)) or None,
    )
    text = ModelCard(publication.card).text.strip() if publication.card else f"# {data.model_name}"
    body = text.replace(RECORD_NOTE, "").rstrip()
    return f"---\n{data.to_yaml()}\n---\n\n{body}\n\n{_use(publication.name, loading)}"


def _results(tags: Mapping[str, str]) -> Iterator[EvalResult]:
    """The model index: every test score with a signature."""
    from huggingface_hub import EvalResult

    task = next((facts.hub_tag for name, facts in TASKS.items() if name == tags.get("task")), "text-generation")
    experiment = tags.get("experiment", "unknown")
    for metric, hub_name in METRICS.items():
        if {f"test.{metric}", f"signature.{metric}"} <= tags.keys():
            yield EvalResult(
                task_type=task,
                dataset_type=experiment,
                dataset_name=f"test set of the experiment {experiment}",
                dataset_split="test",
                metric_type=hub_name,
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
    if loading.model_class in ("AutoModelForSeq2SeqLM", "AutoModelForCausalLM"):
        lines += [
            f'inputs = tokenizer("{text}", return_tensors="pt", return_token_type_ids=False)',
            "print(tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True))",
        ]
    elif loading.model_class == "AutoModelForSequenceClassification":
        lines += [f'logits = model(**tokenizer("{text}", return_tensors="pt")).logits', "print(logits.softmax(-1))"]
    return "\n".join([*lines, "```", ""])


def require_token() -> str:
    """The token from HF_TOKEN or `hf auth login`. Raises UserError if there is neither."""
    from huggingface_hub import get_token

    token = get_token()
    if not token:
        hint = "Set HF_TOKEN to a token with write access, or log in with `hf auth login`."
        raise UserError("uploads to the hub need a token", where="HF_TOKEN", hint=hint)
    return token


def require_name(name: str) -> None:
    """Raises UserError unless the name is a valid repository name, OWNER/NAME."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise UserError(f"not a valid repository name: {error}", where=name) from error
    if "/" not in name:
        raise UserError(
            "the repository has no owner", where=name, hint="Give OWNER/NAME: a user or an organisation of the hub."
        )


def upload(folder: Path, name: str, token: str, *, private: bool) -> str:
    """Upload a folder as one commit and return the commit's address; creates the repository if necessary.

    Raises:
        UserError: The hub rejects the token or the card, or `private` is set and the repository exists and is public.
        OperationalError: The hub cannot be reached or fails.
    """
    from httpx2 import HTTPError
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi(token=token)
    try:
        api.create_repo(name, private=private or None, exist_ok=True)
        if private and not api.model_info(name).private:
            hint = "Make it private in its settings, or leave --private out."
            raise UserError("this repository exists and is public; nothing was sent", where=name, hint=hint)
        message = "Upload a model with subgraft push"
        commit = api.upload_folder(
            repo_id=name, folder_path=folder, commit_message=message, delete_patterns=OLD_WEIGHTS
        )
    except HfHubHTTPError as error:
        status, message_of_hub = error.response.status_code, error.server_message or str(error)
        if status in REFUSED:
            hint = "The token needs write access to the repository: HF_TOKEN, or `hf auth login`."
            raise UserError(
                f"the hub refuses this token ({status}): {message_of_hub}", where=name, hint=hint
            ) from error
        raise OperationalError(f"the hub answers with {status}: {message_of_hub}", where=name) from error
    except ValueError as error:  # an invalid card
        raise UserError(f"the hub rejects this: {error}", where=name) from error
    except (HTTPError, OSError) as error:
        raise OperationalError(f"the hub could not be reached ({type(error).__name__})", where=name) from error
    return str(commit.commit_url)
