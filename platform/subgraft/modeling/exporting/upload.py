"""A folder sent to the Hugging Face hub: the repository made where there is none, and every file in it."""

from __future__ import annotations

from pathlib import Path

from subgraft.base.errors import OperationalError, UserError

# A repository that held larger weights may have had them in more files: what is no longer theirs must not be loaded.
OLD_WEIGHTS = ["*.safetensors", "*.safetensors.index.json"]
# How the hub says that a token may not do this.
REFUSED = (401, 403)


def require_token() -> str:
    """The token from HF_TOKEN or `hf auth login`. Raises UserError if there is neither."""
    from huggingface_hub import get_token

    token = get_token()
    if not token:
        hint = "Set HF_TOKEN to a token of yours that may write, or log in with `hf auth login`."
        raise UserError("the hub takes models of those alone whom it knows", where="HF_TOKEN", hint=hint)
    return token


def require_name(name: str) -> None:
    """Raises UserError unless the name is a valid repository name, OWNER/NAME."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise UserError(f"no name on the hub: {error}", where=name) from error
    if "/" not in name:
        raise UserError("whose is it?", where=name, hint="Give OWNER/NAME: a user or an organisation of the hub.")


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
            raise UserError("this repository is there and is public; nothing was sent", where=name, hint=hint)
        message = "Upload a model with subgraft push"
        sent = api.upload_folder(repo_id=name, folder_path=folder, commit_message=message, delete_patterns=OLD_WEIGHTS)
    except HfHubHTTPError as error:
        status, told = error.response.status_code, error.server_message or str(error)
        if status in REFUSED:
            hint = "It needs to be a token that may write there: HF_TOKEN, or `hf auth login`."
            raise UserError(f"the hub refuses this token ({status}): {told}", where=name, hint=hint) from error
        raise OperationalError(f"the hub answers with {status}: {told}", where=name) from error
    except ValueError as error:  # of a card that the hub does not take
        raise UserError(f"the hub does not take this: {error}", where=name) from error
    except (HTTPError, OSError) as error:
        raise OperationalError(f"the hub could not be reached ({type(error).__name__})", where=name) from error
    return str(sent.commit_url)
