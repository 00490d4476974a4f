"""Safetensors that the hub itself has made of a repository's weights, in a pull request which nobody has merged."""

from __future__ import annotations

import sys

from subgraft.base.terminal_escaping import say

BOT = "SFconvertbot"


def converted_weights(hub_id: str, head: str) -> str | None:
    """The commit of the conversion of `head`, the newest commit of a repository; it is told. None where there is none.

    Anybody may open a pull request: one counts only if its author is the hub's own bot, and it has one commit, the
    bot's, on top of `head`.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi()
    try:
        for asked in api.get_repo_discussions(hub_id, author=BOT, discussion_type="pull_request"):
            if asked.author != BOT:
                continue
            commits = api.list_repo_commits(hub_id, revision=asked.git_reference)
            if len(commits) > 1 and commits[0].authors == [BOT] and commits[1].commit_id == head:
                commit = commits[0].commit_id
                say(f"{hub_id}: weights of {BOT}'s pull request {asked.num}, commit {commit}", to=sys.stderr)
                return commit
    except (HfHubHTTPError, OSError):  # without an answer the repository is what it is
        return None
    return None
