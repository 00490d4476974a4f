"""Data sets of the Hugging Face hub: which files a split has, and their download. No script of a data set ever runs.

hf://datasets/OWNER/NAME[@REVISION][/CONFIGURATION][/SPLIT], or in place of the last two a file, a folder or a pattern
of the repository. Files whose form is not read are replaced by the hub's own conversion to Parquet.
"""

from __future__ import annotations

import glob
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from subgraft.base.errors import OperationalError, UserError
from subgraft.base.security.terminal_escaping import say
from subgraft.config import yaml_tree

_PREFIX = re.compile(r"hf:/{1,2}")
_REFERENCE = re.compile(
    r"hf:/{1,2}datasets/(?P<id>[\w.-]+/[\w.-]+)(@(?P<revision>refs/(?:convert|pr)/[\w.-]+|[^/@]+))?(/(?P<within>.*))?"
)
_EXAMPLE = "As in hf://datasets/OWNER/NAME, or hf://datasets/OWNER/NAME/CONFIGURATION/SPLIT."
# Anyone's data set as Parquet, made by the hub.
_CONVERTED = "refs/convert/parquet"
_TABLES = (".parquet", ".arrow", ".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
_TEXTS = (".txt", ".txt.gz")
_README = "README.md"
_NO_DATA = re.compile(r"(?:.*/)?(?:\.|readme|licen[sc]e|notice|requirements).*", re.IGNORECASE)
# The names by which `datasets` recognises splits where a repository lists none.
_SPLITS: Mapping[str, Sequence[str]] = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_SHARD = re.compile(r"(?:.*/)?(?P<split>\w+(?:\.\w+)*)-\d{5}-of-\d{5}[^/]*")
_DEFAULT = "default"


def chosen_split(name: str, splits: Sequence[str], preferred: str) -> str:
    """The preferred split, or the only one; it is printed if there are several. Raises UserError for neither."""
    if preferred not in splits and len(splits) != 1:
        what = f"the splits are {', '.join(splits)}, and one is read" if splits else "the data set has no split"
        raise UserError(what, where=name, hint=f"Name it, as in {name}/{splits[0]}." if splits else "")
    split = preferred if preferred in splits else splits[0]
    if len(splits) > 1:
        say(f"{name}: the split {split} is read, of {', '.join(splits)}", to=sys.stderr)
    return split


class _Listing(NamedTuple):
    """The files of a repository. local: where they lie, if the hub could not be reached."""

    names: Sequence[str]
    local: Path | None = None


@dataclass(frozen=True)
class HubDataset:
    """A data set as a user names it.

    id: OWNER/NAME.  within: a configuration, a split or both, or files.
    """

    id: str
    revision: str | None = None
    within: str = ""

    @staticmethod
    def named_by(path: Path) -> bool:
        """Whether a path, which has lost a slash, names something of the hub."""
        return _PREFIX.match(str(path)) is not None

    @classmethod
    def of(cls, path: Path) -> HubDataset | None:
        """The data set; None for another path. Raises UserError for a malformed name."""
        if not cls.named_by(path):
            return None
        if not (match := _REFERENCE.fullmatch(str(path))):
            raise UserError("not the name of a data set", where=str(path), hint=_EXAMPLE)
        revision = match["revision"]
        return cls(match["id"], revision and unquote(revision), (match["within"] or "").strip("/"))

    def __str__(self) -> str:
        return f"hf://datasets/{self.id}" + (f"@{self.revision}" if self.revision else "")

    def files(self, preferred: str) -> tuple[Path, ...]:
        """The local files of a split, which are downloaded. Raises as `dataset_files`."""
        names, at = self._listing.names, self
        # A script, which does not run, may make the rows of any of the files.
        scripted = f"{self.id.partition('/')[2]}.py" in names and not self._card
        if scripted or not _readable(names):
            at = self._conversion or self
        if at is not self:
            say(f"{self}: the hub's own conversion to Parquet is read", to=sys.stderr)
        chosen = at._names(preferred) if _readable(at._listing.names) else []
        if not (readable := _readable(chosen)):
            endings = ", ".join(sorted({Path(name).suffix or name for name in _data(names)})) or "there is none"
            hint = f"Save it by `datasets`: load_dataset('{self.id}').save_to_disk('FOLDER'); and give FOLDER."
            raise UserError(f"none of its files can be read ({endings})", where=str(self), hint=hint)
        return at._downloaded(readable)

    @property
    def _conversion(self) -> HubDataset | None:
        """The data set as Parquet, if the hub has it so."""
        converted = replace(self, revision=_CONVERTED)
        return None if self.revision == _CONVERTED or converted._listed(required=False) is None else converted

    def _names(self, preferred: str) -> Sequence[str]:
        """The names of the files of a split, of any form."""
        names = self._listing.names
        files = self.within if self.revision != _CONVERTED else ""
        if files and (matching := _matching(files, names) or _matching(f"{files}/**", names)):
            splits: Mapping[str, Sequence[str]] = _splits_by_name(matching)
            of = f"{self}/{self.within}"
        else:
            configuration, split = self._divided()
            splits, of = self._configurations[configuration], f"{self}/{configuration}"
            of = str(self) if len(self._configurations) == 1 else of
            if split:
                return splits[split]
        return splits[chosen_split(of, list(splits), preferred)]

    def _divided(self) -> tuple[str, str]:
        """The configuration and the split that the name has; '' for a split that it leaves open."""
        known, (first, _, last) = self._configurations, self.within.rpartition("/")
        for configuration, split in ((self.within, ""), (first, last), (self._usual, self.within)):
            if configuration in known and (not split or split in known[configuration]):
                return configuration, split
        if not self._usual and (not self.within or any(self.within in splits for splits in known.values())):
            name = "/".join(filter(None, (str(self), next(iter(known)), self.within)))
            what = f"the data set has the configurations {', '.join(known)}, and one is read"
            raise UserError(what, where=str(self), hint=f"Name it, as in {name}.")
        there = "; ".join(f"{name}: {', '.join(splits)}" for name, splits in known.items())
        hint = f"Its configurations and their splits: {there}."
        raise UserError(f"there is no '{self.within}'", where=str(self), hint=hint)

    @property
    def _usual(self) -> str:
        """The configuration that is read if the name has none; '' if there are several."""
        known = self._configurations
        marked = (each.get("config_name") for each in self._card if each.get("default") is True)
        usual = next((str(name) for name in marked), _DEFAULT)
        return usual if usual in known else next(iter(known)) if len(known) == 1 else ""

    @cached_property
    def _listing(self) -> _Listing:
        listing = self._listed(required=True)
        assert listing is not None  # it was required
        return listing

    def _listed(self, *, required: bool) -> _Listing | None:
        """The files at the hub, or those that were downloaded earlier. None for a missing one that is not required."""
        from huggingface_hub import HfApi
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

        try:
            info = HfApi().dataset_info(self.id, revision=self.revision)
            return _Listing([file.rfilename for file in info.siblings or ()])
        except RevisionNotFoundError as error:
            if not required:
                return None
            raise UserError(f"the hub has no revision {self.revision} of this data set", where=str(self)) from error
        except (RepositoryNotFoundError, ValueError) as error:
            hint = "Check the spelling; one that is private or gated needs a token in HF_TOKEN."
            raise UserError("no such data set on the hub", where=str(self), hint=hint) from error
        except OSError as error:
            if (listing := self._downloaded_earlier()) is not None:
                return listing
            what = f"the hub could not be asked ({type(error).__name__})"
            raise OperationalError(what, where=str(self), hint="Check the connection to the hub.") from error

    def _downloaded_earlier(self) -> _Listing | None:
        """The files of this revision that the client has; None if there are none."""
        from huggingface_hub import CacheNotFound, scan_cache_dir

        try:
            repositories = scan_cache_dir().repos
        except CacheNotFound:
            return None
        for repository in repositories:
            if (repository.repo_type, repository.repo_id) != ("dataset", self.id):
                continue
            for revision in repository.revisions:
                if {self.revision or "main"} & {*revision.refs, revision.commit_hash}:
                    folder = revision.snapshot_path
                    files = (file.file_path.relative_to(folder).as_posix() for file in revision.files)
                    return _Listing(sorted(files), folder)
        return None

    @cached_property
    def _configurations(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        """The names of the files of each split of each configuration."""
        names = self._listing.names
        if self.revision == _CONVERTED:
            return _converted(names)
        listed = {
            str(entry.get("config_name", _DEFAULT)): splits
            for entry in self._card
            if (splits := _splits_of(entry, names))
        }
        return listed or {_DEFAULT: _splits_by_name(_readable(names))}

    @cached_property
    def _card(self) -> list[dict[str, Any]]:
        """The configurations that the repository's card names; none if there is no card, or a damaged one."""
        if self.revision == _CONVERTED or _README not in self._listing.names:
            return []
        (card,) = self._downloaded([_README])
        text = card.read_text(encoding="utf-8", errors="replace")
        matter = re.match(r"---\s*\n(.*?)\n---\s*(?:\n|$)", text, re.DOTALL)
        block = matter and re.search(r"^configs:.*?(?=^[^\s-]|\Z)", matter[1] + "\n", re.DOTALL | re.MULTILINE)
        data = yaml_tree.parse(block[0], _README).data if block else None
        configurations = data.get("configs") if isinstance(data, dict) else None
        return [each for each in configurations if isinstance(each, dict)] if isinstance(configurations, list) else []

    def _downloaded(self, names: Sequence[str]) -> tuple[Path, ...]:
        from huggingface_hub import snapshot_download

        listing = self._listing
        if (folder := listing.local) is None:
            patterns = [glob.escape(name) for name in names]
            try:
                # By its name, so that the client finds it again without the hub.
                copy = snapshot_download(self.id, repo_type="dataset", revision=self.revision, allow_patterns=patterns)
            except OSError as error:
                what = f"the download failed ({type(error).__name__})"
                raise OperationalError(what, where=str(self), hint="Check the connection to the hub.") from error
            folder = Path(copy)
        return tuple(folder / name for name in names)


def _data(names: Iterable[str]) -> list[str]:
    return [name for name in names if not _NO_DATA.fullmatch(name)]


def _readable(names: Iterable[str]) -> list[str]:
    """The tables among the files; or their texts, if there is nothing else."""
    data = _data(names)
    texts = [name for name in data if name.lower().endswith(_TEXTS)]
    return [name for name in data if name.lower().endswith(_TABLES)] or (texts if len(texts) == len(data) else [])


def _matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a pattern of a path matches: * within a folder, ** across folders."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    expression = re.compile("".join(wild.get(part, re.escape(part)) for part in parts))
    return [name for name in names if expression.fullmatch(name)]


def _splits_by_name(names: Iterable[str]) -> dict[str, list[str]]:
    """Files by the split that their names show, as `datasets` finds it; all are for training if none shows one."""
    shards, words = dict[str, list[str]](), dict[str, list[str]]()
    listed = sorted(names)
    for name in listed:
        if match := _SHARD.fullmatch(name):
            shards.setdefault(match["split"], []).append(name)
        elif split := next((split for split, keys in _SPLITS.items() if _has_word(name, keys)), None):
            words.setdefault(split, []).append(name)
    return shards or words or ({"train": listed} if listed else {})


def _has_word(name: str, words: Sequence[str]) -> bool:
    return re.search(rf"(?:^|[^A-Za-z])(?:{'|'.join(words)})(?:[^A-Za-z]|$)", name, re.IGNORECASE) is not None


def _splits_of(entry: Mapping[str, Any], names: Sequence[str]) -> dict[str, list[str]]:
    """The files of each split of a configuration of the card; `names` has those of the repository."""
    folder = entry.get("data_dir")
    within = [name for name in names if not isinstance(folder, str) or name.startswith(f"{folder.strip('/')}/")]
    listed = entry.get("data_files")
    if isinstance(listed, dict):
        listed = [{"split": split, "path": path} for split, path in listed.items()]
    listed = [listed] if isinstance(listed, str) else listed
    if not isinstance(listed, list):
        return _splits_by_name(within)
    if all(isinstance(pattern, str) for pattern in listed):
        return _splits_by_name(dict.fromkeys(name for pattern in listed for name in _matching(pattern, names)))
    splits = dict[str, list[str]]()
    for item in listed:
        if isinstance(item, dict) and (patterns := item.get("path")):
            patterns = patterns if isinstance(patterns, list) else [patterns]
            files = (name for pattern in patterns for name in _matching(str(pattern), names))
            splits.setdefault(str(item.get("split", "train")), []).extend(dict.fromkeys(files))
    return {split: files for split, files in splits.items() if files}


def _converted(names: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """The files CONFIGURATION/SPLIT/NUMBER.parquet, where large splits are partial-SPLIT."""
    by_name = dict[str, dict[str, list[str]]]()
    for name in sorted(names):
        parts = name.split("/")
        if len(parts) == 3 and name.endswith(".parquet"):
            by_name.setdefault(parts[0], {}).setdefault(parts[1].removeprefix("partial-"), []).append(name)
    return by_name
