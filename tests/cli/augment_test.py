"""`nmt augment` as a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from cases import NmtTest, nmt, train_tiny_model  # noqa: E402
from system import AS_ROOT, BIN, MPIRUN, call  # noqa: E402

AUGMENT = "augment --checkpoint run --mono mono.en"
LINES = [
    f"the {color} {animal} sees the house ." for color in ("old", "green", "red") for animal in ("cat", "dog", "boat")
]


def setUpModule() -> None:
    train_tiny_model()
    LINES.insert(4, "")
    LINES.insert(7, "the old cat . " * 30)
    Path("mono.en").write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    Path("bad.en").write_bytes(b"the old cat .\nthe \xff dog .\nthe house .\n")


def read(prefix: str) -> list[list[str]]:
    return [Path(f"{prefix}.{side}").read_text(encoding="utf-8").split("\n")[:-1] for side in ("source", "target")]


class AugmentTest(NmtTest):
    def translations(self, options: str = "") -> list[str]:
        return self.succeeds(f"translate --checkpoint run --input mono.en {options}").split("\n")[:-1]

    def test_back_translation_and_distillation(self) -> None:
        options = "--sample --top-p 0.9 --seed 4"
        expected = self.translations(options)
        out = self.succeeds(f"{AUGMENT} --output bt --tag <BT> {options}")
        source, target = read("bt")
        self.assertEqual(target, LINES)
        self.assertEqual(source, ["<BT> " + text if text else "" for text in expected])
        self.assertRegex(
            out, r"^bt: 11 lines, 10 pairs, 1 lines without a translation, 1 split, \d+ cut .* 0 with bytes"
        )
        self.succeeds(f"{AUGMENT} --output kd --forward --beam 2")
        self.assertEqual(read("kd"), [LINES, self.translations("--beam 2")])
        words = "--train bt.source bt.target --keep-identical --output with-bt --vocabulary-size 60 --min-words 1 --symbols <BT>"
        report = json.loads(self.succeeds(f"prepare {words} --max-ratio 1000 --max-unknown 1 --json"))
        self.assertIn("11", json.dumps(report))
        self.assertEqual([path.name for path in Path().glob("*.lock")], [])

    def test_a_killed_run_continues_to_the_same_bytes(self) -> None:
        options = "--sample --block-lines 2"
        self.succeeds(f"{AUGMENT} --output whole {options}")
        expected = read("whole")
        for point in ("file@1", "file@2", "file@3", "block@1", "block@2", "block@4", "file@8"):
            with self.subTest(point):
                command = f"{AUGMENT} --output killed {options}"
                done = call("nmt", *command.split(), env=os.environ | {"BABELRING_FAILPOINT": f"augment.{point}"})
                self.assertEqual(done.returncode, -9, done.stderr)
                out = self.succeeds(command.replace("--block-lines 2", "--block-lines 3 --threads 2"))
                self.assertEqual(read("killed"), expected)
                self.assertRegex(out, "^killed: 11 lines, 10 pairs, 1 lines without a translation, 1 split")
                self.assertEqual(self.succeeds(command), out, "a complete one is left alone")
                for path in Path().glob("killed.*"):
                    path.unlink()

    def test_other_options_are_refused(self) -> None:
        command = f"{AUGMENT} --output other --sample --block-lines 2"
        call("nmt", *command.split(), env=os.environ | {"BABELRING_FAILPOINT": "augment.block@3"})
        before = Path("other.augment.json").read_bytes()
        Path("mono2.en").write_text("the old cat .\n", encoding="utf-8")
        Path("occupied.target").write_text("mine\n", encoding="utf-8")
        as_made = "as for the lines that are made"
        self.complain_all(
            f"""
2 | {command} --seed 2 | other.augment.json: seed is "2", expected "1" {as_made}
2 | {command} --tag <BT> | other.augment.json: tag is "<BT>", expected "" {as_made}
2 | {command.replace("mono.en", "mono2.en")} | other.augment.json: mono is
2 | {command} --checkpoint run | other.augment.json: checkpoint is
2 | {command} --shard 1/2 | --shard: other.augment.json was begun without it
2 | {AUGMENT} --output occupied | --output: occupied.source or occupied.target exists already
2 | {AUGMENT} --output x --shard 3/2 | --shard: found '3/2', expected K/N with K from 1 to N, such as 2/4
2 | {AUGMENT} --output x --shard 2 | --shard: found '2', expected K/N
2 | {AUGMENT} --output x --sample --beam 2 | found sample and beam, expected one of them
2 | augment --checkpoint run --mono nowhere.en --output x | --mono: nowhere.en: no such file
1 | {AUGMENT} --output nowhere/x | nowhere/x.augment.lock: cannot be written: No such file
"""
        )
        self.assertEqual(Path("other.augment.json").read_bytes(), before)
        self.assertEqual(list(Path().glob("x.*")), [])
        Path("other.source").write_text("", encoding="utf-8")
        self.complains(command, 1, "other.source: found 0 bytes, expected the")

    def test_shards_join_to_the_whole(self) -> None:
        options = "--sample --gumbel --block-lines 2 --threads 1"
        self.succeeds(f"{AUGMENT} --output one {options}")
        for shard, count in ((2, 3), (3, 3)):
            out = self.succeeds(f"{AUGMENT} --output joined {options} --shard {shard}/{count}")
            self.assertIn(f"joined.{shard}-of-{count}: 4 lines", out)
            self.assertFalse(Path("joined.source").exists())
        out = self.succeeds(f"{AUGMENT} --output joined {options} --shard 1/3")
        self.assertIn("joined: 11 lines, 10 pairs", out)
        self.assertEqual(read("joined"), read("one"))
        names = sorted(path.name for path in Path().glob("joined*"))
        self.assertEqual(names, ["joined.augment.json", "joined.source", "joined.target"])
        self.assertEqual(self.succeeds(f"{AUGMENT} --output joined {options} --shard 2/3"), out)

    def test_parts_of_another_number_of_shards_are_named(self) -> None:
        command = f"{AUGMENT} --output parts --threads 1"
        self.succeeds(f"{command} --shard 2/3")
        before = sorted(Path().glob("parts.*"))
        Path("parts.2-of-5.notes").write_text("mine\n", encoding="utf-8")
        Path("parts.more.1-of-5.source").write_text("another prefix\n", encoding="utf-8")
        found = "--shard: found parts.2-of-3.augment.json, which "
        self.complains(
            f"{command} --shard 1/2", 2, found + "2 parts would not use, expected the same number or no such"
        )
        self.complains(command, 2, found + "1 part would not use")
        os.remove("parts.2-of-5.notes")
        os.remove("parts.more.1-of-5.source")
        self.assertEqual(sorted(Path().glob("parts.*")), before, "nothing is written")
        Path("left").mkdir()
        for path in before:
            path.rename(Path("left") / path.name)
        self.succeeds(command)
        for path in Path("left").iterdir():
            path.rename(path.name)
        done = call("nmt", *command.split())
        self.assertEqual(done.returncode, 0)
        self.assertIn("parts.2-of-3.augment.json: a part that nothing uses: parts is complete", done.stderr)

    def test_ranks_of_mpirun_are_shards(self) -> None:
        if not BIN.joinpath("nmt").exists() or subprocess.run(["which", "mpirun"], capture_output=True).returncode != 0:
            self.skipTest("mpirun is not installed")
        words = f"{AUGMENT} --output ranks --sample --threads 1".split()
        done = subprocess.run(
            [*MPIRUN, "-np", "2", BIN / "nmt", *words],
            capture_output=True,
            text=True,
            env=os.environ | AS_ROOT,
            timeout=300,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.succeeds(f"{AUGMENT} --output alone --sample")
        self.assertEqual(read("ranks"), read("alone"))
        self.assertEqual(len(list(Path().glob("ranks*"))), 3)

    def test_text_that_is_not_utf8(self) -> None:
        command = "augment --checkpoint run --mono bad.en --output bad --beam 1"
        done = nmt(command)
        self.assertEqual(done.returncode, 1)
        self.assertIn("bad.en:2: byte 5 is not UTF-8 (--invalid replace continues)", done.stderr)
        self.assertEqual(read("bad")[1], ["the old cat ."])
        done = nmt(f"{command} --invalid replace")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 lines, 3 pairs, 0 lines without a translation, 0 split", done.stdout)
        self.assertIn("1 with bytes replaced or cut", done.stdout)
        self.assertEqual(read("bad")[1], ["the old cat .", "the � dog .", "the house ."])


if __name__ == "__main__":
    unittest.main()
