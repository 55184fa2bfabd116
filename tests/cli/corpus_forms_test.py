"""`nmt prepare` reads one corpus in all forms in which corpora come, and makes the same folder of each."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from system import BIN, ROOT, call  # noqa: E402

Pairs = list[tuple[str, str]]


def pairs_of(folder: Path, name: str) -> Pairs:
    sides = [gzip.decompress((folder / f"{name}.{side}.gz").read_bytes()).decode() for side in ("en", "de")]
    return list(zip(*(side.splitlines() for side in sides), strict=True))


def made_up(lines: int, seed: int) -> Pairs:
    words = "dog cat house & tree < > \"quoted\" 'single' ö ß € 漢字 &amp; <b> ]]> runs the a".split()
    draw = random.Random(seed)
    return [
        (f"{' '.join(draw.choices(words, k=6))} {i}", f"{' '.join(draw.choices(words, k=7))} x{i}")
        for i in range(lines)
    ]


def tmx(pairs: Pairs) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">\n'
    yield '<header srclang="en-US" segtype="sentence" datatype="xml" adminlang="en"/>\n<body>\n'
    for number, (source, target) in enumerate(pairs):
        english = escape(source).replace(" ", '<bpt i="1">&lt;i&gt;</bpt> <ept i="1">&lt;/i&gt;</ept>', 1)
        texts = [
            f'<tuv xml:lang="{"en-US" if number % 2 else "EN"}"><seg>{english}</seg></tuv>',
            f'<tuv xml:lang="de-AT">\n <prop type="x">no text</prop><seg>\n{escape(target)}\n</seg></tuv>',
        ]
        yield f"<tu>{''.join(texts if number % 3 else reversed(texts))}</tu>\n"
    yield "</body></tmx>\n"


def xliff1(pairs: Pairs) -> Iterator[str]:
    yield '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\n'
    for first in range(0, len(pairs), 500):
        yield '<file original="a" source-language="en" target-language="de-DE" datatype="plaintext"><body><group>\n'
        for number, (source, target) in enumerate(pairs[first : first + 500]):
            marked = (
                escape(target).replace(" ", '<x id="1"/> <g id="2">', 1) + "</g>" if " " in target else escape(target)
            )
            yield (
                f'<trans-unit id="{number}"><source>{escape(source)}</source><target state="final">{marked}</target>'
                "<note>source and <target></note>".replace("<target>", "target")
                + "<alt-trans><source>other</source><target>andere</target></alt-trans></trans-unit>\n"
            )
        yield "</group></body></file>\n"
    yield "</xliff>\n"


def xliff2(pairs: Pairs) -> Iterator[str]:
    yield '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">\n<file id="f">\n'
    for number, (source, target) in enumerate(pairs):
        yield f'<unit id="{number}"><mtc:matches><mtc:match ref="#1"><source>no</source><target>nein</target></mtc:match></mtc:matches>'
        yield f'<segment><source><pc id="1">{escape(source)}</pc></source><target><![CDATA['
        yield target.replace("]]>", "]]]]><![CDATA[>")
        yield "]]></target></segment><ignorable><source> </source><target> </target></ignorable></unit>\n"
    yield "</file></xliff>\n"


def wmt(pairs: Pairs) -> Iterator[str]:
    yield "<?xml version='1.0' encoding='utf-8'?>\n<dataset id=\"made\">\n"
    for first in range(0, len(pairs), 30):
        part = list(enumerate(pairs[first : first + 30], 1))
        segments = [[f'<seg id="{i}">{escape(pair[side])}</seg>\n' for i, pair in part] for side in (0, 1)]
        yield f'<doc origlang="en" id="d{first}">\n<src lang="en"><p>{"".join(segments[0])}</p></src>\n'
        yield f'<ref lang="de" translator="A"><p>{"".join(reversed(segments[1]))}</p></ref>\n'
        yield '<ref lang="de" translator="B"><p><seg id="1">another one</seg></p></ref>\n'
        yield '<hyp system="X" lang="de"><p><seg id="1">a hypothesis</seg></p></hyp></doc>\n'
    yield "</dataset>\n"


def sgml(pairs: Pairs, side: int) -> Iterator[str]:
    name = ("srcset", "refset")[side]
    yield f'<{name} setid="made" srclang="any" trglang="de">\n'
    for first in range(0, len(pairs), 30):
        yield f'<DOC docid={quoteattr(f"d{first}")} genre="news" origlang="en">\n<hl>\n<p>\n'
        for i, pair in enumerate(pairs[first : first + 30], 1):
            yield f'<seg id="{i}"> {escape(pair[side])} </seg>\n'
        yield "</p>\n</hl>\n</DOC>\n"
    yield f"</{name}>\n"


def tsv(pairs: Pairs) -> Iterator[str]:
    for number, (source, target) in enumerate(pairs):
        yield f"{number}\t{target}\t0.93\t{source}\n"


class CorpusFormsTest(unittest.TestCase):
    folder: Path
    train: Pairs
    valid: Pairs

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="babelring-forms-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.addClassCleanup(os.chdir, os.getcwd())
        os.chdir(cls.folder)
        real = Path(os.environ.get("BABELRING_DATA", ROOT.parent / "shared/data")) / "multi30k"
        if (real / "val.en.gz").exists():
            cls.train, cls.valid = pairs_of(real, "val"), pairs_of(real, "test_2018_flickr")
        else:
            cls.train, cls.valid = made_up(1000, 1), made_up(200, 2)
        cls.train = cls.train + made_up(50, 3)
        for name, pairs in (("train", cls.train), ("valid", cls.valid)):
            for side in (0, 1):
                lines = "".join(pair[side] + "\n" for pair in pairs)
                Path(f"{name}.{side}").write_text(lines, encoding="utf-8")
        cls.expected = cls.prepared("--train train.0 train.1 --valid valid.0 valid.1")
        for form in (tmx, xliff1, xliff2, wmt, tsv):
            Path(form.__name__).write_text("".join(form(cls.train)), encoding="utf-8")
        for side in (0, 1):
            Path(f"sgml.{side}").write_text("".join(sgml(cls.valid, side)), encoding="utf-8")

    @staticmethod
    def prepared(words: str, output: str = "out") -> tuple[dict[str, bytes], list[object]]:
        """The files that training reads, and the counts of the report."""
        done = subprocess.run(
            ["bash", "-c", f"{BIN}/nmt prepare {words} --output {output} --vocabulary-size 600"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        files = {path.name: path.read_bytes() for path in Path(output).iterdir()}
        del files["manifest.json"]
        report = json.loads(files.pop("report.json"))
        for one in report["sets"]:
            one["findings"] = {name: finding["count"] for name, finding in one["findings"].items()}
            del one["target_changed"]["examples"]
        shutil.rmtree(output)
        return files, report["sets"]

    def expect(self, words: str) -> None:
        files, report = self.prepared(words)
        self.assertEqual(report, self.expected[1], words)
        self.assertTrue(files == self.expected[0], words)

    def test_each_form_gives_the_folder_of_plain_text(self) -> None:
        for form in ("tmx", "xliff1", "xliff2", "wmt", "tsv --columns 4,2"):
            self.expect(f"--train {form} --valid valid.0 valid.1")
        self.expect("--train tmx --valid sgml.0 sgml.1 --languages en,de")

    def test_held_out_sets_are_read_in_each_form(self) -> None:
        for form in (tmx, xliff1, xliff2, wmt, tsv):
            Path("held").write_text("".join(form(self.valid)), encoding="utf-8")
            self.expect(f"--train train.0 train.1 --valid held {'--columns 4,2' if form is tsv else ''}")

    def test_compressed_parts_of_several_forms_are_one_corpus(self) -> None:
        parts = [self.train[:300], self.train[300:500], self.train[500:700], self.train[700:]]
        Path("a").write_bytes(lzma.compress("".join(tmx(parts[0])).replace("UTF-8", "UTF-16").encode("utf-16")))
        Path("b").write_bytes(bz2.compress("".join(xliff2(parts[1])).encode()) + bz2.compress(b""))
        Path("c.0").write_bytes(gzip.compress("".join(pair[0] + "\n" for pair in parts[2]).encode()))
        Path("c.1").write_text("".join(sgml(parts[2], 1)), encoding="utf-8")
        Path("d").write_text("".join(wmt(parts[3])), encoding="utf-8")
        self.expect("--train a b --train c.0 c.1 --train d --valid valid.0 valid.1")
        told = call("nmt", *"prepare --train a b c.0 c.1 d --valid valid.0 valid.1 --dry-run".split()).stderr
        for line in ("a: TMX, xz, en to de", "b: XLIFF, bzip2, en to de", "c.0: plain text, gzip", "c.1: SGML\n"):
            self.assertIn(line, told)
        self.assertNotIn("valid.0: plain text", told)
        Path("valid.tmx").write_text("".join(tmx(self.valid)), encoding="utf-8")
        self.expect("--train a b c.0 c.1 <(cat d) --valid <(gzip -c valid.tmx)")

    def test_the_other_direction(self) -> None:
        swapped = self.prepared("--train train.1 train.0 --valid valid.1 valid.0")
        for form in ("tmx", "xliff1", "xliff2", "tsv --columns 2,4"):
            found = self.prepared(f"--train {form} --languages de,en --valid valid.1 valid.0")
            self.assertEqual(found[1], swapped[1], form)
            self.assertTrue(found[0] == swapped[0], form)

    def test_complaints(self) -> None:
        three = "<tmx version='1.4'><body><tu>{}</tu></body></tmx>".format(
            "".join(f"<tuv xml:lang='{language}'><seg>a</seg></tuv>" for language in ("en", "de", "fr"))
        )
        Path("three").write_text(three, encoding="utf-8")
        Path("backward").write_text("".join(tmx(self.valid)).replace('srclang="en-US"', 'srclang="de"'))
        both = "".join(tmx(self.train))
        Path("torn").write_text(both[: len(both) // 2])
        Path("html").write_text("<?xml version='1.0'?>\n<html>")
        lone = "is without a target; expected source and target in turn, or files of TSV, TMX, XLIFF or XML of WMT"
        for code, words, message in (
            (2, "--train train.0", f"--train: found 1 file, 'train.0' (plain text) {lone}"),
            (
                2,
                "--train tmx train.0 train.1 html",
                f"--train: found 4 files, 'html' (XML or HTML of another kind) {lone}",
            ),
            (
                2,
                "--train train.0 tmx",
                "--train: 'tmx' is TMX, which holds both sides, and stands in the place of the target",
            ),
            (
                2,
                "--train tmx --valid tmx wmt",
                "--valid: found 'tmx' (TMX) and 'wmt', expected one file that holds both",
            ),
            (2, "--train tmx --valid sgml.0", "--valid: found 1 file, 'sgml.0' (SGML) is without a target"),
            (2, "--train tmx --languages en", "--languages"),
            (2, "--train tmx --identify", "--identify: expected --languages too, such as en,de"),
            (2, "--train tmx --identify --languages en,xx", "--identify: CLD2 does not know the language 'xx'"),
            (2, "--train tmx --scripts Latn,Latn", "--scripts: nothing uses it without --min-script, such as 0.5"),
            (2, "--train tmx --min-script 0.5 --scripts Latn,Lat", "--scripts: found 'Lat', expected scripts such as"),
            (2, "--train tmx --max-symbols 2", "--max-symbols: found 2, expected 0 to 1"),
            (2, "--train tsv --columns 0,1", "--columns: found 0, expected 1 to 1000"),
            (1, "--train three", "three:1: a unit in 3 languages (en, de, fr); expected --languages, such as en,de"),
            (1, "--train tmx --languages en,fr", "tmx: no text in 'fr', only in de-at, en, en-us; see --languages"),
            (
                1,
                "--train tmx --valid backward",
                "backward is read from de to en, tmx from en to de; choose by --languages",
            ),
            (1, "--train torn", "unexpected end of file; expected well-formed TMX"),
            (1, "--train tsv --columns 9,1", "(too_few_columns"),
            (1, "--train sgml.0 train.1", "expected equal numbers of lines"),
            (1, "--train html train.0", "html:1: begins with '<?xml'"),
        ):
            done = call("nmt", "prepare", *words.split(), "--output", "bad", "--vocabulary-size", "600")
            self.assertEqual(done.returncode, code, f"{words}: {done.stderr}")
            self.assertIn(message, done.stderr)
            self.assertFalse(Path("bad/manifest.json").exists())

    def test_a_dry_run_reports_and_writes_nothing(self) -> None:
        words = "prepare --train train.0 train.1 --valid valid.0 valid.1 --dry-run --max-symbols 0.3 --min-numbers 0.9"
        before = sorted(Path(".").iterdir())
        done = call("nmt", *words.split(), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        train = json.loads(done.stdout)["sets"][0]
        self.assertEqual(train["pairs_read"], len(self.train))
        self.assertLess(train["pairs_kept"], len(self.train))
        self.assertIn(" ||| ", train["findings"]["symbols"]["examples"][0])
        self.assertIn("nothing written (--dry-run)", call("nmt", *words.split()).stdout)
        self.assertEqual(sorted(Path(".").iterdir()), before)
        self.assertFalse(Path("x").exists())

    def test_a_bomb_and_outside_entities_are_refused(self) -> None:
        body = "<tmx version='1.4'><body><tu><tuv xml:lang='en'><seg>&{};</seg></tuv></tu></body></tmx>"
        levels = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10))
        Path("bomb").write_text(f'<!DOCTYPE tmx [<!ENTITY e0 "lol lol lol">{levels}]>{body.format("e9")}')
        Path("outside").write_text(f'<!DOCTYPE tmx [<!ENTITY x SYSTEM "/etc/passwd">]>{body.format("x")}')
        Path("absent").write_text(f'<!DOCTYPE tmx SYSTEM "tmx14.dtd">{body.format("nbsp")}')
        Path("tag").write_text("<tmx><body><tu x='" + 3_000_000 * "a" + "'/></body></tmx>")
        for name, message in (
            ("bomb", "bomb:1: limit on input amplification factor"),
            ("outside", "outside:1: an entity is in another file (/etc/passwd), and nothing else is loaded"),
            ("absent", "absent:1: the file does not declare &nbsp; and nothing else is loaded"),
            ("tag", "tag:1: a tag or comment of over 1048576 bytes"),
        ):
            done = call("nmt", "prepare", "--train", name, "--output", "bad", "--vocabulary-size", "600")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(message, done.stderr)
            self.assertNotIn("root:", done.stderr)


if __name__ == "__main__":
    unittest.main()
