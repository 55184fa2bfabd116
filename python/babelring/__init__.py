"""Babelring from Python: translate with checkpoints in this process, and ask a server about its runs.

    import babelring

    translator = babelring.Translator("runs/help")
    translator.translate(["Save the file."])         # ['Speichern Sie die Datei.']

    server = babelring.Server("http://127.0.0.1:8080", token="bbr_…")
    server.run("help").history("loss")["value"]      # numpy array

Translator needs libbabelring, which the wheel holds; Server needs only Python. numpy is imported when arrays are asked
for, pandas only by methods named frame().
"""

from ._native import Hypothesis, TranslationError, Translator, UsageError, library_version
from ._server import Checkpoint, NotReached, Run, Server, ServerError

__all__ = [
    "Checkpoint",
    "Hypothesis",
    "NotReached",
    "Run",
    "Server",
    "ServerError",
    "TranslationError",
    "Translator",
    "UsageError",
    "library_version",
]
__version__ = "0.1.0"
