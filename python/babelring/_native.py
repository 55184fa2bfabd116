"""Translator, over the C interface (babelring.h)."""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import numpy

Path = str | os.PathLike[str]


class TranslationError(RuntimeError):
    """A file that is missing or damaged, or another fault of the machine, in one line."""


class UsageError(ValueError):
    """An option or a text that is refused, in one line."""


@dataclass(frozen=True)
class Hypothesis:
    """One translation of a line."""

    text: str
    score: float  # log-probability divided by the length penalty; larger is better
    log_probability: float  # natural logarithm
    complete: bool  # False if cut at the maximum length
    details: dict[str, Any]  # further members that options ask for, such as scores of words


_OnText = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_int)


def _candidates() -> list[str]:
    """Where the library may be: named by BABELRING_LIBRARY, in the package, or found by the system."""
    given = os.environ.get("BABELRING_LIBRARY")
    beside = pathlib.Path(__file__).with_name("libbabelring.so.1")
    return [given] if given else ([str(beside)] if beside.exists() else ["libbabelring.so.1"])


def _load() -> ctypes.CDLL:
    name = _candidates()[0]
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise TranslationError(f"{name}: cannot be loaded: {error}; Translator needs Babelring's library") from None
    library.babelring_abi.restype = ctypes.c_int
    if (found := library.babelring_abi()) != 1:
        raise TranslationError(f"{name}: has ABI {found}, expected 1")
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    ids = ctypes.POINTER(ctypes.c_int32)
    for function, result, arguments in (
        ("version", text, []),
        ("error_kind", ctypes.c_int, [pointer]),
        ("error_message", text, [pointer]),
        ("error_free", None, [pointer]),
        ("free", None, [pointer]),
        ("translator_open", pointer, [text, ctypes.POINTER(pointer)]),
        ("translator_close", None, [pointer]),
        ("translate", pointer, [pointer, text, ctypes.POINTER(pointer)]),
        ("translate_stream", pointer, [pointer, text, _OnText, pointer]),
        ("score", pointer, [pointer, text, ctypes.POINTER(pointer), ctypes.POINTER(pointer)]),
        ("encode", pointer, [pointer, text, ctypes.c_int, ctypes.POINTER(ids), ctypes.POINTER(ctypes.c_size_t)]),
        ("decode", pointer, [pointer, ids, ctypes.c_size_t, ctypes.POINTER(pointer)]),
    ):
        entry = getattr(library, "babelring_" + function)
        entry.restype, entry.argtypes = result, arguments
    return library


_library: ctypes.CDLL | None = None
_library_lock = threading.Lock()


def _native() -> ctypes.CDLL:
    global _library
    with _library_lock:
        if _library is None:
            _library = _load()
        return _library


def library_version() -> str:
    """The version of libbabelring."""
    return _native().babelring_version().decode()


def _check(error: int | None) -> None:
    """Raises the error that a call of the library returned, and frees it."""
    if not error:
        return
    library = _native()
    message = library.babelring_error_message(error).decode(errors="replace")
    usage = library.babelring_error_kind(error) == 2
    library.babelring_error_free(error)
    raise UsageError(message) if usage else TranslationError(message)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


class Translator:
    """Translates with a checkpoint, or with an ensemble of several.

    `checkpoint`: a checkpoint's or a run's folder, or a list of them. Threads may share a translator: calls take turns.
    Use it as a context manager, or close() it, to free the model at once.
    """

    def __init__(
        self,
        checkpoint: Path | Sequence[Path],
        *,
        weights: Sequence[float] | None = None,
        combine: str = "probabilities",
        precision: str = "f32",
        device: str = "auto",
        threads: int = 0,
    ) -> None:
        self._handle = ctypes.c_void_p()
        single = isinstance(checkpoint, (str, os.PathLike))
        folders = [os.fspath(folder) for folder in ([checkpoint] if single else checkpoint)]
        options = {
            "checkpoint": folders,
            "weights": list(weights or []),
            "combine": combine,
            "precision": precision,
            "device": device,
            "threads": threads,
        }
        _check(_native().babelring_translator_open(_json(options), ctypes.byref(self._handle)))

    def close(self) -> None:
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            _native().babelring_translator_close(handle)

    def __enter__(self) -> Translator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise UsageError("the translator is closed")
        return self._handle

    @overload
    def translate(self, lines: str, **options: Any) -> str:
        """The translation of a line."""

    @overload
    def translate(self, lines: Sequence[str], **options: Any) -> list[str]:
        """The translations of lines, in their order."""

    def translate(self, lines: str | Sequence[str], **options: Any) -> str | list[str]:
        """The best translation of a line, or of each line. Options have the names of a request's members
        (docs/formats.md): beam=4, length_penalty=0.6, …"""
        if isinstance(lines, str):
            return self.translate([lines], **options)[0]
        return [item["hyp"] for item in self._items(lines, options)]

    def translate_n_best(self, lines: Sequence[str], n_best: int, **options: Any) -> list[list[Hypothesis]]:
        """The n best translations of each line, best first; none of an empty line."""
        items = self._items(lines, {"beam": max(5, n_best), **options, "nbest": n_best})
        return [[_hypothesis(found) for found in item["nbest"]] for item in items]

    def answers(self, lines: Sequence[str], **options: Any) -> list[dict[str, Any]]:
        """The answer of each line as the service gives it, with all members that the options ask for."""
        return self._items(lines, options)

    def _items(self, lines: Sequence[str], options: dict[str, Any]) -> list[dict[str, Any]]:
        lines = list(lines)
        if not lines:
            return []
        answer = ctypes.c_void_p()
        request = _json({**options, "text": lines})
        _check(_native().babelring_translate(self._open(), request, ctypes.byref(answer)))
        return json.loads(_take_text(answer))["items"]

    def stream(self, line: str, **options: Any) -> Iterator[str]:
        """Yields the translation of a line while it grows, from the first pieces to the whole text. Each value is the
        best text so far, which a beam may revise. Stopping the iteration stops the search."""
        handle, request = self._open(), _json({**options, "text": [line]})
        texts: queue.Queue[str | BaseException | None] = queue.Queue(maxsize=64)
        stopped = threading.Event()

        def on_text(_context: int, _line: int, text: bytes, _last: int) -> int:
            while not stopped.is_set():
                try:
                    texts.put(text.decode(errors="replace"), timeout=0.1)
                    return 0
                except queue.Full:
                    continue
            return 1

        def search() -> None:
            end: BaseException | None = None
            try:
                _check(_native().babelring_translate_stream(handle, request, _OnText(on_text), None))
            except BaseException as error:  # raised again where the caller iterates
                end = error
            while not stopped.is_set():
                try:
                    texts.put(end, timeout=0.1)
                    return
                except queue.Full:
                    continue

        thread = threading.Thread(target=search, daemon=True)
        thread.start()
        try:
            while isinstance(text := texts.get(), str):
                yield text
            if text is not None:
                raise text
        finally:
            stopped.set()
            thread.join()

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[numpy.ndarray]:
        """For each pair an array [tokens] f32: the natural logarithm of the probability of each piece of the target and
        then of </s>, given the source. The sum of an array is the log-probability of its pair."""
        import numpy

        values, counts = ctypes.c_void_p(), ctypes.c_void_p()
        request = _json({"source": list(sources), "target": list(targets)})
        _check(_native().babelring_score(self._open(), request, ctypes.byref(values), ctypes.byref(counts)))
        try:
            lengths = _array(counts, ctypes.c_int64, len(sources))
            tokens = _array(values, ctypes.c_float, int(lengths.sum()))
        finally:
            _native().babelring_free(values)
            _native().babelring_free(counts)
        return numpy.split(tokens, numpy.cumsum(lengths)[:-1]) if len(sources) else []

    def encode(self, line: str, side: str = "source") -> numpy.ndarray:
        """The pieces of a line as ids, an array [pieces] i32 without </s>."""
        if side not in ("source", "target"):
            raise UsageError(f"side: found '{side}', expected source or target")
        ids, count = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        text = line.encode("utf-8", "surrogatepass")
        arguments = (self._open(), text, int(side == "target"), ctypes.byref(ids), ctypes.byref(count))
        _check(_native().babelring_encode(*arguments))
        try:
            return _array(ctypes.cast(ids, ctypes.c_void_p), ctypes.c_int32, count.value)
        finally:
            _native().babelring_free(ids)

    def decode(self, ids: Sequence[int] | numpy.ndarray) -> str:
        """The text of pieces given as ids."""
        values = [int(id) for id in ids]
        array = (ctypes.c_int32 * max(1, len(values)))(*values)
        text = ctypes.c_void_p()
        _check(_native().babelring_decode(self._open(), array, len(values), ctypes.byref(text)))
        return _take_text(text)


def _hypothesis(found: dict[str, Any]) -> Hypothesis:
    plain = {"hyp", "score", "log_probability", "complete"}
    details = {name: value for name, value in found.items() if name not in plain}
    return Hypothesis(found["hyp"], found["score"], found["log_probability"], found["complete"], details)


def _take_text(text: ctypes.c_void_p) -> str:
    try:
        return ctypes.string_at(text).decode()
    finally:
        _native().babelring_free(text)


def _array(pointer: ctypes.c_void_p, kind: Any, count: int) -> numpy.ndarray:
    """A copy of `count` numbers of the library's memory."""
    import numpy

    if count == 0:
        return numpy.empty(0, numpy.dtype(kind))
    return numpy.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(kind)), (count,)).copy()
