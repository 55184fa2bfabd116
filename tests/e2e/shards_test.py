"""Checkpoints in shards, one written by each of two hosts (checkpoint.sharded)."""

import os
import shutil
import signal
import subprocess
import unittest
from pathlib import Path

from cases import TwoHostTest
from system import RANKS, SLOTS, TwoHostRun, call, prepare, toy_corpus, wait_for

SHARDED = ["checkpoint.sharded=true", "communication.all_reduce=ring"]  # a ring adds in the order of ranks on any hosts
FILES = {
    *(f"{tensors}-0000{shard}-of-00002.safetensors" for tensors in ("weights", "optimizer") for shard in (1, 2)),
    *("spm.model", "config.yaml", "state.json", "SHA256SUMS"),
}


class ShardsTest(TwoHostTest):
    def digests(self, name: str = "run") -> dict[int, str]:
        """The digests of the weights by update, from the last attempt that trained it."""
        return {step["update"]: step["weights_digest"] for step in self.steps(name)}

    def test_shards_continue_on_any_hosts_with_the_bits_of_whole_checkpoints(self) -> None:
        self.finish_run("whole", len(RANKS), overrides=SHARDED)  # one host: nothing is divided
        self.assertIn("weights.safetensors", os.listdir(self.folder / "whole/checkpoints/update-00000060"))
        self.finish_on_two_hosts(overrides=SHARDED)
        expected = self.digests("whole")
        self.assertEqual(sorted(expected), list(range(1, 61)))
        self.assertEqual(self.digests(), expected)
        self.assertEqual(self.checkpoints(), ["update-00000020", "update-00000040", "update-00000060"])
        for name in self.checkpoints():
            self.assert_complete(self.folder / "run" / "checkpoints" / name)
        self.assertEqual([len(record["files"]) for record in self.records("run", "checkpoint")], [len(FILES) - 1] * 3)
        self.assert_programs_read_it(self.folder / "run/checkpoints/update-00000060", "whole")

        shutil.rmtree(self.folder / "run/checkpoints/update-00000060")
        for hosts in (1, 2):
            name = f"on-{hosts}"
            shutil.copytree(self.folder / "run/checkpoints", self.folder / name / "checkpoints", symlinks=True)
            shutil.copy(self.folder / "run/run.json", self.folder / name)
            if hosts == 1:
                self.finish_run(name, len(RANKS), overrides=SHARDED)
            else:
                self.finish_on_two_hosts(overrides=SHARDED, name=name)
            self.assertEqual(self.digests(name), {update: expected[update] for update in range(41, 61)})

    def test_new_pieces_begin_alike_where_hosts_divide_the_masters(self) -> None:
        """A run from a checkpoint with another vocabulary; hosts drop the masters that others have."""
        self.finish_run("general", overrides=["training.stop_after=20u"])
        text = toy_corpus(self.folder, 500, 3)
        prepare(self.folder / "own", text, text, "--vocabulary-size", 110, "--keep-held-out")
        start = [f"training.start_from={self.folder / 'general'}", f"data.folder={self.folder / 'own'}"]
        overrides = [*start, "training.precision=bf16", "optimizer.learning_rate=0", "training.stop_after=1u"]
        self.finish_run("one", overrides=overrides)
        run = self.finish_on_two_hosts(overrides=[*overrides, "communication.optimizer=sharded"], name="two")
        self.assertRegex(run.text(), "begin with initial values")
        self.assertEqual(self.digests("two"), self.digests("one"))

    def assert_complete(self, folder: Path) -> None:
        self.assertEqual({path.name for path in folder.iterdir()}, FILES)
        sums = subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS"], cwd=folder)
        self.assertEqual(sums.returncode, 0)
        for tensors in ("weights", "optimizer"):
            sizes = [(folder / f"{tensors}-0000{shard}-of-00002.safetensors").stat().st_size for shard in (1, 2)]
            self.assertLess(max(sizes), 2 * min(sizes), "the hosts write about as much")

    def assert_programs_read_it(self, folder: Path, same: str) -> None:
        other = self.folder / same / "checkpoints" / folder.name

        def nmt(*arguments: object) -> str:
            text = "the old cat sees the dog .\n"
            done = call("nmt", *arguments, input=text)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        self.assertEqual(nmt("translate", "--checkpoint", folder), nmt("translate", "--checkpoint", other))
        nmt("average", folder, other, "--output", self.folder / "mean")
        self.assertEqual(
            (self.folder / "mean" / "weights.safetensors").read_bytes(), (other / "weights.safetensors").read_bytes()
        )

    def test_hosts_with_a_disk_each_are_refused(self) -> None:
        self.change_to_folder()
        run = self.start_with_a_disk_each(SHARDED)
        self.assertNotEqual(run.wait(), 0)
        self.assertRegex(
            run.text(),
            r"checkpoint\.sharded: rank 1 on hostB: /\S+/disk/split/checkpoints is not the folder that rank 0 on hostA "
            r"has by this name; give all hosts one shared folder \(--run-dir\), or set checkpoint\.sharded to false",
        )
        self.assertFalse((self.folder / "hostB/split/checkpoints").exists())
        self.assertEqual(list((self.folder / "hostA/split/checkpoints").iterdir()), [])

    def held_run(self) -> TwoHostRun:
        """A run with at least one checkpoint; of the next one, hostB cannot complete its shard."""
        faults, self.control = self.io_faults()
        run = self.start_on_two_hosts(overrides=[*SHARDED, "training.stop_after=1000000u"], environment=faults)
        run.wait_for("a first checkpoint", self.checkpoints)
        self.control.write_text("hold weights-00002", encoding="utf-8")
        while True:
            run.wait_for("a shard of hostA", self.held)
            held = self.held()
            if held:
                # It stands still where the next checkpoint is due, 20 updates later.
                goes_on = int(held.removeprefix(".tmp-update-").split(".")[0]) + 10
                run.wait_for("training to go on", lambda: max(self.digests()) >= goes_on)
            if held and self.held() == held:  # else it was complete before the hold
                return run

    def held(self) -> str:
        """The name of an unfinished checkpoint that has hostA's shard and not hostB's; empty: none."""
        for name in self.checkpoints(prefix=".tmp-update-"):
            try:
                files = set(os.listdir(self.folder / "run/checkpoints" / name))
            except FileNotFoundError:  # complete in the meantime
                continue
            if "optimizer-00001-of-00002.safetensors" in files and "weights-00002-of-00002.safetensors" not in files:
                return name
        return ""

    def test_a_stop_waits_for_the_shard_of_the_other_host(self) -> None:
        run = self.held_run()
        run.ask_to_stop()
        wait_for("training to stand still", self.stands_still)
        self.assertIsNone(run.process.poll(), "it did not wait")
        self.control.unlink()
        self.assertEqual(run.wait(), 0, run.text())
        last = max(self.digests())
        self.assertEqual(self.checkpoints()[-1], f"update-{last:08}")
        for name in self.checkpoints():
            self.assert_complete(self.folder / "run" / "checkpoints" / name)
        self.assertEqual(self.checkpoints(prefix=".tmp-"), [])

    def test_a_host_that_dies_while_writing_leaves_the_checkpoint_before(self) -> None:
        run = self.held_run()
        kept = self.checkpoints()
        os.kill(run.rank_pids()[SLOTS], signal.SIGKILL)  # which writes for hostB
        self.assertNotEqual(run.wait(), 0)
        self.assertEqual(self.checkpoints(), kept)
        self.control.unlink()
        first = self.digests()
        last = max(first)
        self.finish_on_two_hosts(overrides=[*SHARDED, f"training.stop_after={last}u"])
        self.assertEqual(self.digests(), first)
        updates = [step["update"] for step in self.steps()]
        self.assertEqual(updates[len(first) :], list(range(int(kept[-1].split("-")[1]) + 1, last + 1)))
        self.assertEqual(self.checkpoints(prefix=".tmp-"), [])


if __name__ == "__main__":
    unittest.main()
