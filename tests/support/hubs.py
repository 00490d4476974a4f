"""A hub of models and data sets on this machine: as much of Hugging Face's protocol as a repository's client needs.

A repository is fetched as it is, and sent as large files (Git LFS) and a commit of the others.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_INFO = re.compile(
    r"/api/(?:models|datasets)/(?P<id>[\w.-]+/[\w.-]+)(/(?P<what>revision|tree|commits)/(?P<revision>[^/]+))?"
)
_ASKED = re.compile(r"/api/models/(?P<id>[\w.-]+/[\w.-]+)/discussions")
_FILE = re.compile(r"/(?:datasets/)?(?P<id>[\w.-]+/[\w.-]+)/resolve/(?P<revision>[^/]+)/(?P<name>.+)")
_SENT = re.compile(r"/api/models/(?P<id>[\w.-]+/[\w.-]+)/(?P<what>preupload|commit)/main")
_BATCH = re.compile(r"/(?P<id>[\w.-]+/[\w.-]+)\.git/info/lfs/objects/batch")
_OBJECT = re.compile(r"/objects/(?P<oid>[0-9a-f]{64})")
_REVISIONS = (None, "main", COMMIT, "v1")
_CONVERTED = "refs%2Fconvert%2Fparquet", "c" * 40  # the hub's own branch of a data set, and its commit
_REQUESTED = ("refs%2Fpr%2F1", "f" * 40)  # a pull request, and its commit
_WHEN = "2026-01-01T00:00:00.000Z"


@dataclass(frozen=True)
class PullRequest:
    """folder: the repository with it.  authors: of the request and of its commit.  parent: of that commit."""

    folder: Path
    authors: tuple[str, str]
    parent: str = COMMIT


class Hub(ThreadingHTTPServer):
    """Serves folder/OWNER/NAME as repositories of one commit.

    fetched: names of files, in the order asked for.  token: who gives it may send files.  private: ids of such
    repositories.  large: whether weights are sent apart.  objects: large files that came, by digest.  commits: the
    lines of each.  requests: that of a repository, by its id.
    """

    def __init__(self, folder: Path, token: str = "", *, large: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.token, self.large = folder, token, large
        self.fetched: list[str] = []
        self.private: set[str] = set()
        self.objects: dict[str, bytes] = {}
        self.commits: list[list[Any]] = []
        self.requests: dict[str, PullRequest] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_POST(self) -> None:
        path, content = self.path.split("?")[0], self._content()
        if self.headers["Authorization"] != f"Bearer {self.server.token}" or not self.server.token:
            self._json({"error": "Invalid credentials"}, 401)
        elif path == "/api/repos/create":
            self._create(json.loads(content))
        elif path == "/api/validate-yaml":
            text = json.loads(content)["content"]
            self._json({"errors": []}, 200 if text.startswith("---\n") else 400)
        elif (sent := _SENT.fullmatch(path)) and (self.server.folder / sent["id"]).is_dir():
            self._json(
                self._modes(json.loads(content)) if sent["what"] == "preupload" else self._commit(sent["id"], content)
            )
        elif _BATCH.fullmatch(path):
            self._json({"transfer": "basic", "objects": [self._wanted(one) for one in json.loads(content)["objects"]]})
        else:
            self._send(404, b"{}", True, {"X-Error-Code": "RepoNotFound"})

    def do_PUT(self) -> None:
        """A large file: its address is its permission."""
        result, content = _OBJECT.fullmatch(self.path), self._content()
        sound = result is not None and hashlib.sha256(content).hexdigest() == result["oid"]
        if result is not None and sound:
            self.server.objects[result["oid"]] = content
        self._json({}, 200 if sound else 400)

    def _content(self) -> bytes:
        """The body of a request, with a content length or in chunks."""
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _create(self, asked: Any) -> None:
        named = f"{asked['organization']}/{asked['name']}"
        there = (self.server.folder / named).is_dir()
        if not there:
            (self.server.folder / named).mkdir(parents=True)
            if asked.get("visibility") == "private":
                self.server.private.add(named)
        self._json({"url": f"{self.server.address}/{named}"}, 409 if there else 200)

    def _modes(self, asked: Any) -> Any:
        def mode(name: str) -> str:
            return "lfs" if self.server.large and name.endswith(".safetensors") else "regular"

        return {
            "files": [{"path": f["path"], "uploadMode": mode(f["path"]), "shouldIgnore": False} for f in asked["files"]]
        }

    def _wanted(self, asked: Any) -> Any:
        upload = {"href": f"{self.server.address}/objects/{asked['oid']}"}
        return {"oid": asked["oid"], "size": asked["size"], "actions": {"upload": upload}}

    def _commit(self, named: str, content: bytes) -> Any:
        lines = [json.loads(line) for line in content.splitlines()]
        self.server.commits.append(lines)
        for line in lines[1:]:
            place = self.server.folder / named / line["value"]["path"]
            place.parent.mkdir(parents=True, exist_ok=True)
            if line["key"] == "file":
                place.write_bytes(base64.b64decode(line["value"]["content"]))
            elif line["key"] == "lfsFile":
                place.write_bytes(self.server.objects[line["value"]["oid"]])
            else:
                place.unlink()
        return {"commitUrl": f"{self.server.address}/{named}/commit/{COMMIT}", "commitOid": COMMIT}

    def _json(self, content: Any, status: int = 200) -> None:
        self._send(status, json.dumps(content).encode(), True, {"Content-Type": "application/json"})

    def _answer(self, *, body: bool) -> None:
        path = self.path.split("?")[0]
        if result := _ASKED.fullmatch(path):
            self._json(self._requests(result["id"]))
        elif result := _INFO.fullmatch(path):
            self._repository(result["id"], result["what"], result["revision"], body)
        elif result := _FILE.fullmatch(path):
            self._file(result["id"], result["revision"], result["name"], body)
        else:
            self._send(404, b"", body, {"X-Error-Code": "EntryNotFound"})

    def _requests(self, named: str) -> Any:
        """All pull requests, for any repository."""
        repo = {"name": named, "type": "model"}
        about = {"title": "safetensors", "createdAt": _WHEN, "status": "open", "isPullRequest": True, "repo": repo}
        results = [
            {**about, "num": 1, "author": {"name": request.authors[0]}}
            for of, request in self.server.requests.items()
            if of == named
        ]
        return {"discussions": results, "count": len(results), "start": 0}

    def _commits(self, named: str) -> Any:
        """Of its pull request, the newest first."""
        request = self.server.requests[named]
        both = ((_REQUESTED[1], request.authors[1]), (request.parent, "somebody"))
        return [
            {"id": commit, "authors": [{"user": author}], "date": _WHEN, "title": "a commit", "message": ""}
            for commit, author in both
        ]

    def _at(self, named: str, revision: str | None) -> tuple[Path, str]:
        """The folder of a repository at a revision, and the commit that this is."""
        if revision in _REQUESTED and named in self.server.requests:
            return self.server.requests[named].folder, _REQUESTED[1]
        if revision in _CONVERTED and (converted := self.server.folder / "converted" / named).is_dir():
            return converted, _CONVERTED[1]
        return self.server.folder / named, COMMIT

    def _repository(self, named: str, what: str | None, revision: str | None, body: bool) -> None:
        folder, commit = self._at(named, revision)
        if not folder.is_dir():
            self._send(404, b"{}", body, {"X-Error-Code": "RepoNotFound"})
            return
        if what == "commits":
            self._json(self._commits(named))
            return
        if revision not in _REVISIONS and commit == COMMIT:
            self._send(404, b"{}", body, {"X-Error-Code": "RevisionNotFound"})
            return
        files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
        settings: Any = {"id": named, "sha": commit, "siblings": [{"rfilename": name} for name in files]}
        settings["private"] = named in self.server.private
        if what == "tree":
            settings = [
                {"type": "file", "path": name, "size": path.stat().st_size, "oid": _digest(path.read_bytes())}
                for name, path in files.items()
            ]
        self._send(200, json.dumps(settings).encode(), body, {"Content-Type": "application/json"})

    def _file(self, named: str, revision: str, name: str, body: bool) -> None:
        folder, commit = self._at(named, revision)
        if not (folder / name).is_file():
            self._send(404, b"", body, {"X-Error-Code": "EntryNotFound"})
            return
        content = (folder / name).read_bytes()
        if body:
            self.server.fetched.append(name)
        self._send(200, content, body, {"ETag": f'"{_digest(content)}"', "X-Repo-Commit": commit})

    def _send(self, status: int, content: bytes, body: bool, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _digest(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


@contextmanager
def hub(folder: Path, token: str = "", *, large: bool = True) -> Iterator[Hub]:
    """A hub that ends with the block."""
    with Hub(folder, token, large=large) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
