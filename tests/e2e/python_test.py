"""The Python package and the C interface: the wheel, installed by pip without the network, in its users' hands."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
import unittest
from pathlib import Path
from typing import Any

from cases import TrainedTest
from system import BIN, ROOT, call

PYTHON = "/usr/bin/python3"  # for which Debian's python3-numpy and python3-pandas are
LINES = ["the old cat sees the dog .", "the green house likes the river .", ""]


class PythonTest(TrainedTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.venv = cls.base / "venv"
        made = subprocess.run(
            [PYTHON, "-m", "venv", "--system-site-packages", cls.venv], capture_output=True, check=False
        )
        if made.returncode != 0:
            raise unittest.SkipTest("needs python3-venv")
        cls.environment = {**os.environ, "BABELRING_BUILD": str(BIN.parent)}
        pip = [cls.venv / "bin/pip", "install", "--no-index", ROOT]
        done = subprocess.run(pip, env=cls.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)

    def python(self, *words: object, code: int = 0, **options: Any) -> subprocess.CompletedProcess:
        """Runs the virtual environment's Python outside the tree."""
        command = [self.venv / "bin/python", *words]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def evaluate(self, program: str, *words: object) -> Any:
        """The JSON value `result` of a program, which has `babelring` and its arguments as `given`."""
        lines = ["import babelring, json, sys, threading", "given = sys.argv[1:]", textwrap.dedent(program)]
        return json.loads(self.python("-c", "\n".join([*lines, "print(json.dumps(result))"]), *words).stdout)

    def by_command(self, command: str, *options: object, text: str = "") -> list[dict[str, Any]]:
        done = call("nmt", command, "--checkpoint", self.checkpoint, "--json", *options, input=text, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_translations_equal_those_of_the_command(self) -> None:
        expected = self.by_command("translate", "--beam", 4, "--n-best", 2, text="\n".join(LINES) + "\n")
        texts, n_best, single, closed = self.evaluate(
            """
            with babelring.Translator(given[0], threads=1) as translator:
                lines = given[1:]
                n_best = translator.translate_n_best(lines, 2, beam=4)
                result = [translator.translate(lines, beam=4),
                          [[[one.text, one.log_probability, one.complete] for one in found] for found in n_best],
                          translator.translate(lines[0], beam=4)]
            try:
                translator.translate("a")
            except babelring.UsageError as error:
                result.append(str(error))
            """,
            self.checkpoint,
            *LINES,
        )
        self.assertEqual(texts, [line["text"] for line in expected])
        self.assertEqual(single, expected[0]["text"])
        for found, line in zip(n_best, expected):
            self.assertEqual([one[0] for one in found], [one["text"] for one in line["n_best"]])
            self.assertEqual(
                [one[1:] for one in found], [[o["log_probability"], o["complete"]] for o in line["n_best"]]
            )
        self.assertEqual(closed, "the translator is closed")

    def test_scores_pieces_and_ensembles(self) -> None:
        sources, targets = self.folder / "s", self.folder / "t"
        sources.write_text("\n".join(LINES[:2]) + "\n")
        targets.write_text("a b\nc\n")
        expected = self.by_command("score", "--source", sources, "--target", targets, "--tokens")
        scores, kinds, text, alike = self.evaluate(
            """
            one = babelring.Translator(given[0])
            found = one.score(given[1:], ["a b", "c"])
            ids = one.encode(given[1])
            two = babelring.Translator([given[0], given[0]], weights=[2, 1])
            result = [[scores.tolist() for scores in found], [str(found[0].dtype), str(ids.dtype)], one.decode(ids),
                      one.translate(given[1:]) == two.translate(given[1:])]
            """,
            self.checkpoint,
            *LINES[:2],
        )
        for found, line in zip(scores, expected):
            self.assertEqual(len(found), line["tokens"])
            for one, piece in zip(found, line["pieces"]):
                self.assertAlmostEqual(one, piece["log_probability"], places=5)
        self.assertEqual((kinds, text, alike), (["float32", "int32"], LINES[0], True))

    def test_a_translation_is_streamed(self) -> None:
        texts, whole, stopped, refused = self.evaluate(
            """
            translator = babelring.Translator(given[0])
            result = [list(translator.stream(given[1], beam=1)), translator.translate(given[1], beam=1)]
            for text in translator.stream(given[1]):
                break
            result.append(translator.translate(given[1], beam=1))
            try:
                list(translator.stream(given[1], beam=0))
            except babelring.UsageError as error:
                result.append(str(error))
            """,
            self.checkpoint,
            LINES[0],
        )
        self.assertEqual(texts[-1], whole)
        self.assertGreater(len(texts), 1)
        for before, after in zip(texts, texts[1:]):
            self.assertTrue(after.startswith(before), texts)  # greedy: nothing is revised
        self.assertEqual(stopped, whole)
        self.assertIn("beam: found 0", refused)

    def test_threads_take_turns(self) -> None:
        equal = self.evaluate(
            """
            translator = babelring.Translator(given[0], threads=1)
            expected, found = translator.translate(given[1:]), []
            threads = [threading.Thread(target=lambda: found.append(translator.translate(given[1:]))) for _ in range(8)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            result = [one == expected for one in found]
            """,
            self.checkpoint,
            *LINES,
        )
        self.assertEqual(equal, [True] * 8)

    def test_errors_are_one_line(self) -> None:
        errors = self.evaluate(
            """
            result, translator = [], babelring.Translator(given[0])
            for call in (lambda: babelring.Translator("absent"), lambda: babelring.Translator([]),
                         lambda: babelring.Translator(given[0], precision="f16"),
                         lambda: babelring.Translator(given[0], weights=[1, 2]),
                         lambda: translator.translate("a", bean=4), lambda: translator.translate("a", beam="4"),
                         lambda: translator.translate("a\\nb"), lambda: translator.score(["a"], []),
                         lambda: translator.score(["a"], ["b " * 5000]), lambda: translator.decode([-1]),
                         lambda: translator.encode("a", "left")):
                try:
                    result.append(["none", str(call())])
                except (babelring.UsageError, babelring.TranslationError) as error:
                    result.append([type(error).__name__, str(error)])
            """,
            self.checkpoint,
        )
        expected = [
            ("TranslationError", "absent"),
            ("UsageError", "checkpoint: found [], expected at least one folder"),
            ("UsageError", 'precision: found "f16", expected f32 or bf16'),
            ("UsageError", "--weights: found 2, expected 1"),
            ("UsageError", "unknown member 'bean'"),
            ("UsageError", 'beam: found "4"'),
            ("UsageError", "text[0]: expected a string without line breaks"),
            ("UsageError", "source has 1 lines, target 0"),
            ("UsageError", "target[0]: "),
            ("UsageError", "ids[0]: found -1, expected 0 to "),
            ("UsageError", "side: found 'left', expected source or target"),
        ]
        self.assertEqual(len(errors), len(expected))
        for (kind, text), (expected_kind, part) in zip(errors, expected):
            self.assertEqual(kind, expected_kind, text)
            self.assertIn(part, text)
            self.assertNotIn("\n", text)

    def test_the_wheel_has_the_same_bytes_when_built_again(self) -> None:
        wheels = []
        for name in ("first", "second"):
            command = [ROOT / "scripts/wheel.sh", self.folder / name]
            done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True)
            wheels.append(Path(done.stdout.split()[-1]).read_bytes())
        self.assertEqual(wheels[0], wheels[1])

    def test_the_examples_run(self) -> None:
        text = "\n".join(LINES[:2]) + "\n"
        expected = self.by_command("translate", "--beam", 4, text=text)
        shown = self.python(ROOT / "python/examples/translate.py", self.checkpoint, input=text).stdout.splitlines()
        self.assertEqual([line.split("\t")[:2] for line in shown], [[e["source"], e["text"]] for e in expected])
        done = call("c_example", self.checkpoint, input=text, check=True)
        answers = [json.loads(line)["items"][0]["hyp"] for line in done.stdout.splitlines()]
        self.assertEqual(answers, [line["text"] for line in expected])
        failed = call("c_example", "absent", input=text)
        self.assertEqual((failed.returncode, failed.stderr.count("\n")), (1, 1), failed.stderr)
        symbols = subprocess.run(
            ["nm", "-D", "--defined-only", BIN / "libbabelring.so"], capture_output=True, text=True
        )
        names = [line.split()[-1] for line in symbols.stdout.splitlines() if line.split()[-2] in "TDBVW"]
        self.assertGreater(len(names), 10)
        self.assertEqual([name for name in names if not name.startswith("babelring_")], [])

    def test_the_server_answers_in_arrays_and_tables(self) -> None:
        server = self.server()
        run = self.start_run(ranks=1, server=server.address, token_file=server.folder / "admin.token")
        self.assertEqual(run.wait(), 0, run.text())
        environment = {**os.environ, "BABELRING_TOKEN": server.token()}
        program = """
            import babelring, json, sys
            server = babelring.Server(sys.argv[1])
            [run] = server.runs()
            loss, frame = run.history("loss"), run.frame("loss", "step_ms")
            checkpoint = run.checkpoints()[0]
            folder = checkpoint.download("copy")
            print(json.dumps({
                "names": [run.name, server.run("toy").id == run.id, run.refresh().state],
                "steps": loss["step"].tolist(), "finite": bool((loss["value"] > 0).all()),
                "frame": [list(frame.columns), len(frame)], "metrics": "loss" in run.metrics(),
                "thin": len(run.history("loss", points=10)["avg"]),
                "runs": len(server.runs_frame()), "update": checkpoint.update, "log": len(run.logs()) > 0,
                "text": checkpoint.translate(["the old cat"]) == [babelring.Translator(folder).translate("the old cat")]}))
            for call in (lambda: server.run("other"), lambda: server.request("GET", "/runs/r_none"),
                         lambda: babelring.Server("127.0.0.1:1"), lambda: babelring.Server("http://127.0.0.1:1").version(),
                         lambda: checkpoint.download("copy"), lambda: babelring.Server(sys.argv[1], token="x").runs(),
                         lambda: run.history("lss")):
                try:
                    print("none", call())
                except Exception as error:
                    print(type(error).__name__, error)
        """
        done = self.python("-c", textwrap.dedent(program), server.address, env=environment)
        first, *errors = done.stdout.splitlines()
        found = json.loads(first)
        self.assertEqual(found.pop("steps"), list(range(1, 61)))
        expected = {"finite": True, "frame": [["loss", "step_ms"], 60], "metrics": True, "runs": 1}
        expected |= {"update": 60, "log": True, "text": True, "names": ["toy", True, "succeeded"]}
        self.assertLessEqual(found.pop("thin"), 10)
        self.assertEqual(found, expected)
        kinds = ["KeyError", "ServerError", "ValueError", "NotReached", "FileExistsError", "ServerError", "ServerError"]
        self.assertEqual([error.split()[0] for error in errors], kinds, errors)
        self.assertIn("404 ", errors[1])
        self.assertIn("401", errors[5])
        self.assertIn("404 key_unknown", errors[6])
        shown = self.python(ROOT / "python/examples/runs.py", server.address, env=environment).stdout
        self.assertRegex(shown, r"^toy\tsucceeded\tloss [0-9.]+ after 60 steps\n$")


if __name__ == "__main__":
    unittest.main()
