"""A client of the server's REST interface (docs/api.md), with the standard library alone."""

from __future__ import annotations

import json
import os
import pathlib
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    import pandas


class NotReached(ConnectionError):
    """The server does not answer."""


class ServerError(RuntimeError):
    """The server refused a request."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status, self.code, self.detail = status, code, detail


class Server:
    """A Babelring server. `url` is its address without /api/v1; `token` may also be in BABELRING_TOKEN. `ca_file`: the
    certificate that signs the server's, if the system does not know it. Threads may share an object."""

    def __init__(self, url: str, token: str | None = None, *, ca_file: str | None = None, timeout: float = 60) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(f"url: found '{url}', expected http://HOST:PORT or https://HOST")
        self.url = url.rstrip("/")
        self._token = token if token is not None else os.environ.get("BABELRING_TOKEN", "")
        self._context = ssl.create_default_context(cafile=ca_file) if parts.scheme == "https" else None
        self._timeout = timeout

    def open(self, method: str, path: str, body: Any = None, accept: str = "application/json", **query: Any) -> Any:
        """The response of a request, to be read and closed by the caller. `query` members that are None are left out."""
        given = {name: value for name, value in query.items() if value is not None}
        address = f"{self.url}/api/v1{path}" + ("?" + urllib.parse.urlencode(given) if given else "")
        headers = {"Accept": accept} | ({"Authorization": f"Bearer {self._token}"} if self._token else {})
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(address, data, headers, method=method)
        try:
            return urllib.request.urlopen(request, timeout=self._timeout, context=self._context)
        except urllib.error.HTTPError as error:
            with error:
                raise _problem(error) from None
        except OSError as error:
            raise NotReached(f"{self.url}: {getattr(error, 'reason', error)}") from None

    def request(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The JSON that answers a request; None if there is none."""
        with self.open(method, path, body, **query) as response:
            text = response.read()
        return json.loads(text) if text else None

    def items(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        """All items of a list, page by page."""
        page = self.request("GET", path, **query)
        while True:
            yield from page["items"]
            if not page.get("next_cursor"):
                return
            page = self.request("GET", path, **{**query, "cursor": page["next_cursor"]})

    def version(self) -> dict[str, Any]:
        return self.request("GET", "/version")

    def runs(self, **filters: Any) -> list[Run]:
        """The runs, newest first. Filters are the query's (state="running", q="help", label="set=wmt", …)."""
        return [Run(self, row) for row in self.items("/runs", **filters)]

    def run(self, name: str) -> Run:
        """A run by its id or its name. KeyError if there is none; ValueError if the name has several."""
        found = [run for run in self.runs(q=name) if name in (run.id, run.name)]
        if not found:
            raise KeyError(f"{self.url}: no run '{name}'")
        if len(found) > 1:
            raise ValueError(f"{self.url}: {len(found)} runs are named '{name}': " + ", ".join(run.id for run in found))
        return found[0]

    def runs_frame(self, **filters: Any) -> pandas.DataFrame:
        """The runs as a pandas table, a row each."""
        import pandas

        return pandas.json_normalize([run.info for run in self.runs(**filters)])


class Run:
    """A run as the server knew it when it was asked: `info` has all members; refresh() asks again."""

    def __init__(self, server: Server, info: dict[str, Any]) -> None:
        self.server, self.info = server, info

    def __repr__(self) -> str:
        return f"Run({self.name!r}, id={self.id!r}, state={self.state!r})"

    @property
    def id(self) -> str:
        return self.info["id"]

    @property
    def name(self) -> str:
        return self.info["name"]

    @property
    def state(self) -> str:
        return self.info["state"]

    def refresh(self) -> Run:
        self.info = self._get("")
        return self

    def _get(self, path: str, **query: Any) -> Any:
        return self.server.request("GET", f"/runs/{self.id}{path}", **query)

    def metrics(self) -> list[str]:
        """Keys of which the run has a history."""
        return [item["key"] for item in self._get("/metrics")["items"]]

    def history(self, key: str, *, rank: int | None = None, points: int | None = None) -> dict[str, numpy.ndarray]:
        """A metric over the updates, as arrays of f64 of one length: step, time_ms, value. All ranks together, or one.
        With `points`, a longer history is thinned to as many intervals, with min, avg and max instead of value. A value
        that was not a finite number is NaN. ServerError with code key_unknown if the run has no such metric (yet)."""
        import numpy

        agg = "raw" if points is None else "minmax"
        query = {"rank": rank, "agg": agg, "points": points}
        path = f"/runs/{self.id}/metrics/{urllib.parse.quote(key, safe='')}"
        with self.server.open("GET", path, accept="application/vnd.babelring.f64", **query) as response:
            columns = response.headers["X-Columns"].split(",")
            numbers = numpy.frombuffer(response.read(), "<f8").reshape(len(columns), -1)
        return dict(zip(columns, numbers))

    def frame(self, *keys: str, rank: int | None = None) -> pandas.DataFrame:
        """Histories of several metrics as a pandas table: a row each step, a column each key."""
        import pandas

        series = {}
        for key in keys:
            found = self.history(key, rank=rank)
            series[key] = pandas.Series(found["value"], index=pandas.Index(found["step"].astype("int64"), name="step"))
        return pandas.DataFrame(series)

    def evaluations(self) -> list[dict[str, Any]]:
        """Validations, oldest first."""
        return list(self.server.items(f"/runs/{self.id}/evals"))

    def checkpoints(self) -> list[Checkpoint]:
        """Checkpoints that exist, newest first."""
        return [Checkpoint(self.server, row) for row in self.server.items(f"/runs/{self.id}/checkpoints")]

    def verdict(self) -> dict[str, Any]:
        """The sentence on what holds the run back, with its figures."""
        return self._get("/verdict")

    def logs(self, **query: Any) -> list[dict[str, Any]]:
        """Lines of the log, oldest first: the last 200, or those that the query names (tail=, level=, q=, rank=)."""
        return self._get("/logs", **query)["items"]

    def stop(self, mode: str = "graceful") -> dict[str, Any]:
        return self.server.request("POST", f"/runs/{self.id}/stop", {"mode": mode})

    def resume(self) -> dict[str, Any]:
        return self.server.request("POST", f"/runs/{self.id}/resume", {})

    def save_checkpoint(self) -> dict[str, Any]:
        """Asks the ranks for a checkpoint now."""
        return self.server.request("POST", f"/runs/{self.id}/checkpoint")


class Checkpoint:
    """A checkpoint that the server knows: `info` has all members."""

    def __init__(self, server: Server, info: dict[str, Any]) -> None:
        self.server, self.info = server, info

    def __repr__(self) -> str:
        return f"Checkpoint({self.id!r}, update={self.update})"

    @property
    def id(self) -> str:
        return self.info["id"]

    @property
    def update(self) -> int:
        return self.info["update"]

    def translate(self, lines: Sequence[str], **options: Any) -> list[str]:
        """Translations of lines, made by the server."""
        body = {**options, "text": list(lines)}
        answer = self.server.request("POST", f"/checkpoints/{self.id}/translate", body)
        return [item["hyp"] for item in answer["items"]]

    def download(self, folder: str | os.PathLike[str]) -> pathlib.Path:
        """Copies the checkpoint's files into a folder, which must not exist, and checks their digests. Returns it."""
        import hashlib
        import shutil

        target = pathlib.Path(folder)
        part = target.with_name(target.name + ".part")
        if target.exists():
            raise FileExistsError(f"{target}: exists, expected a folder to be made")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for file in self.server.request("GET", f"/checkpoints/{self.id}")["files"]:
            name = pathlib.PurePosixPath(file["name"])
            if name.is_absolute() or ".." in name.parts:
                raise ServerError(200, "bad_name", f"a file named '{name}'")
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            digest = hashlib.sha256()
            address = f"/checkpoints/{self.id}/files/{urllib.parse.quote(str(name), safe='')}"
            with self.server.open("GET", address, accept="*/*") as response, (part / name).open("wb") as out:
                while block := response.read(1 << 20):
                    digest.update(block)
                    out.write(block)
            if digest.hexdigest() != file["sha256"]:
                raise ServerError(
                    200, "damaged", f"{name}: found SHA-256 {digest.hexdigest()}, expected {file['sha256']}"
                )
        with self.server.open("GET", f"/checkpoints/{self.id}/SHA256SUMS", accept="*/*") as response:
            (part / "SHA256SUMS").write_bytes(response.read())
        part.rename(target)
        return target


def _problem(error: urllib.error.HTTPError) -> ServerError:
    text = error.read()
    try:
        problem = json.loads(text)
        return ServerError(error.code, problem["code"], problem["detail"])
    except (ValueError, KeyError, TypeError):
        return ServerError(error.code, "no_problem", f"found no problem in the answer: {text[:200]!r}")
