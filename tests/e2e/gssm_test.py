"""Training on generated sequences, as a user does it."""

import functools
import json
import os
import signal
import subprocess
import unittest

from cases import SystemTest
from system import BIN, call, wait_for

CONFIG = """
name: sequences
task: gssm
model: {decoder_layers: 2, width: 32, heads: 4, inner: 64}
gssm:
  nodes:
    - {name: Z, state_dim: 4, parents: [X]}
    - {name: X, state_dim: 8, parents: [Z]}
  alpha_X: 0.3
  alpha_Z: 0.3
  entropy_every: 10u
data: {sequence_length: 32, sequences_per_update: 8}
optimizer: {learning_rate: 0.005, warm_up: 20u}
training: {stop_after: 60u, precision: f32, threads: 1, digest_every: 1u, log_every: 20u}
validation: {every: 20u, sequences: 8}
checkpoint: {every: 20u}
communication: {deadline_s: 120}
"""


nmt = functools.partial(call, "nmt")


class GssmTest(SystemTest):
    def setUp(self) -> None:
        super().setUp()
        self.config = self.folder / "config.yaml"
        self.config.write_text(CONFIG, encoding="utf-8")

    def refusal(self, *arguments) -> str:
        done = nmt(*arguments)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def digests(self, name: str) -> dict[int, str]:
        return {step["update"]: step["weights_digest"] for step in self.records(name, "step")}

    def test_a_killed_run_goes_on_with_the_bits_of_an_uninterrupted_one(self) -> None:
        server = self.server()
        self.finish_run("whole", server=server.address)
        run_id = server.first_run()
        wait_for("finished state", lambda: server.get(f"/api/v1/runs/{run_id}")["state"] == "succeeded")
        evals = server.get(f"/api/v1/runs/{run_id}/evals")["items"]
        self.assertEqual([item["update"] for item in evals], [20, 40, 60])
        self.assertAlmostEqual(evals[-1]["excess"], evals[-1]["nll"] - evals[-1]["entropy"])
        self.assertLess(evals[-1]["excess"], evals[0]["excess"])
        excess = server.get(f"/api/v1/runs/{run_id}/metrics/excess?agg=raw&points=100")
        self.assertEqual(excess["step"], [10, 20, 30, 40, 50, 60])
        self.assertEqual(server.stop(), 0)

        killed = self.start_run("killed", overrides=["training.stop_after=1000000u"])
        wait_for("checkpoint", lambda: (self.folder / "killed" / "checkpoints" / "update-00000020").exists())
        os.kill(killed.rank_pids()[1], signal.SIGKILL)
        self.assertNotEqual(killed.wait(), 0)
        newest = max((self.folder / "killed" / "checkpoints").glob("update-*")).name
        end = int(newest[7:]) + 60
        self.finish_run("longer", overrides=[f"training.stop_after={end}u"])
        self.finish_run("killed", overrides=[f"training.stop_after={end}u"])
        self.assertIn(f"resumed after update {int(newest[7:])}", json.dumps(self.records("killed", "lifecycle")))
        self.assertEqual(self.digests("killed")[end], self.digests("longer")[end])
        self.assertEqual(self.digests("whole")[60], self.digests("longer")[60])

    def test_files_of_sequences_and_the_commands_for_a_language_model(self) -> None:
        data = self.folder / "data"
        written = nmt("gssm", "data", "--config", self.config, "--output", data, "--train", "30", "--test", "8")
        self.assertEqual(written.returncode, 0, written.stderr)
        run = self.finish_run(
            overrides=[f"data.folder={data}", "gssm.entropy_every=0u", "training.stop_after=10e", "checkpoint.every=0"]
        )
        self.assertIn("30 sequences of 32 tokens, 4 updates an epoch", run.text())
        evaluation = self.records("run", "eval")[-1]
        self.assertGreater(evaluation["entropy"], 0.1)
        checkpoint = self.folder / "run"
        for arguments in ([], ["--data", data]):
            done = nmt("evaluate", "--checkpoint", checkpoint, "--json", *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            figures = json.loads(done.stdout)
            self.assertEqual(len(figures["along"]), 8)
            self.assertAlmostEqual(figures["excess"], figures["nll"] - figures["entropy"])
        self.assertAlmostEqual(figures["nll"], evaluation["nll"], places=4)
        self.assertIn("excess", nmt("evaluate", "--checkpoint", checkpoint).stdout)
        sample = ["gssm", "sample", "--checkpoint", checkpoint, "-n", "3", "--json"]
        samples = [json.loads(line) for line in nmt(*sample, "--prompt", "0,5", "--score").stdout.splitlines()]
        self.assertEqual([line["tokens"][:2] for line in samples], [[0, 5]] * 3)
        self.assertEqual({len(line["tokens"]) for line in samples}, {32})
        self.assertLess(max(line["source_log_likelihood"] for line in samples), 0)
        self.assertEqual(nmt(*sample).stdout, nmt(*sample).stdout, "seeds repeat samples")
        self.assertIn("token 9 of the prompt, expected 0 to 7", self.refusal(*sample, "--prompt", "0,9"))
        self.assertIn("the prompt begins with 5, but a sequence", self.refusal(*sample, "--prompt", "5", "--score"))
        self.assertIn("use `nmt gssm sample`", self.refusal("translate", "--checkpoint", checkpoint))
        self.assertIn("are for translations", self.refusal("evaluate", "--checkpoint", checkpoint, "--output", "x"))
        pairs = ["--source", self.config, "--target", self.config]
        self.assertIn("which does not translate", self.refusal("score", "--checkpoint", checkpoint, *pairs))

    def test_the_automatic_update_size_is_stored_and_kept(self) -> None:
        data = self.folder / "data"
        self.succeeds("gssm", "data", "--config", self.config, "--output", data, "--train", "30", "--test", "8")
        automatic = [f"data.folder={data}", "gssm.entropy_every=0u", "data.sequences_per_update=auto"]
        check = [BIN / "worker", "--config", self.config, "--check-config", *automatic]
        checked = json.loads(subprocess.run(check, capture_output=True, text=True, timeout=300).stdout)
        self.assertIn("data.sequences_per_update: auto is found by a run", checked["not_estimated"][0])
        run = self.finish_run(overrides=[*automatic, "training.stop_after=2u"])
        self.assertIn(
            "data.sequences_per_update: auto: 30 sequences of 32 tokens, all of train, 15 on a rank", run.text()
        )
        stored = self.folder / "run" / "config.yaml"
        text = stored.read_text(encoding="utf-8")
        self.assertIn("sequences_per_update: 30\n", text)
        self.assertIn("sequences_per_update: 30\n", self.records("run", "lifecycle")[0]["config"])
        # The value that `auto` would have chosen with less free memory.
        stored.write_text(text.replace("sequences_per_update: 30\n", "sequences_per_update: 6\n"), encoding="utf-8")
        resumed = self.finish_run(overrides=[*automatic, "training.stop_after=4u"])
        self.assertIn("auto: 6 sequences, with which the run began", resumed.text())
        self.assertEqual([step["sentences"] for step in self.records("run", "step")], [15, 15, 3, 3])

    def succeeds(self, *arguments) -> str:
        done = nmt(*arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_probes_and_records_of_sequences(self) -> None:
        data, first, second = (self.folder / name for name in ("data", "a.jsonl", "b.jsonl"))
        self.succeeds("gssm", "data", "--config", self.config, "--output", data, "--train", "30", "--test", "8")
        files = [f"data.folder={data}", "gssm.entropy_every=0u"]
        for source in ([], files, ["--batch", "random:3x4/5"]):
            save = ["probe", "save", "--config", self.config, *source, "--updates", "2", "--output"]
            for file in (first, second):
                self.succeeds(*save, file)
            self.assertIn("probes: same", self.succeeds("probe", "compare", first, second))
        self.finish_run(ranks=1, overrides=["training.stop_after=5u", "validation.every=0"])
        checkpoint = ["--checkpoint", self.folder / "run"]
        self.succeeds("probe", "save", *checkpoint, "--output", first)
        self.assertIn('"first_update":6', first.read_text(encoding="utf-8").splitlines()[0])
        self.succeeds(
            "probe", "save", *checkpoint, "--batch", "random:2x1/4", "--mode", "inference", "--output", second
        )
        for source in (files, []):
            record = ["emulate", "record", "--config", self.config, "--updates", "2", "--output", first, *source]
            self.assertIn("target tokens a rank", self.succeeds(*record))
        self.assertEqual(json.loads(first.read_text(encoding="utf-8"))["size"], 8 * 31)
        self.assertIn("is less than one sequence", self.refusal(*record, "--sizes", "0.1,1"))

    def test_a_model_in_context_comes_closer_to_the_source_along_the_sequence(self) -> None:
        overrides = [
            "gssm.nodes.2.mode=context",
            "gssm.alpha_X=0.1",
            "gssm.entropy_every=0u",
            "data.sequence_length=64",
        ]
        overrides += ["data.sequences_per_update=16", "optimizer.learning_rate=0.01", "training.stop_after=300u"]
        overrides += ["validation.every=0", "checkpoint.every=0", "training.digest_every=0"]
        self.finish_run(overrides=overrides)
        evaluate = ["evaluate", "--checkpoint", self.folder / "run", "--max-sentences", "128"]
        along = json.loads(self.succeeds(*evaluate, "--json"))["along"]
        self.assertEqual((along[0]["first"], along[-1]["last"]), (1, 63))
        self.assertLess(along[-1]["excess"], 0.8 * along[0]["excess"], along)
        table = [
            line.split() for line in self.succeeds(*evaluate).splitlines() if line.strip().startswith(("1-", "56-"))
        ]
        scored = ("gssm", "sample", "--checkpoint", self.folder / "run", "--score")
        self.assertIn("--score: node X has mode context", self.refusal(*scored))
        printed = [[part["excess"] for part in along][at] for at in (0, -1)]
        self.assertEqual([float(row[-1]) for row in table], [round(excess, 4) for excess in printed])

    def test_each_checkpoint_is_evaluated_while_training_goes_on(self) -> None:
        server = self.server()
        environment = server.environment()
        run = self.start_run(
            "watched",
            server=server.address,
            overrides=["training.stop_after=1000000u", "data.valid_set=", "checkpoint.keep_last=100000"],
        )
        wait_for("checkpoint", lambda: (self.folder / "watched" / "checkpoints" / "update-00000020").exists())
        run_id = server.first_run()
        path = f"/api/v1/runs/{run_id}"
        command = [BIN / "nmt", "evaluate", "--watch", run_id, "--report", "--max-sentences", "4", "--json"]
        watching = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(watching.kill)
        wait_for("two evaluations", lambda: len(server.get(f"{path}/evals")["items"]) >= 2)
        self.assertEqual(server.get(path)["state"], "running")
        self.assertEqual(server.ask("POST", f"/runs/{run_id}/stop")[0], 202)
        self.assertEqual(run.wait(), 0, run.text())
        printed = [json.loads(line) for line in watching.communicate(timeout=300)[0].splitlines()]
        self.assertEqual(watching.returncode, 0)
        evals = server.get(f"{path}/evals?limit=500")["items"]
        self.assertEqual([item["update"] for item in evals], [figures["update"] for figures in printed])
        last = max(item["update"] for item in server.get(f"{path}/checkpoints?limit=500")["items"])
        self.assertEqual(evals[-1]["update"], last, "the last checkpoint of an ended run is evaluated too")
        self.assertEqual({item["set"] for item in evals}, {"generated"})
        self.assertEqual(server.get(path)["best"]["loss"], min(item["loss"] for item in evals))
        again = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        self.assertEqual((again.returncode, again.stdout), (0, ""), "nothing is evaluated twice")
        self.assertIn("expected either --checkpoint or --watch", self.refusal("evaluate"))
        self.assertIn("--report: expected a run", self.refusal("evaluate", "--checkpoint", "x", "--report"))

    def test_a_validated_checkpoint_is_not_evaluated_again(self) -> None:
        server = self.server()
        environment = server.environment()
        overrides = ["training.stop_after=40u", "validation.every=20u", "checkpoint.every=20u"]
        self.finish_run("validated", server=server.address, overrides=overrides)
        run_id = server.first_run()
        evals = [(item["set"], item["update"]) for item in server.get(f"/api/v1/runs/{run_id}/evals")["items"]]
        self.assertEqual(evals, [("test", 20), ("test", 40)])
        command = [BIN / "nmt", "evaluate", "--watch", run_id, "--report", "--json"]
        watched = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        self.assertEqual((watched.returncode, watched.stdout), (0, ""), "the sets have one name")

    def test_wrong_data_is_refused_in_one_line(self) -> None:
        self.config = type(self).config
        self.finish_run("translator", ranks=1, overrides=["training.stop_after=1u"])
        sample = self.refusal("gssm", "sample", "--checkpoint", self.folder / "translator")
        self.assertIn("holds a Transformer; use `nmt translate`", sample)
        self.config = self.folder / "config.yaml"
        run = self.finish_run(
            "pairs", ranks=1, overrides=[f"data.folder={self.prepared}", "gssm.entropy_every=0u"], code=2
        )
        self.assertIn("sentence pairs, expected sequences of `nmt gssm data`", run.text())
        run = self.finish_run("twice", ranks=1, overrides=["gssm.nodes.2.parents=Y"], code=2)
        self.assertIn("config.yaml:8:7: gssm.nodes.2.parents: unknown node 'Y'", run.text())


if __name__ == "__main__":
    unittest.main()
