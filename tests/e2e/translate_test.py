"""Translating by a service: `nmt translate --serve`, and the server's route in front of such processes."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import threading
from pathlib import Path
from typing import Any

from cases import TrainedTest
from system import BIN, call, poison, wait_ended, wait_for

LINES = ["the old cat sees the dog .", "the green house likes the river .", ""]


def serves(pid: int) -> bool:
    """Whether it is a translator that has not ended: one that has no longer shows its command line."""
    try:
        return b"--serve" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


class TranslateTest(TrainedTest):
    def by_command(self, *options: str, checkpoint: Path | None = None) -> list[dict[str, Any]]:
        words = ["translate", "--checkpoint", checkpoint or self.checkpoint, "--json", *options]
        done = call("nmt", *words, input="\n".join(LINES) + "\n", check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def same_words(self, items: list[dict[str, Any]], *options: str) -> None:
        expected = self.by_command(*options)
        self.assertEqual([item["hyp"] for item in items], [line["text"] for line in expected])
        for item, line in zip(items, expected):
            self.assertEqual([one["hyp"] for one in item["nbest"]], [one["text"] for one in line["n_best"]])
            for one, other in zip(item["nbest"], line["n_best"]):
                self.assertAlmostEqual(one["score"], other["score"], places=4)

    def test_the_process_answers_line_by_line(self) -> None:
        process = subprocess.Popen(
            [BIN / "nmt", "translate", "--serve", "--checkpoint", self.checkpoint],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.stdout.close)

        def ask(line: str) -> dict[str, Any]:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        ready = json.loads(process.stdout.readline())
        self.assertEqual((ready["ready"], ready["update"]), (True, 40))
        answer = ask(json.dumps({"id": 7, "text": LINES}))
        self.assertEqual(answer["id"], 7)
        self.same_words(answer["items"])
        answer = ask(json.dumps({"id": 8, "text": LINES, "beam": 3, "nbest": 2, "length_penalty": 0.5}))
        self.same_words(answer["items"], *"--beam 3 --n-best 2 --length-penalty 0.5".split())
        for line, words in {
            "{": "JSON",
            "[]": "expected a JSON object",
            '{"id":1}': "text is missing",
            '{"id":1,"text":[]}': "1 to 1024 lines",
            '{"id":1,"text":["a\\nb"]}': "without line breaks",
            '{"id":1,"text":["a"],"beam":0}': "beam: found 0",
            '{"id":1,"text":["a"],"nbest":9}': "n-best: found 9",
            '{"id":1,"text":["a"],"speed":9}': "unknown member 'speed'",
        }.items():
            error = ask(line)["error"]
            self.assertEqual(error["code"], "bad_request", line)
            self.assertIn(words, error["detail"])
        long = ask(json.dumps({"id": 9, "text": ["short", "cat " * 300], "max_subwords": 100}))
        self.assertEqual((long["id"], long["error"]["code"]), (9, "too_long"))
        self.assertIn("text[1]: ", long["error"]["detail"])
        self.same_words(ask(json.dumps({"id": 10, "text": LINES}))["items"])
        sentences = ["The old cat sees the dog .", "The dog sees the green tree .", "The old tree ."]
        apart = [item["hyp"] for item in ask(json.dumps({"id": 11, "text": sentences}))["items"]]
        [whole] = ask(json.dumps({"id": 12, "text": [" ".join(sentences)]}))["items"]
        self.assertEqual(whole["hyp"], " ".join(apart), "no line of the training text had several sentences")
        self.joined_lines_have_the_same_bytes(process)
        process.stdin.close()
        self.assertEqual(process.wait(timeout=120), 0, "it ends with its input")

    def test_int8_translates_alike_with_weights_of_the_checkpoint_or_in_memory(self) -> None:
        copy = self.folder / "int8" / self.checkpoint.name
        shutil.copytree(self.checkpoint, copy)
        options = ["--precision", "int8", "--beam", "4", "--n-best", "2"]
        expected = self.by_command(*options, checkpoint=copy)
        same = [one["text"] == other["text"] for one, other in zip(expected, self.by_command(), strict=True)]
        self.assertGreaterEqual(
            sum(same), len(LINES) - 1, "rounding may change a line of a model that has learned so little"
        )
        kept = copy / "int8.safetensors"
        self.assertLess(kept.stat().st_size, 0.35 * (copy / "weights.safetensors").stat().st_size)
        for threads in ("1", "3"):
            self.assertEqual(self.by_command(*options, "--threads", threads, checkpoint=copy), expected)
        kept.write_bytes(kept.read_bytes()[:-1] + b"x")
        done = call("nmt", "translate", "--checkpoint", copy, *options, input=LINES[0], check=True)
        self.assertIn(f"{kept}: content is ", done.stderr)
        self.assertIn("; quantizing again", done.stderr)
        kept.unlink()
        kept.mkdir()
        self.assertEqual(self.by_command(*options, checkpoint=copy), expected, "it cannot be written")
        done = call("nmt", "interpolate", copy, copy, "--precision", "int8", "--output", "between")
        self.assertEqual(done.returncode, 2)
        self.assertIn("interpolate: --precision is int8, expected f32 or bf16", done.stderr)

    def joined_lines_have_the_same_bytes(self, process: subprocess.Popen[str]) -> None:
        lines = [" ".join(reversed(line.split()[:length])) for length in range(1, 7) for line in LINES[:2]]
        requests = [
            {"id": at, "text": [line], "beam": 2 + at % 2, "nbest": 2, "stream": at == 3}
            for at, line in enumerate(lines)
        ]
        refused = {"id": 99, "text": ["cat " * 300], "max_subwords": 9, "first": 7}

        def ask(line: object, answers: int) -> dict[int, dict[str, Any]]:
            process.stdin.write(json.dumps(line) + "\n")
            process.stdin.flush()
            given, partial = {}, []
            while len(given) < answers:
                answer = json.loads(process.stdout.readline())
                (partial.append(answer) if "line" in answer else given.update({answer["id"]: answer}))
            for one in partial[:-1]:
                self.assertEqual((one["id"], one["line"], "text" in one), (3, 0, True))
            if partial:
                self.assertEqual([partial[-1]["item"]], given[3]["items"])
                self.assertGreater(len({one["text"] for one in partial[:-1]}), 1, "it grows")
            return given

        joined = ask([*requests, refused], len(requests) + 1)
        self.assertIn("text[7]: ", joined.pop(99)["error"]["detail"])
        for request in requests:
            alone = ask(request, 1)[request["id"]]
            self.assertEqual(joined[request["id"]]["items"], alone["items"], request)
        self.assertIn("1 to 1024", ask([], 1)[0]["error"]["detail"])

    def serve(self) -> list[dict[str, Any]]:
        """A server that knows a run with checkpoints; these, the newest first."""
        self.at = self.server()
        self.finish_run("run", 1, self.at.address, ["training.stop_after=40u", "checkpoint.every=20u"])
        self.run_id = self.at.first_run()
        return wait_for("two checkpoints", lambda: self.listed(2))

    def listed(self, count: int) -> list[dict[str, Any]] | None:
        items = self.at.get(f"/api/v1/runs/{self.run_id}/checkpoints")["items"]
        return items if len(items) == count else None

    def post(self, checkpoint: str, **body: Any) -> tuple[int, dict[str, Any]]:
        return self.at.ask("POST", f"/checkpoints/{checkpoint}/translate", body)

    def translators(self) -> list[int]:
        """The process ids of the translators of this test's server."""
        children = Path(f"/proc/{self.at.process.pid}/task").glob("*/children")
        pids = [int(pid) for file in children for pid in file.read_text().split()]
        return [pid for pid in pids if serves(pid)]

    def test_the_server_translates_and_outlives_its_translators(self) -> None:
        newest, older = self.serve()
        status, answer = self.post(newest["id"], text=LINES)
        self.assertEqual(status, 200, answer)
        self.same_words(answer["items"])
        self.assertEqual(answer["checkpoint"], newest["id"])
        self.assertGreater(answer["ms"], 0)
        [translator] = self.translators()

        answers: list[tuple[int, dict[str, Any]]] = []
        threads = [
            threading.Thread(target=lambda: answers.append(self.post(newest["id"], text=LINES))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for status, given in answers:
            self.assertEqual((status, given["items"]), (200, answer["items"]))
        self.assertEqual(self.translators(), [translator], "one process for one checkpoint")

        self.kill_a_busy_translator(newest)
        self.assertEqual(self.post(newest["id"], text=LINES)[1]["items"], answer["items"])
        self.assertEqual(self.post(older["id"], text=LINES)[0], 200)
        both = self.translators()
        self.assertEqual(len(both), 2)
        self.at.stop()
        wait_ended(both)

    def test_the_server_translates_in_int8(self) -> None:
        newest, _ = self.serve()
        self.at.stop()
        self.at.options = ["--translator-precision", "int8"]
        self.at.start()
        status, answer = self.post(newest["id"], text=LINES)
        self.assertEqual(status, 200, answer)
        folder = self.folder / "run" / "checkpoints" / newest["name"]
        self.assertTrue((folder / "int8.safetensors").exists())
        expected = self.by_command("--precision", "int8", checkpoint=folder)
        self.assertEqual(
            [[one["score"] for one in item["nbest"]] for item in answer["items"]],
            [[one["score"] for one in line["n_best"]] for line in expected],
        )

    def test_an_ensemble_of_the_server_is_that_of_the_command(self) -> None:
        newest, older = self.serve()
        folders = [self.folder / "run" / "checkpoints" / row["name"] for row in (newest, older)]
        words = ["--checkpoint", folders[0], "--checkpoint", folders[1], "--json", "--threads", "2", "--beam", "3"]
        for options, members in (
            ([], {}),
            (["--weights", "1,3", "--combine", "logarithms"], {"weights": [1, 3], "combine": "logarithms"}),
        ):
            out = call("nmt", "translate", *words, *options, input="".join(f"{line}\n" for line in LINES), check=True)
            expected = [one for line in out.stdout.splitlines() for one in json.loads(line)["n_best"]]
            body = {"text": LINES, "beam": 3, "checkpoints": [older["id"]], **members}
            status, answer = self.post(newest["id"], **body)
            self.assertEqual(status, 200, answer)
            found = [one for item in answer["items"] for one in item["nbest"]]
            self.assertEqual([one["hyp"] for one in found], [one["text"] for one in expected])
            self.assertEqual([one["score"] for one in found], [one["score"] for one in expected])
            self.assertEqual(answer["checkpoints"], [newest["id"], older["id"]])
        alone = self.post(newest["id"], text=LINES, beam=3)[1]["items"]
        self.assertNotEqual([one["score"] for item in alone for one in item["nbest"]], [one["score"] for one in found])

    def kill_a_busy_translator(self, checkpoint: dict[str, Any]) -> None:
        """Kills a translator that has a request in work: it is stopped before, so that it cannot answer in time."""
        answers: list[tuple[int, dict[str, Any]]] = []
        [translator] = self.translators()
        os.kill(translator, signal.SIGSTOP)
        asking = threading.Thread(target=lambda: answers.append(self.post(checkpoint["id"], text=LINES)))
        asking.start()
        running = b'babelring_lane_running_requests{lane="translate"} 1'
        wait_for("a translator at work", lambda: running in self.at.get_bytes("/metrics"))
        os.kill(translator, signal.SIGKILL)
        asking.join()
        wait_ended([translator])
        status, problem = answers[-1]
        self.assertEqual((status, problem["code"]), (500, "translator_failed"))
        self.assertIn("signal 9", problem["detail"])
        self.assertEqual(self.at.first_run(), self.run_id)

    def test_an_evaluation_is_recorded_with_its_run(self) -> None:
        self.serve()
        words = ["--checkpoint", self.folder / "run" / "checkpoints", "--data", self.prepared, "--beam", "1", "--json"]
        words += ["--server", self.at.address, "--token-file", self.at.folder / "admin.token", "--max-sentences", "20"]
        done = call("nmt", "evaluate", *words, "--report", "toy")
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = json.loads(done.stdout)
        self.assertRegex(
            done.stderr,
            f"added to run {self.run_id} \\(toy\\) on {self.at.address}: sacreBLEU [0-9.]+ on test after update 40",
        )
        evals = self.at.get(f"/api/v1/runs/{self.run_id}/evals")["items"]
        reported = [item for item in evals if item["set"] == "test"]
        self.assertEqual(len(reported), 1, evals)
        self.assertEqual(reported[0]["update"], 40)
        for name in ("sacrebleu", "chrf", "loss", "nll", "accuracy", "signature"):
            self.assertEqual(reported[0][name], figures[name], name)
        samples = self.at.get(f"/api/v1/evals/{reported[0]['id']}")["samples"]
        self.assertEqual(len(samples), 10)
        self.assertTrue(samples[0]["source"] and samples[0]["reference"])
        absent = call("nmt", "evaluate", *words, "--report", "nobody")
        self.assertEqual((absent.returncode, absent.stdout), (1, ""))
        self.assertIn("no run with an id or name that starts with 'nobody'", absent.stderr)

    def test_an_export_of_the_server_is_that_of_the_command(self) -> None:
        newest, older = self.serve()
        made = self.exported(newest["id"], format="ctranslate2", quantization="int8")
        self.assertEqual(made["state"], "complete", made)
        archive = self.at.get_bytes(f"/api/v1/checkpoints/{newest['id']}/exports/{made['name']}/archive")
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(self.folder, filter="data")
        folder = self.folder / f"{newest['name']}-{made['name']}"
        checkpoint = self.folder / "run" / "checkpoints" / newest["name"]
        words = ["--checkpoint", checkpoint, "--to", "ctranslate2", "--quantization", "int8"]
        call("nmt", "export", *words, "--output", self.folder / "by-command", check=True)
        for name in ("model.bin", "config.json", "conformance.jsonl"):
            self.assertEqual((folder / name).read_bytes(), (self.folder / "by-command" / name).read_bytes(), name)
        self.assertNotIn(str(self.at.folder), (folder / "README.md").read_text(), "nothing of the server's folders")

        poison(self.folder / "run" / "checkpoints" / older["name"], "decoder.norm.gain")
        failed = self.exported(older["id"], format="huggingface")
        self.assertEqual(failed["state"], "failed", failed)
        self.assertIn("weights are not finite: decoder.norm.gain[0] is nan", failed["detail"])
        self.assertNotIn("\n", failed["detail"])

    def exported(self, checkpoint: str, **body: str) -> dict[str, Any]:
        """Asks for an export and waits until it is complete or has failed."""
        path = f"/checkpoints/{checkpoint}/exports"
        status, made = self.at.ask("POST", path, body)
        self.assertEqual(status, 202, made)

        def ended() -> dict[str, Any] | None:
            item = self.at.get(f"/api/v1{path}/{made['name']}")
            return item if item["state"] in ("complete", "failed") else None

        return wait_for("the export", ended)

    def test_refusals(self) -> None:
        newest, older = self.serve()
        for body, words in (
            ({}, "text"),
            ({"text": []}, "1 to 32"),
            ({"text": ["a"] * 33}, "1 to 32"),
            ({"text": [1]}, "strings"),
            ({"text": ["a"], "beam": 13}, "beam"),
            ({"text": ["a"], "nbest": 6}, "nbest"),
            ({"text": ["a"], "length_penalty": -1}, "length_penalty"),
            ({"text": ["a\nb"]}, "line break"),
            ({"text": ["a"], "speed": 1}, "speed"),
        ):
            status, problem = self.post(newest["id"], **body)
            self.assertEqual(status, 400, (body, problem))
            self.assertIn(words, json.dumps(problem).replace("n-best", "nbest"), body)
        status, problem = self.post(newest["id"], text=["short", "cat " * 700])
        self.assertEqual((status, problem["code"]), (422, "too_long"))
        self.assertIn("text[1]", problem["detail"])
        self.assertEqual(self.post("c_" + "0" * 26, text=["a"])[0], 404)

        weights = self.folder / "run" / "checkpoints" / older["name"] / "weights.safetensors"
        content = bytearray(weights.read_bytes())
        content[len(content) // 2] ^= 1
        weights.write_bytes(content)
        status, problem = self.post(older["id"], text=["a"])
        self.assertEqual((status, problem["code"]), (409, "damaged"))
        self.assertIn("weights.safetensors", problem["detail"])
        content[len(content) // 2] ^= 1
        weights.write_bytes(content)
        poison(weights.parent, "decoder.norm.gain")
        status, problem = self.post(older["id"], text=["a"])
        self.assertEqual((status, problem["code"]), (409, "damaged"))
        self.assertIn("weights are not finite: decoder.norm.gain[0] is nan", problem["detail"])
        shutil.rmtree(weights.parent)
        self.assertIn(self.post(older["id"], text=["a"])[0], (404, 409, 410))
        self.assertEqual(self.post(newest["id"], text=["a"])[0], 200, "others are not touched")
        [translator] = self.translators()
        self.at.process.kill()
        wait_ended([translator])  # with a server that was killed, too
