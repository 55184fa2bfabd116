"""Tests of scripts/corpus and scripts/fetch_corpus.sh. Run: python3 -m unittest discover -s scripts/tests"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import http.server
import io
import json
import lzma
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "corpus"))

import libreoffice  # noqa: E402
import parallel  # noqa: E402


def fetch(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts" / "fetch_corpus.sh", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


class Pages(unittest.TestCase):
    def test_texts_are_found_by_id_with_entities_decoded_and_tags_stripped(self) -> None:
        page = """<h1 id="hd_1" dir="auto">\n<a name="x"></a>Fu&szlig;noten &amp; mehr</h1>
            <p>no id</p><p id="par_1">Choose <a href="y"><span class="emph">Insert - Footnote</span></a>.<br>Then&nbsp;go.</p>
            <p id="par_2"><script>var code = 1;</script></p><p id="par_1">second of that name</p>"""
        self.assertEqual(
            libreoffice.paragraphs(page),
            {"hd_1": "Fußnoten & mehr", "par_1": "Choose Insert - Footnote. Then go.", "par_2": ""},
        )

    def test_sentences_end_at_marks_but_not_at_abbreviations(self) -> None:
        self.assertEqual(
            libreoffice.sentences('Click OK. Use e.g. Word 7. "Now" it works! Done'),
            ["Click OK.", 'Use e.g. Word 7. "Now" it works!', "Done"],
        )
        self.assertEqual(
            libreoffice.sentences('Sie heißt "Alpha." Öffnen Sie z. B. Nr. 5.'),
            ['Sie heißt "Alpha."', "Öffnen Sie z. B. Nr. 5."],
        )

    def test_a_paragraph_stays_whole_where_the_sides_disagree(self) -> None:
        self.assertEqual(libreoffice.split_pair("One. Two.", "Eins. Zwei."), [("One.", "Eins."), ("Two.", "Zwei.")])
        self.assertEqual(libreoffice.split_pair("One. Two.", "Eins und zwei."), [("One. Two.", "Eins und zwei.")])

    def test_pairs_come_from_pages_both_sides_have(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for language, text in (
                ("en-US", "<p id=a>Yes it is.</p><p id=b>Same</p>"),
                ("de", "<p id=a>Ja, so ist es.</p><p id=b>Same</p>"),
            ):
                pages = root / libreoffice.HELP / language / "text" / "sub"
                pages.mkdir(parents=True)
                (pages / "one.html").write_text(text, encoding="utf-8")
            (root / libreoffice.HELP / "en-US" / "text" / "only.html").write_text(
                "<p id=c>Alone here.</p>", encoding="utf-8"
            )
            pairs, counts = libreoffice.page_pairs(root)
        self.assertEqual(pairs, [("Yes it is.", "Ja, so ist es.")])
        self.assertEqual(counts, {"pages": 1, "paragraph_pairs": 1, "sentence_pairs": 1})

    def test_an_empty_tree_is_reported(self) -> None:
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(parallel.CorpusError, "no page in common"):
            libreoffice.page_pairs(pathlib.Path(folder))


class Cleaning(unittest.TestCase):
    def test_every_reason_to_drop_is_counted(self) -> None:
        long = "word " * 81
        pairs = [
            ("a b c", "d e f"),
            ("a  b\tc", "d e f"),
            ("x y z", "x y z"),
            ("a b", "c d e"),
            (long, long + "x"),
            ("a b c d e f g h", "i j k"),
            ("", "d e f"),
        ]
        kept, dropped = parallel.clean(pairs, parallel.Limits())
        self.assertEqual(kept, [("a b c", "d e f")])
        self.assertEqual(
            dropped, {"duplicate": 1, "identical": 1, "too_short": 1, "too_long": 1, "length_ratio": 1, "empty": 1}
        )

    def test_words_are_counted_with_and_without_spaces(self) -> None:
        for text, words in (
            ("", 0),
            ("naïve Größe – don't", 4),
            ("나는 오래된 책을 샀다", 4),
            ("谢谢。", 2),
            ("我在市场买了一本旧书。", 7),
            ("他用Linux 6写COVID-19论文", 8),
            ("市場で古い本を買いました。", 6),
            ("コンピューター", 3),
            ("ผมซื้อหนังสือเก่าที่ตลาด", 5),
            ("ຂ້ອຍຊື້ປຶ້ມເກົ່າ", 3),
            ("ខ្ញុំបានទិញសៀវភៅចាស់", 3),
            ("စာအုပ်အဟောင်းတစ်အုပ်", 3),
            ("བོད་ཀྱི་སྐད་ཡིག", 2),
        ):
            self.assertEqual(parallel.word_count(text), words, text)

    def test_pairs_without_spaces_are_kept_and_their_lengths_checked(self) -> None:
        source = "yesterday I bought an old book at the market"
        for target in (
            "我昨天在市场买了一本旧书。",
            "昨日、市場で古い本を買いました。",
            "เมื่อวานผมซื้อหนังสือเก่าที่ตลาด",
            "ម្សិលមិញខ្ញុំបានទិញសៀវភៅចាស់នៅផ្សារ",
            "မနေ့ကဈေးမှာစာအုပ်အဟောင်းဝယ်ခဲ့တယ်",
        ):
            self.assertIsNone(parallel.rejection((source, target), parallel.Limits()), target)
            self.assertEqual(parallel.rejection((source, target * 7), parallel.Limits()), "length_ratio")
            self.assertEqual(parallel.rejection((source, target), parallel.Limits(max_words=4)), "too_long")

    def test_texts_that_look_the_same_are_the_same(self) -> None:
        pairs = [
            ("one ABC book", "ein ABC Buch"),
            ("one\u2060 ＡＢＣ book", "ein\u2028ABC Bu\u00adch"),
            ("café\u200d", "cafe\u0301"),
            ("\u200b", "x y"),
        ]
        kept, dropped = parallel.clean(pairs, parallel.Limits(min_words=1))
        self.assertEqual(len(kept), 1)
        self.assertEqual(dropped, {"duplicate": 1, "identical": 1, "empty": 1})
        self.assertEqual(parallel.normalise("Donau\u00addampf\u200bschiff"), "Donaudampfschiff")
        self.assertNotEqual(parallel.sentence_key("กิน"), parallel.sentence_key("กัน"))

    def test_normalise_composes_and_removes_control_characters(self) -> None:
        self.assertEqual(parallel.normalise("\ufeffU\u0308ber\u00a0 den\x00 Tag\r\n"), "Über den Tag")


class Split(unittest.TestCase):
    def setUp(self) -> None:
        self.pairs = [(f"sentence number {i // 2}", f"Satz {i} Nummer") for i in range(400)]
        self.pairs += [(f"another {i}", f"satz {i}, NUMMER!") for i in range(0, 400, 7)]

    def test_no_held_out_sentence_occurs_in_training_on_either_side(self) -> None:
        parts = parallel.split(self.pairs, 20, 30)
        self.assertEqual([len(parts["valid"]), len(parts["test"])], [20, 30])
        for side in (0, 1):
            train = {parallel.sentence_key(pair[side]) for pair in parts["train"]}
            held = [parallel.sentence_key(pair[side]) for pair in parts["valid"] + parts["test"]]
            self.assertFalse(train.intersection(held))
            self.assertEqual(len(held), len(set(held)))

    def test_the_split_does_not_depend_on_the_order_of_the_input(self) -> None:
        forward, backward = (parallel.split(pairs, 20, 30) for pairs in (self.pairs, self.pairs[::-1]))
        self.assertEqual(forward["valid"], backward["valid"])
        self.assertEqual(forward["test"], backward["test"])
        self.assertEqual(set(forward["train"]), set(backward["train"]))

    def test_a_corpus_too_small_is_refused(self) -> None:
        with self.assertRaisesRegex(parallel.CorpusError, "too few"):
            parallel.split(self.pairs[:40], 20, 30)


class PairOfFiles(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_compressed_files_are_read_to_their_end(self) -> None:
        plain = "".join(f"one two {i}\n" for i in range(100))
        target, source = self.folder / "b", self.folder / "a"
        target.write_text(plain.replace("one", "eins"), encoding="utf-8")
        half = len(plain) // 2
        reports = []
        for compress, padding in ((gzip.compress, b""), (lzma.compress, bytes(8)), (bz2.compress, b"")):
            parts = [compress(part.encode()) for part in (plain[:half], plain[half:])]
            source.write_bytes(parts[0] + padding + parts[1] + padding)
            done = fetch("--corpus", f"{source},{target}", self.folder / compress.__module__)
            self.assertEqual(done.returncode, 0, done.stderr)
            reports.append(done.stdout)
            source.write_bytes(parts[0] + b"something else, not compressed")
            self.assertIn("a: damaged", fetch("--corpus", f"{source},{target}", self.folder / "out").stderr)
            source.write_bytes(parts[0][:-9])
            self.assertIn("a: ", fetch("--corpus", f"{source},{target}", self.folder / "out").stderr)
        self.assertEqual(reports[1:], reports[:1] * 2)
        self.assertIn('"kept": 100', reports[0])

    def test_plain_and_gzipped_files_become_a_corpus_and_a_second_run_changes_nothing(self) -> None:
        source, target = self.folder / "a.txt", self.folder / "b.gz"
        source.write_text("".join(f"one two {i}\r\n" for i in range(100)), encoding="utf-8", newline="")
        target.write_bytes(gzip.compress("".join(f"eins zwei {i}\n" for i in range(100)).encode()))
        first = fetch("--corpus", f"{source},{target}", self.folder / "out")
        self.assertEqual(first.returncode, 0, first.stderr)
        report = json.loads(first.stdout)
        self.assertEqual(
            {part: counts["pairs"] for part, counts in report["parts"].items()}, {"train": 90, "valid": 5, "test": 5}
        )
        source.unlink()
        self.assertEqual(json.loads(fetch("--corpus", f"{source},{target}", self.folder / "out").stdout), report)

    def test_faults_name_file_line_and_expectation(self) -> None:
        source, target = self.folder / "a", self.folder / "b"
        source.write_bytes(b"fine\nbad \xff byte\n")
        target.write_bytes(b"gut\n")
        self.assertIn("a:2: not UTF-8", fetch("--corpus", f"{source},{target}", self.folder / "out").stderr)
        packed = bytearray(gzip.compress(b"one two three\n" * 100))
        packed[14:20] = b"\xff" * 6
        source.write_bytes(packed)
        self.assertRegex(
            fetch("--corpus", f"{source},{target}", self.folder / "out").stderr, r"^files\.py: \S+/a: .+\n$"
        )
        source.write_bytes(b"one\ntwo\n")
        self.assertIn("has 2 lines", fetch("--corpus", f"{source},{target}", self.folder / "out").stderr)
        self.assertFalse((self.folder / "out" / "report.json").exists())

    def write(self, source: str, target: str) -> str:
        (self.folder / "a").write_text(source, encoding="utf-8")
        (self.folder / "b").write_text(target, encoding="utf-8")
        return f"{self.folder}/a,{self.folder}/b"

    def test_the_report_names_options_for_the_scripts_of_the_text(self) -> None:
        english = "".join(f"the baker sold {i} books at the market\n" for i in range(100))
        for name, target, tokenizer, normalization in (
            ("de", "der Bäcker verkaufte {} Bücher auf dem Markt\n", "13a", "nmt_nfkc"),
            ("zh", "面包师在市场上卖了{}本书，然后回家了。\n", "char", "identity"),
            ("th", "คนทำขนมปังขายหนังสือ{}เล่มที่ตลาด\n", "char", "identity"),
        ):
            corpus = self.write(english, "".join(target.format(i) for i in range(100)))
            done = fetch("--corpus", corpus, self.folder / name)
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            self.assertEqual(
                (report["kept"], report["tokenizer"], report["normalization"]), (100, tokenizer, normalization)
            )
        self.assertGreater(report["characters"], 30)
        # From Chinese, the words of the target have spaces.
        corpus = self.write("".join(f"面包师在市场上卖了{i}本书。\n" for i in range(100)), english)
        self.assertEqual(json.loads(fetch("--corpus", corpus, self.folder / "back").stdout)["tokenizer"], "13a")

    def test_pairs_that_are_all_dropped_are_explained(self) -> None:
        done = fetch("--corpus", self.write("one\n" * 9, "a b c d e f\n" * 9), self.folder / "out")
        self.assertEqual(done.stderr, "files.py: none of 9 pairs is left: length_ratio 9\n")

    def test_files_that_are_no_text_are_named(self) -> None:
        plain = "".join(f"one two {i}\n" for i in range(100))
        for data, words in (
            (b"\x28\xb5\x2f\xfd" + plain.encode(), "a is zstd data, expected UTF-8 text"),
            (gzip.compress(bz2.compress(plain.encode())), "a is bzip2 data inside compressed data"),
            (plain.encode("utf-16"), "a is UTF-16 text"),
            (b'<srcset setid="x">\n' + plain.encode(), "a begins with '<srcset'"),
            (gzip.compress(plain.encode()) + b"more\n", "a: damaged compressed data"),
        ):
            corpus = self.write("", plain)
            (self.folder / "a").write_bytes(data)
            self.assertIn(words, fetch("--corpus", corpus, self.folder / "out").stderr)

    def test_wrong_usage_exits_2(self) -> None:
        for arguments in (("--corpus",), ("--nonsense", "x"), ("--corpus", "unheard-of", self.folder / "out"), ()):
            self.assertEqual(fetch(*arguments).returncode, 2, arguments)


class Ranges(http.server.BaseHTTPRequestHandler):
    """Serves `files`; answers ranges; cuts an answer short after `cut` bytes when that is not None."""

    files: dict[str, bytes] = {}
    cut: int | None = None
    ranges: list[str] = []

    def do_GET(self) -> None:
        body = self.files.get(self.path.rsplit("/", 1)[-1])
        if body is None:
            self.send_error(404)
            return
        wanted = self.headers.get("Range")
        start = 0
        if wanted:
            self.ranges.append(wanted)
            start = int(wanted.removeprefix("bytes=").split("-")[0])
        if start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start:] if self.cut is None else body[start : start + self.cut])

    def log_message(self, *_: object) -> None:
        pass


def archive(**texts: str) -> bytes:
    """A .tgz with these members."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in texts.items():
            data = text.encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


#: What cleaning would change: a decomposed umlaut, a space without break, two spaces.
UNTOUCHED = "Mu\u0308tze\u00a0 da"


class Wmt16(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        training = {
            language: "".join(f"{word} {i}\n" for i in range(500))
            for language, word in (("en", "sentence"), ("de", "Satz"))
        }
        Ranges.files = {
            "training-parallel-europarl-v7.tgz": archive(
                **{f"training/europarl-v7.de-en.{k}": v for k, v in training.items()}
            ),
            "training-parallel-commoncrawl.tgz": archive(
                **{"commoncrawl.de-en.en": "the test\n", "commoncrawl.de-en.de": "Die Probe!\n"}
            ),
            "training-parallel-nc-v11.tgz": archive(
                **{f"nc/news-commentary-v11.de-en.{k}": v for k, v in training.items()}
            ),
            "dev.tgz": archive(**{"dev/newstest2013.en": "valid one\n", "dev/newstest2013.de": "gültig eins\n"}),
            "test-full.tgz": archive(
                **{
                    "test-full/newstest2014-deen-src.en.sgm": '<seg id="1">An &lt;old&gt; &#39;lamp&#39;</seg>\n<seg id="2">Two  spaces</seg>',
                    "test-full/newstest2014-deen-ref.de.sgm": f'<seg id="1">Eine &quot;{UNTOUCHED}&quot; </seg>\n<seg id="2">Zwei</seg>',
                }
            ),
            "test.tgz": archive(
                **{
                    "test/newstest2016-ende-src.en.sgm": '<doc><seg id="1">a &amp; b</seg>\n</doc>',
                    "test/newstest2016-ende-ref.de.sgm": '<doc>\n<seg id="1">die Probe</seg></doc>',
                }
            ),
        }
        Ranges.cut, Ranges.ranges = None, []
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ranges)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.base = f"http://127.0.0.1:{server.server_address[1]}/wmt"
        self.list = self.folder / "archives"
        self.write_list({name: "sha256:" + hashlib.sha256(body).hexdigest() for name, body in Ranges.files.items()})

    def write_list(self, digests: dict[str, str]) -> None:
        self.list.write_text(
            "# comment\n" + "".join(f"{self.base}/{name} {digest}\n" for name, digest in digests.items())
        )

    def fetch(self) -> subprocess.CompletedProcess[str]:
        return fetch(
            "--corpus", "wmt16", self.folder / "out", BABELRING_WMT16_ARCHIVES=str(self.list), no_proxy="127.0.0.1"
        )

    def test_archives_become_a_corpus_without_the_test_sentences(self) -> None:
        done = self.fetch()
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["dropped"], {"duplicate": 500, "held_out": 1})
        self.assertEqual((self.folder / "out" / "newstest2016.en").read_text(), "a & b\n")
        self.assertEqual(report["parts"]["train"]["pairs"], 500)

    def test_the_test_set_is_newstest2014_with_its_own_references(self) -> None:
        Ranges.files["training-parallel-commoncrawl.tgz"] = archive(
            **{"commoncrawl.de-en.en": "the hat\n", "commoncrawl.de-en.de": "eine Mütze da\n"}
        )  # a reference but for its spelling
        self.write_list({name: "recorded" for name in Ranges.files})
        done = self.fetch()
        self.assertEqual(done.returncode, 0, done.stderr)
        german, english = (
            (self.folder / "out" / f"test.{language}").read_text(encoding="utf-8") for language in ("de", "en")
        )
        self.assertEqual(german, f'Eine "{UNTOUCHED}" \nZwei\n')
        self.assertEqual(english, "An <old> &#39;lamp&#39;\nTwo  spaces\n")
        self.assertEqual(json.loads(done.stdout)["dropped"]["held_out"], 1)

    def test_an_interrupted_download_is_resumed_by_range(self) -> None:
        Ranges.cut = 300
        self.assertNotEqual(self.fetch().returncode, 0)
        part = self.folder / "out" / "downloads" / "training-parallel-europarl-v7.tgz.part"
        self.assertTrue(part.is_file())
        Ranges.cut, Ranges.ranges = None, []
        size = part.stat().st_size
        self.assertGreater(size, 0)
        done = self.fetch()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(Ranges.ranges[0], f"bytes={size}-")

    def test_a_wrong_digest_is_reported_and_the_file_removed(self) -> None:
        self.write_list({name: "md5:" + "0" * 32 for name in Ranges.files})
        done = self.fetch()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "md5 is [0-9a-f]{32}, expected 0{32}")
        self.assertEqual(list((self.folder / "out" / "downloads").glob("*.tgz")), [])

    def test_an_unpublished_digest_is_recorded_and_checked(self) -> None:
        self.write_list({name: "recorded" for name in Ranges.files})
        self.assertEqual(self.fetch().returncode, 0)
        (self.folder / "out" / "report.json").unlink()
        damaged = self.folder / "out" / "downloads" / "dev.tgz"
        damaged.write_bytes(damaged.read_bytes()[:-1])
        self.assertIn("dev.tgz: sha256 is", self.fetch().stderr)

    def test_a_missing_archive_names_its_address(self) -> None:
        del Ranges.files["dev.tgz"]
        self.assertRegex(self.fetch().stderr, r"/wmt/dev\.tgz: curl exit code 22, HTTP status 404")


if __name__ == "__main__":
    unittest.main()
