"""From raw text to BLEU, as a user does it."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import unittest
from pathlib import Path

from cases import SystemTest
from system import Run, call, prepare, toy_corpus, wait_for


def connections(pid: int, port: int) -> int:
    """How many connections a process has to a local port."""
    sockets = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            sockets.add(os.readlink(file))
    table = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    remote = f":{port:04X}"
    return sum(row[2].endswith(remote) and row[3] == "01" and f"socket:[{row[9]}]" in sockets for row in table)


class TrainingTest(SystemTest):
    # Each update makes the weights nine times as large.
    EXPLOSIVE = [
        "optimizer.learning_rate=10",
        "optimizer.weight_decay=1",
        "optimizer.warm_up=0",
        "optimizer.schedule=constant",
    ]

    def test_from_text_to_bleu_with_a_server_that_shows_it(self) -> None:
        server = self.server()
        self.finish_run(server=server.address, overrides=["training.stop_after=400u", "validation.bleu_every=200u"])

        listed = server.get("/api/v1/runs")["items"]
        self.assertEqual([item["name"] for item in listed], ["toy"])
        run_id = listed[0]["id"]
        shown = wait_for(
            "finished state", lambda: (r := server.get(f"/api/v1/runs/{run_id}"))["state"] == "succeeded" and r
        )
        self.assertEqual(shown["update"], 400)

        self.assertEqual(server.series(run_id, "loss", 1), list(range(1, 401)))
        evals = server.get(f"/api/v1/runs/{run_id}/evals")["items"]
        self.assertEqual([e["update"] for e in evals], [200, 400])
        self.assertGreater(evals[-1]["sacrebleu"], 90)
        self.assertGreater(evals[-1]["teacher_forced_bleu"], 90)

        newest = server.get(f"/api/v1/runs/{run_id}/checkpoints")["items"]
        newest = max(newest, key=lambda c: c["update"])
        manifest = server.get(f"/api/v1/checkpoints/{newest['id']}")
        for file in manifest["files"]:
            content = server.get_bytes(f"/api/v1/checkpoints/{newest['id']}/files/{file['name']}")
            self.assertEqual(hashlib.sha256(content).hexdigest(), file["sha256"], file["name"])
        self.assertEqual(server.stop(), 0)

    def test_one_rank_of_a_host_reports_for_all_and_a_kill_loses_nothing(self) -> None:
        server = self.server()
        run = self.start_run(ranks=3, server=server.address, overrides=["training.stop_after=100000u"])
        rows = (
            lambda: (listed := server.get("/api/v1/runs")["items"])
            and server.get(f"/api/v1/runs/{listed[0]['id']}/ranks")["items"]
        )
        wait_for(
            "records and heartbeats of all ranks",
            lambda: len(rows()) == 3 and all(row["update"] > 5 and row["heartbeat_age_ms"] for row in rows()),
        )
        pids = run.rank_pids()
        self.assertEqual([row["pid"] for row in rows()], pids)
        self.assertEqual([connections(pid, server.port) for pid in pids[1:]], [0, 0])
        self.assertIn(connections(pids[0], server.port), (1, 2), "records, heartbeats")

        os.kill(pids[0], signal.SIGKILL)
        self.assertNotEqual(run.wait(), 0)
        self.finish_run(ranks=3, server=server.address, overrides=["training.stop_after=40u"])
        for rank in range(3):
            spool = self.folder / f"run/spool/attempt-1/rank-{rank}.jsonl"
            confirmed = int(spool.with_suffix(".ack").read_text(encoding="ascii").split()[0])
            self.assertEqual(confirmed, spool.stat().st_size, f"rank {rank}")

    def test_checkpoint_translates_and_is_evaluated_by_itself(self) -> None:
        self.finish_run(overrides=["training.stop_after=400u"])
        checkpoint = self.folder / "run" / "checkpoints" / "update-00000400"
        text = "the old cat sees the lamp .\n\nthe kind bird hears the tree .\n"
        out = call("nmt", "translate", "--checkpoint", checkpoint, "--beam", "3", input=text, check=True)
        self.assertEqual(
            out.stdout.split("\n"), ["das cate oldes lampe seest .", "", "das birde kindes treee hearst .", ""]
        )
        words = ["--checkpoint", checkpoint, "--data", self.prepared, "--set", "test", "--json"]
        result = json.loads(call("nmt", "evaluate", *words, check=True).stdout)
        self.assertGreater(result["sacrebleu"], 90)
        self.assertIn("tok:13a", result["signature"])

    def test_ranks_agree_and_resume_is_bit_equal(self) -> None:
        digests = {}
        for ranks in (1, 2):
            name = f"whole{ranks}"
            self.finish_run(name, ranks)
            steps = self.records(name, "step")
            self.assertEqual([s["update"] for s in steps], list(range(1, 61)))
            digests[ranks] = [s["weights_digest"] for s in steps]
            losses = [s["loss"] for s in steps]
            if ranks == 1:
                reference = losses
            for one, many in zip(reference, losses):
                self.assertAlmostEqual(one, many, delta=1e-3 * one)
        # The ring gives every rank a copy of the model; of two addends the order does not matter.
        self.finish_run("copies", 2, overrides=["communication.all_reduce=ring"])
        self.assertEqual([s["weights_digest"] for s in self.records("copies", "step")], digests[2])
        self.finish_run("parts", 2, overrides=["training.stop_after=33u"])
        self.finish_run("parts", 2)
        resumed = [s["weights_digest"] for s in self.records("parts", "step")]
        self.assertEqual(resumed, digests[2])

    def test_wrong_configuration_is_one_clear_line_and_exit_code_2(self) -> None:
        run = self.finish_run(overrides=["model.widht=64"], code=2)
        errors = [line for line in run.text().splitlines() if "error" in line and "model." in line]
        self.assertEqual(len(errors), 1, run.text())
        self.assertIn("model.width", errors[0])

    def test_a_wrong_run_or_attempt_ends_all_ranks_with_one_line(self) -> None:
        for words, complaint in (
            (["--run-id", "r_x", "--attempt", "1"], "--run-id: expected r_ and 26 digits"),
            (["--run-id", f"r_{26 * '0'}", "--attempt", "0"], "--attempt: expected at least 1"),
            (["--attempt", "2"], "--run-id: expected r_ and 26 digits"),
        ):
            run = self.finish_run(ranks=3, overrides=[*words, "communication.deadline_s=86400"], code=2)
            self.assertEqual(run.text().count(complaint), 1, run.text())
            run.log.unlink()

    def test_a_new_run_starts_from_the_weights_of_another_in_its_vocabulary_or_not(self) -> None:
        bias = "model.output_bias=true"
        self.finish_run("general", overrides=["training.stop_after=20u", bias])
        checkpoint = self.folder / "general" / "checkpoints" / "update-00000020"
        last = self.records("general", "step")[-1]["weights_digest"]
        start = [f"training.start_from={checkpoint}", "optimizer.learning_rate=0", "training.stop_after=1u", bias]

        # Other text, once with its own vocabulary and once with the checkpoint's.
        text = toy_corpus(self.folder, 500, 3)
        for name, options in {"own": ["--vocabulary-size", 110], "same": ["--vocabulary", checkpoint]}.items():
            prepare(self.folder / name, text, text, "--keep-held-out", *options)
        other = self.finish_run("own-run", overrides=[*start, f"data.folder={self.folder / 'own'}"])
        self.assert_rows_go_by_piece(checkpoint, other)
        start[0] = f"training.start_from={self.folder / 'general'}"  # the run's only checkpoint
        self.finish_run("same-run", overrides=[*start, f"data.folder={self.folder / 'same'}"])
        steps = self.records("same-run", "step")
        self.assertEqual([(s["update"], s["weights_digest"]) for s in steps], [(1, last)])

        config = (self.folder / "general" / "config.yaml").read_text()
        resumed = self.finish_run("general", overrides=[f"data.folder={self.folder / 'same'}", bias], code=2)
        self.assertIn("training.start_from", resumed.text())
        self.assertEqual((self.folder / "general" / "config.yaml").read_text(), config)
        resumed = self.finish_run(
            "general", overrides=[f"data.folder={self.folder / 'own'}", bias, "--accept-changes"], code=2
        )
        self.assertRegex(resumed.text(), "resume: the vocabulary of update-00000020 is .*training.start_from")

    def table_by_piece(self, checkpoint: Path) -> dict[str, bytes]:
        """The rows of the table that source, target and output share, each with its piece's bias of the output."""
        output = self.folder / f"exported-{checkpoint.parents[1].name}"
        options = ["--to", "ctranslate2", "--sources", self.folder / "toy3.en", "--output", output]
        call("nmt", "export", "--checkpoint", checkpoint, *options, check=True)
        pieces = json.loads((output / "shared_vocabulary.json").read_text(encoding="utf-8"))
        content = (checkpoint / "weights.safetensors").read_bytes()
        begin = 8 + int.from_bytes(content[:8], "little")
        rows = dict.fromkeys(pieces, b"")
        for name in ("embedding", "output.bias"):
            tensor = json.loads(content[8:begin])[name]
            first, last = (begin + offset for offset in tensor["data_offsets"])
            self.assertEqual(tensor["shape"][0], len(pieces))
            width = (last - first) // len(pieces)
            for i, piece in enumerate(pieces):
                rows[piece] += content[first + i * width : first + (i + 1) * width]
        return rows

    def assert_rows_go_by_piece(self, checkpoint: Path, run: Run) -> None:
        """For a run that started from a checkpoint with another vocabulary and changed nothing since."""
        before = self.table_by_piece(checkpoint)
        after = self.table_by_piece(self.folder / "own-run" / "checkpoints" / "update-00000001")
        both = before.keys() & after.keys()
        self.assertEqual({piece: after[piece] for piece in both}, {piece: before[piece] for piece in both})
        fresh = [row for piece, row in after.items() if piece not in both]
        self.assertGreater(len(fresh), 0)
        start = [f"data.folder={self.folder / 'own'}", "optimizer.learning_rate=0", "training.stop_after=1u"]
        self.finish_run("fresh-run", overrides=[*start, "model.output_bias=true"])
        initial = self.table_by_piece(self.folder / "fresh-run" / "checkpoints" / "update-00000001")
        self.assertEqual(fresh, [row for piece, row in initial.items() if piece not in both], "initial values")
        counts = f"{len(both)} pieces have their rows from the checkpoint, {len(fresh)} begin with initial values"
        self.assertEqual(run.text().count(f"{counts}, {len(before) - len(both)} of the checkpoint's are dropped"), 1)

    def test_diverging_training_ends_with_one_line_and_no_checkpoint(self) -> None:
        run = self.finish_run(overrides=[*self.EXPLOSIVE, "training.stop_after=100000u"], code=1)
        lines = [line for line in run.text().splitlines() if "training diverged at update" in line]
        self.assertEqual(len(lines), 1, run.text())
        for words in (
            "20 consecutive updates had a non-finite gradient",
            "gradient norm",
            "optimizer.learning_rate (now 10)",
        ):
            self.assertIn(words, lines[0])
        [end] = [record for record in self.records("run", "lifecycle") if record["event"] == "failed"]
        self.assertIn("training diverged at update", end["detail"])
        self.assertEqual(list((self.folder / "run" / "checkpoints").glob("update-*")), [])

    def test_diverging_training_is_rewound_up_to_the_limit(self) -> None:
        self.finish_run(overrides=["training.stop_after=20u"])
        self.finish_run(
            overrides=[
                *self.EXPLOSIVE,
                "training.stop_after=100000u",
                "training.divergence.after=3u",
                "training.divergence.rewind=1",
            ],
            code=1,
        )
        for rank in (0, 1):
            rewound = [record for record in self.records("run", "lifecycle", rank) if record["event"] == "rewound"]
            self.assertEqual([record["update"] for record in rewound], [20])
            rates = [step["learning_rate"] for step in self.records("run", "step", rank) if step["update"] == 21]
            self.assertEqual(rates, [10, 5])
        self.finish_run(overrides=["training.stop_after=22u"])  # with the first learning rate again

    def test_changes_of_the_data_folder_do_not_change_a_run(self) -> None:
        data = self.folder / "data"
        shutil.copytree(self.prepared, data)
        run = self.start_run(overrides=[f"data.folder={data}", "training.stop_after=1000000u", "checkpoint.every=5u"])
        run.wait_for("a checkpoint", self.checkpoints)
        train, valid = toy_corpus(self.folder, 500, 3), toy_corpus(self.folder, 20, 4)
        prepare(data, train, valid, "--vocabulary-size", 110)
        self.assertNotEqual((data / "spm.model").read_bytes(), (self.prepared / "spm.model").read_bytes())
        seen = self.checkpoints()[-1]
        run.wait_for("a later checkpoint", lambda: self.checkpoints()[-1] > seen)
        shutil.rmtree(data)
        seen = self.checkpoints()[-1]
        run.wait_for("a still later one", lambda: self.checkpoints()[-1] > seen)
        for pid in run.rank_pids():
            os.kill(pid, signal.SIGUSR1)
        self.assertEqual(run.wait(), 0, run.text())
        newest = self.folder / "run" / "checkpoints" / self.checkpoints()[-1]
        self.assertEqual((newest / "spm.model").read_bytes(), (self.prepared / "spm.model").read_bytes())
        self.assertNotIn("was not written", run.text())
        words = ["--checkpoint", newest, "--data", self.prepared, "--set", "test", "--max-sentences", "2"]
        out = call("nmt", "evaluate", *words, "--beam", "1")
        self.assertEqual(out.returncode, 0, out.stderr)

    def test_missing_data_folder_is_named(self) -> None:
        run = self.finish_run(overrides=["data.folder=/dev/null/data"], code=2)
        self.assertIn("/dev/null/data", run.text())


if __name__ == "__main__":
    unittest.main()
