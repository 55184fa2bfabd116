"""Separate evaluation jobs beside a training run, started by a user or by a server."""

from __future__ import annotations

import json
import os
import subprocess
import unittest
from typing import Any

from cases import ControlTest, SystemTest
from system import BIN, ControlServer, call, prepare, toy_corpus, wait_for

# Without validation, so the best evaluation of the run comes from the job.
ENDLESS = [
    "training.stop_after=1000000u",
    "data.valid_set=",
    "checkpoint.every=200u",
    "checkpoint.keep_last=100000",
    "validation.beam=3",
]


class EvaluationCase(ControlTest):
    def start_watched(self) -> str:
        """A run that a user started, with a checkpoint."""
        self.run_process = self.start_run("watched", server=self.control.address, overrides=ENDLESS)
        wait_for("checkpoint", lambda: (self.folder / "watched" / "checkpoints" / "update-00000200").exists())
        return self.control.first_run()

    def watch(self, run: str, *options: Any) -> subprocess.Popen:
        """Its messages go into watch.log."""
        token = self.control.ask("POST", "/tokens", {"name": "evaluation", "scope": "operate"})[1]["secret"]
        environment = dict(os.environ, BABELRING_SERVER=self.control.address, BABELRING_TOKEN=token)
        command = [BIN / "nmt", "evaluate", "--watch", run, "--report", "--max-sentences", "5", *options]
        with open(self.folder / "watch.log", "ab") as log:
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        self.addCleanup(process.kill)
        return process

    def evals(self, run: str) -> list[dict[str, Any]]:
        return self.control.get(f"/api/v1/runs/{run}/evals?limit=500")["items"]

    def wait_evals(self, run: str, count: int) -> list[dict[str, Any]]:
        return wait_for(f"{count} evaluations", lambda: len(evals := self.evals(run)) >= count and evals)

    def check_joined(self, run: str) -> None:
        """The evaluations are of the ended run's checkpoints, each once, and `best` is one of them."""
        evals = self.evals(run)
        updates = [item["update"] for item in evals]
        checkpoints = self.control.get(f"/api/v1/runs/{run}/checkpoints?limit=500")["items"]
        self.assertEqual(sorted(updates), sorted({item["update"] for item in checkpoints}))
        self.assertEqual({item["set"] for item in evals}, {"valid"})
        best = self.run_item(run)["best"]
        self.assertEqual(best["sacrebleu"], max(item["sacrebleu"] for item in evals))
        newest = self.run_item(run)["last_eval"]
        self.assertEqual(newest["update"], max(updates))
        samples = self.control.get(f"/api/v1/evals/{evals[-1]['id']}")["samples"]
        self.assertEqual(len(samples), 5)


class EvaluationTest(EvaluationCase):
    def test_each_checkpoint_is_evaluated_across_a_server_restart(self) -> None:
        run = self.start_watched()
        watching = self.watch(run, "--json")
        before = len(self.wait_evals(run, 2))
        self.assertEqual(self.run_item(run)["state"], "running")
        self.control.kill()
        wait_for("the warning", lambda: "waiting for the server" in (self.folder / "watch.log").read_text("utf-8"))
        self.control.start()
        self.wait_evals(run, before + 2)
        # The ranks' heartbeats wait longer and longer for a server that is down.
        wait_for("a stop", lambda: self.control.ask("POST", f"/runs/{run}/stop")[0] == 202)
        self.assertEqual(self.run_process.wait(), 0, self.run_process.text())
        printed = [json.loads(line) for line in watching.communicate(timeout=300)[0].splitlines()]
        self.assertEqual(watching.returncode, 0, (self.folder / "watch.log").read_text("utf-8"))
        self.assertEqual({figures["update"] for figures in printed}, {item["update"] for item in self.evals(run)})
        self.assertEqual({figures["beam"] for figures in printed}, {3}, "the beam of the run's validations")
        self.check_joined(run)
        again = self.watch(run, "--json")
        self.assertEqual((again.communicate(timeout=300)[0], again.returncode), ("", 0), "nothing is evaluated twice")

    def test_missing_sets_and_data_are_reported(self) -> None:
        run = self.start_watched()
        for options, message in (
            (["--set", "none"], "no set 'none', only train, valid, test"),
            (["--data", self.folder], "no manifest.json"),
        ):
            watching = self.watch(run, *options)
            self.assertEqual((watching.communicate(timeout=300)[0], watching.returncode), ("", 1))
            self.assertIn(message, (self.folder / "watch.log").read_text("utf-8").splitlines()[-1])
        missing = self.watch("r_none")
        missing.communicate(timeout=300)
        self.assertEqual(missing.returncode, 1)


class ComparisonTest(SystemTest):
    """The best validations of two runs."""

    def test_differences_and_p_values_are_those_of_the_texts(self) -> None:
        server = self.server()
        often = ["training.stop_after=60u", "validation.every=20u", "validation.bleu_every=20u"]
        all_texts = ["validation.max_sentences=40", "validation.samples=40"]
        said = ""
        for seed in (1, 2):
            own = [f"name=s{seed}", f"training.seed={seed}"]
            said += self.finish_run(f"s{seed}", server=server.address, overrides=[*often, *all_texts, *own]).text()
        self.assertRegex(said, r"chrF2 [0-9.]+, [0-9.]+ BLEU (better|worse) than update \d+ \(p = [0-9.]+\)")
        runs = {item["name"]: server.get(f"/api/v1/runs/{item['id']}") for item in server.get("/api/v1/runs")["items"]}
        access = ["--server", server.address, "--token-file", server.folder / "admin.token"]
        printed = call("nmt", "run", "compare", "s1", "s2", *access, check=True).stdout
        items = json.loads(call("nmt", "run", "compare", "s1", "s2", *access, "--json", check=True).stdout)["items"]

        files = []
        for name, run in sorted(runs.items()):
            samples = server.get(f"/api/v1/evals/{run['best']['id']}")["samples"]
            for part in ("hypothesis", "reference"):
                text = "".join(f"{sample[part]}\n" for sample in samples)
                (self.folder / f"{name}.{part}").write_text(text, encoding="utf-8")
            files.append(self.folder / f"{name}.hypothesis")
        words = ["--reference", self.folder / "s1.reference", "--hypothesis", files[0], "--hypothesis", files[1]]
        options = ["--metrics", "bleu,chrf", "--paired", "bs", "--json"]
        scored = json.loads(call("nmt", "score", *words, *options, check=True).stdout)["systems"]
        self.assertEqual([item["metric"] for item in items], ["BLEU", "chrF2"])
        for item, base, own in zip(items, scored[0]["scores"], scored[1]["scores"]):
            self.assertEqual(item["p_value"], own["p_value"])
            self.assertAlmostEqual(item["difference"], own["score"] - base["score"], 9)
            self.assertIn(f"s2: {item['text']}\n", printed)
            self.assertRegex(item["text"], rf"^\d+\.\d\d {item['metric']} (better|worse) than s1 \(p = [0-9.]+\)$")

        run = runs["s1"]
        words = ["--checkpoint", self.folder / "s1" / "checkpoints", "--set", "valid", "--data", self.prepared]
        fewer = ["--beam", "2", "--report", "s1", *access, "--max-sentences", "30"]
        same = [*fewer[:-1], "40"]
        added = call("nmt", "evaluate", *words, *same, check=True).stderr
        self.assertRegex(added, rf"on valid after update {run['best']['update']}, equal to update \d+ in BLEU\n")
        added = call("nmt", "evaluate", *words, *fewer, check=True).stderr
        self.assertRegex(added, r"on valid after update \d+\n", "other sentences are not compared")
        words[1] = self.folder / "s2" / "checkpoints"
        call("nmt", "evaluate", *words, *same, check=True)
        [newest] = [item for item in server.get(f"/api/v1/runs/{run['id']}/evals")["items"]][-1:]
        self.assertEqual((newest["p_value"], newest["best_before"]), (items[0]["p_value"], run["best"]["update"]))
        self.assertAlmostEqual(newest["bleu_above_best"], items[0]["difference"], 9)

        self.finish_run("other", server=server.address, overrides=[*often, "name=other", "validation.max_sentences=30"])
        printed = call("nmt", "run", "compare", "s1", "s1", "other", *access, check=True).stdout
        self.assertIn("s1: equal to s1 in BLEU\n", printed)
        self.assertIn("other: not comparable: other validation set\n", printed)


class OtherSetsTest(SystemTest):
    """Runs that score two sets."""

    def test_two_sets_are_scored_by_two_ranks_and_stored_shown_and_reported(self) -> None:
        text = toy_corpus(self.folder, 40, 3)
        prepare(self.folder / "general", text, text, "--keep-held-out", "--vocabulary", self.prepared / "spm.model")
        sets = f"validation.other_sets=[general={self.folder / 'general'}, own={self.prepared}:test]"
        server = self.server()
        often = ["training.stop_after=40u", "validation.every=20u", "validation.bleu_every=40u", sets]
        self.finish_run(server=server.address, overrides=often)
        run = server.get("/api/v1/runs")["items"][0]["id"]
        evals = server.get(f"/api/v1/runs/{run}/evals")["items"]
        order = [(item["update"], item["set"]) for item in evals]
        self.assertEqual(order, [(u, name) for u in (20, 40) for name in ("valid", "general", "own")])
        for valid, general, own in (evals[:3], evals[3:]):
            self.assertEqual(valid["loss"], own["loss"], "the same text under two names")
            self.assertEqual(valid["sacrebleu"], own["sacrebleu"])
            self.assertNotEqual(valid["loss"], general["loss"])
            self.assertEqual(general["sacrebleu"] is None, valid["update"] == 20)
            self.assertFalse(general["best"] or own["best"])
        shown = server.get(f"/api/v1/runs/{run}")
        self.assertEqual({shown["best"]["set"], shown["last_eval"]["set"]}, {"valid"})
        words = [run, "--server", server.address, "--token-file", server.folder / "admin.token"]
        lines = call("nmt", "run", "show", *words, check=True).stdout.splitlines()
        self.assertRegex(lines[-4], r"^last validation +update 40, valid, sacreBLEU ")
        self.assertRegex(lines[-3], r"^other sets +update 40, general, sacreBLEU ")
        self.assertRegex(lines[-2], r"^ +update 40, own, sacreBLEU ")
        self.assertEqual(server.stop(), 0)
        words = ["--checkpoint", self.folder / "run", "--data", self.folder / "general", "--set", "valid", "--json"]
        alone = json.loads(call("nmt", "evaluate", *words, "--beam", 2, check=True).stdout)
        self.assertAlmostEqual(alone["loss"], evals[4]["loss"], 5)
        self.assertAlmostEqual(alone["sacrebleu"], evals[4]["sacrebleu"], 5)
        report = json.loads((self.folder / "run" / "report.json").read_text(encoding="utf-8"))
        answer = next(answer for answer in report["answers"] if answer["key"] == "quality_over_time")
        self.assertIn("sacreBLEU on general was", answer["answer"])
        self.assertEqual(
            [table["title"] for table in answer["tables"]],
            [f"Evaluations of {name}" for name in ("valid", "general", "own")],
        )

        other = self.folder / "other"
        prepare(other, text, text, "--keep-held-out", "--vocabulary-size", 110)
        refused = self.finish_run("refused", overrides=[f"validation.other_sets=general={other}"], code=2)
        self.assertIn(f"validation.other_sets: general: {other} was prepared with the vocabulary", refused.text())

    def test_fine_tuning_forgets_and_weights_between_both_models_keep_some(self) -> None:
        self.finish_run("general", overrides=["training.stop_after=300u"])
        base = self.folder / "general" / "checkpoints" / "update-00000300"
        pairs = [toy_corpus(self.folder, lines, seed) for lines, seed in ((400, 4), (40, 5))]
        for source, target in pairs:  # other words in another order, of the same pieces
            lines = source.read_text(encoding="utf-8").splitlines()
            target.write_text("".join(f"{' '.join(reversed(line.split()))}\n" for line in lines), encoding="utf-8")
        prepare(self.folder / "domain", *pairs, "--keep-held-out", "--vocabulary", base)
        tuning = [
            f"data.folder={self.folder / 'domain'}",
            f"training.start_from={base}",
            f"validation.other_sets=general={self.prepared}",
            "training.stop_after=100u",
            "validation.bleu_every=100u",
        ]
        self.finish_run("tuned", overrides=[*tuning, "optimizer.warm_up=10u"])
        last = {record["set"]: record for record in self.records("tuned", "eval")}
        words = [base, self.folder / "tuned", "--alpha", "0:1:0.25", "--threads", 1, "--json"]
        done = call("nmt", "interpolate", *words, "--output", self.folder / "mixed", "--keep", "0.5", check=True)
        found = json.loads(done.stdout)
        self.assertEqual([item["name"] for item in found["sets"]], ["valid", "general"], "the sets of the run")
        points = [point["sets"] for point in found["points"]]
        for name, record in last.items():
            self.assertAlmostEqual(points[-1][name]["loss"], record["loss"], 5)
            self.assertAlmostEqual(points[-1][name]["sacrebleu"], record["sacrebleu"], 5)
        bleu = {name: [point[name]["sacrebleu"] for point in points] for name in last}
        self.assertGreater(bleu["valid"][-1], bleu["valid"][0] + 10, bleu)
        self.assertLess(bleu["general"][-1], bleu["general"][0] - 10, bleu)
        kept = [own if other >= bleu["general"][0] / 2 else -1 for own, other in zip(bleu["valid"], bleu["general"])]
        self.assertEqual(found["chosen"], found["points"][kept.index(max(kept))]["alpha"])
        evaluated = [
            "--checkpoint",
            self.folder / "mixed",
            "--set",
            "valid",
            "--data",
            self.folder / "domain",
            "--json",
        ]
        mixed = json.loads(call("nmt", "evaluate", *evaluated, "--beam", 2, "--threads", 1, check=True).stdout)
        self.assertAlmostEqual(mixed["sacrebleu"], max(kept), 5)


class EvaluatingServer(ControlServer):
    """Its profile asks for an evaluation of each run."""

    def profiles(self) -> str:
        options = ["--max-sentences", "5", "--token-file", str(self.folder / "admin.token")]
        command = json.dumps([str(BIN / "nmt"), "evaluate", "--watch", "{run}", "--report", *options])
        return f"{super().profiles()}  evaluation: {command}\n"


class EvaluationJobTest(EvaluationCase):
    server_type = EvaluatingServer

    def test_a_profile_adds_an_evaluation_that_survives_attempts(self) -> None:
        config = self.config_text(training_stop_after="1000000u", data_tokens_per_update="200")
        config = config.replace("tokens_per_update: 200", 'tokens_per_update: 200, valid_set: ""')
        config = config.replace("checkpoint: {every: 20u}", "checkpoint: {every: 200u, keep_last: 100000}")
        run = self.submit(config, max_restarts=3)
        self.wait_evals(run, 1)
        job = self.evaluating(run)
        self.assertEqual(len(job), 1)
        os.kill(self.rank_pids(run)[1], 9)
        self.wait_state(run, "running")
        self.wait_update(run, 1, attempt=2)
        self.assertEqual(self.evaluating(run), job, "one evaluation for all attempts")
        self.wait_evals(run, 3)
        self.assertEqual(self.control.ask("POST", f"/runs/{run}/stop")[0], 202)
        self.wait_state(run, "stopped")
        wait_for("the end of the evaluation", lambda: not self.evaluating(run))
        self.check_joined(run)
        log = self.folder / "server" / "runs" / run / "evaluation.log"
        self.assertIn("added to run", log.read_text(encoding="utf-8"))

    def evaluating(self, run: str) -> list[int]:
        """The processes that evaluate the run."""
        found = []
        for entry in filter(lambda name: name.isdigit(), os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/environ", "rb") as environment:
                    marked = f"BABELRING_EVALUATES={run}".encode() in environment.read().split(b"\0")
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if marked:
                found.append(int(entry))
        return found


if __name__ == "__main__":
    unittest.main()
