#!/usr/bin/env python3
"""Writes docs/configuration.md, the keys of a run's configuration, from the help of the worker.

usage: configuration_docs.py WORKER [--check]   --check: only say whether the document is up to date; exit code 1 if not
"""

import pathlib
import subprocess
import sys

DOCUMENT = pathlib.Path(__file__).resolve().parents[1] / "docs/configuration.md"
HEAD = """# Configuration

The keys of a run's configuration, made from `worker --help` by `scripts/configuration_docs.py`. A file has them as YAML; a
command line overrides them, and `worker --check-config` prints the result without training:

```
worker --config configs/quickstart.yaml training.max_minutes=10 optimizer.learning_rate=0.0005
```

Unknown keys, wrong types and values out of range are refused with file, line, column and what was expected. A list on a command
line is `a,b` or `[a, b]`. The model's defaults are those of the preset `transformer-base`; another `preset` changes them. A run
keeps its resolved configuration in `config.yaml` of its folder.
"""
TITLES = {
    "": "The run",
    "model": "The model",
    "data": "The data",
    "gssm": "Generated sequences",
    "optimizer": "The optimizer",
    "training": "Training",
    "validation": "Validation",
    "checkpoint": "Checkpoints",
    "communication": "Communication",
    "lab": "The lab",
}


def keys_of(help_text: str) -> list[list[str]]:
    """Key, type, default and meaning of each key, from the table at the end of the help."""
    lines = help_text.partition("Keys of the configuration:\n")[2].splitlines()
    begins = [lines[0].index(name) for name in ("key", "type", "default", "meaning")]
    ends = [*begins[1:], None]
    return [[line[a:b].strip() for a, b in zip(begins, ends)] for line in lines[1:] if line.strip()]


def escaped(text: str) -> str:
    return text.replace("|", "\\|")


def document(help_text: str) -> str:
    keys = keys_of(help_text)
    group_of = {key: key.partition(".")[0] if "." in key else "" for key, *_ in keys}
    text = HEAD
    for group, title in TITLES.items():
        text += f"\n## {title}\n\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n"
        for key, kind, default, meaning in keys:
            if group_of[key] == group:
                shown = f"`{escaped(default)}`" if default else ""
                text += f"| `{key}` | {escaped(kind)} | {shown} | {escaped(meaning)} |\n"
    if unknown := set(group_of.values()) - set(TITLES):
        sys.exit(f"configuration_docs.py: found keys of {sorted(unknown)}, expected a title for each")
    return text


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    help_text = subprocess.run([arguments[0], "--help"], check=True, capture_output=True, text=True).stdout
    text = document(help_text)
    if "--check" not in sys.argv:
        DOCUMENT.write_text(text, encoding="utf-8")
    elif not DOCUMENT.exists() or DOCUMENT.read_text(encoding="utf-8") != text:
        sys.exit(f"docs/configuration.md differs from the help: run scripts/configuration_docs.py {arguments[0]}")


if __name__ == "__main__":
    main()
