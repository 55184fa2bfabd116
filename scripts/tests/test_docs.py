"""Everything that the documents name must exist: paths of the repository, links, and options of its scripts."""

from __future__ import annotations

import itertools
import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKING = [*DOCUMENTS, *sorted((ROOT / "deploy").rglob("*.md"))]
SOURCES = {".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".ts", ".mjs", ".yaml", ".yml", ".service", ".cmake", ".txt"}
NAMED_DOCUMENT = re.compile(r"\bdocs/[\w./-]+\.md\b(?:#([\w-]+))?")
TOPS = r"base|cli|client|insight|lab|nmt|server|worker|scripts|tests|docs|configs|cmake|deploy|\.ci"
PATH = re.compile(rf"(?<![\w/.:$-])(?:{TOPS})/[\w./*{{}},-]*\w[}}*/]?")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
SCRIPT_CALL = re.compile(r"(scripts/\w+\.(?:sh|py))((?: +(?:\[?--[\w-]+|[\w./=,{}-]+\]?))*)")
PLACEHOLDER = re.compile(r"\b(NAME|DIR|FOLDER)\b")


def expand(path: str) -> list[str]:
    """a.{b,c} to a.b and a.c."""
    braces = re.search(r"\{([^}]*)\}", path)
    if braces is None:
        return [path]
    return list(
        itertools.chain(
            *(expand(path[: braces.start()] + word + path[braces.end() :]) for word in braces[1].split(","))
        )
    )


def named_paths(text: str) -> list[str]:
    """Paths from the root that a text names; the targets of links, which begin at the document, are not among them."""
    return [
        path
        for found in PATH.findall(re.sub(r"\]\([^)]*\)", "]", text))
        if not PLACEHOLDER.search(found.replace("_", " "))
        for path in expand(found)
    ]


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in HEADING.findall(text)}


def source_files() -> list[pathlib.Path]:
    """The sources, scripts and configurations of the repository, without what is built or installed."""
    files: list[pathlib.Path] = []
    for folder, folders, names in os.walk(ROOT):
        if pathlib.Path(folder) == ROOT:
            folders[:] = [name for name in folders if re.fullmatch(TOPS, name)]
        folders[:] = [name for name in folders if name not in ("node_modules", "dist", "__pycache__")]
        files += [pathlib.Path(folder) / name for name in names if pathlib.Path(name).suffix in SOURCES]
    return files


def unsaid(text: str, said: str) -> list[str]:
    """Pieces, between "…", of the messages in a document's blocks of code that `said`, the sources, does not contain."""
    pieces = [
        piece.strip(" ;:,.(")
        for block in re.findall(r"```\n(.*?)```", text, re.DOTALL)
        for line in block.splitlines()
        for piece in line.split("…")
    ]
    return [piece for piece in pieces if piece not in said]


def wrong_options(text: str) -> list[str]:
    """Options that a document gives to a script although neither it nor the scripts that it calls know them."""
    wrong = []
    for script, words in SCRIPT_CALL.findall(text):
        sources = (
            [ROOT / script, *(ROOT / "tests/bench").glob("*.cc")] if script.endswith("bench.sh") else [ROOT / script]
        )
        known = "".join(source.read_text(encoding="utf-8") for source in sources if source.is_file())
        wrong += [f"{script} {option}" for option in re.findall(r"--[\w-]+", words) if option not in known]
    return wrong


class Documents(unittest.TestCase):
    def test_paths_exist(self) -> None:
        for document in DOCUMENTS:
            if document.name == "configuration.md":  # its texts name files of a run's folder
                continue
            for path in named_paths(document.read_text(encoding="utf-8")):
                with self.subTest(document=document.name, path=path):
                    self.assertTrue(any(ROOT.glob(path.rstrip("/"))), "no such file or folder")

    def test_links_lead_somewhere(self) -> None:
        for document in LINKING:
            for link, anchor in LINK.findall(document.read_text(encoding="utf-8")):
                with self.subTest(document=document.name, link=link, anchor=anchor):
                    target = document.parent / link if link else document
                    self.assertTrue(target.exists(), "leads nowhere")
                    if anchor:
                        self.assertIn(anchor, anchors(target.read_text(encoding="utf-8")))

    def test_documents_that_sources_name_exist(self) -> None:
        for source in source_files():
            if source.is_relative_to(ROOT / "scripts" / "tests"):
                continue
            for named in NAMED_DOCUMENT.finditer(source.read_text(encoding="utf-8")):
                with self.subTest(source=str(source.relative_to(ROOT)), named=named[0]):
                    document = ROOT / named[0].partition("#")[0]
                    self.assertTrue(document.is_file(), "no such document")
                    if named[1]:
                        self.assertIn(named[1], anchors(document.read_text(encoding="utf-8")))

    def test_code_of_the_readme_is_that_of_the_update(self) -> None:
        block = re.search(r"```cpp\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
        assert block is not None
        source = (ROOT / "nmt/train/update/update_runner.cc").read_text(encoding="utf-8")
        lines = [line.partition("//")[0].strip() for line in block[1].splitlines()]
        self.assertGreater(len(lines), 10)
        self.assertEqual([line for line in lines if line not in source], [])

    def test_programs_say_the_messages_of_troubleshooting(self) -> None:
        program = [source for source in source_files() if source.suffix in (".cc", ".h", ".cu")]
        said = "\n".join(
            source.read_text(encoding="utf-8") for source in program if ROOT / "tests" not in source.parents
        )
        said = re.sub(r'"\s*\n\s*"', "", said)  # a literal on several lines
        said += (ROOT / "tests/base/open_mpi_outputs.txt").read_text(encoding="utf-8")
        self.assertEqual(unsaid((ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8"), said), [])

    def test_scripts_know_their_options(self) -> None:
        for document in DOCUMENTS:
            with self.subTest(document=document.name):
                self.assertEqual(wrong_options(document.read_text(encoding="utf-8")), [])


class Finding(unittest.TestCase):
    def test_paths_in_running_text(self) -> None:
        text = (
            "see `base/log.h`, tests/mpi/two_hosts.sh. Not http://host/docs/x, [a link](lab/x.md) or `nmt/ops/NAME.h`; "
            "scripts/lib/{a,b}.py"
        )
        self.assertEqual(
            named_paths(text), ["base/log.h", "tests/mpi/two_hosts.sh", "scripts/lib/a.py", "scripts/lib/b.py"]
        )

    def test_anchors_of_headings(self) -> None:
        self.assertEqual(
            anchors("# `step`: one update\ntext\n## Multi30k, transformer-tiny\n"),
            {"step-one-update", "multi30k-transformer-tiny"},
        )

    def test_messages_that_no_program_says(self) -> None:
        self.assertEqual(unsaid("```\nno … left: …\nno … is left\n```\n`x`", "no {} left: {}"), ["is left"])

    def test_options_that_a_script_lacks(self) -> None:
        self.assertEqual(
            wrong_options("`scripts/test.sh --fast` or scripts/test.sh --fats"), ["scripts/test.sh --fats"]
        )


if __name__ == "__main__":
    unittest.main()
