"""A timeline of several ranks, from the configuration key to `nmt trace`."""

import json
import socket
import subprocess
import unittest

from cases import SystemTest
from system import Server, call, wait_for
from timeline_check import TimelineCheck, read_timeline, slices

FEW = ["training.stop_after=12u", "checkpoint.every=0", "validation.every=0"]


class TimelineTest(SystemTest):
    def nmt(self, *arguments: object) -> subprocess.CompletedProcess:
        return call("nmt", "trace", *arguments)

    def test_two_ranks_write_one_file(self) -> None:
        wanted = ["lab.trace.start=5u", "lab.trace.updates=3", "communication.all_reduce=ring"]
        self.finish_run(overrides=FEW + wanted)
        files = sorted((self.folder / "run" / "lab").iterdir())
        self.assertEqual([file.name for file in files], ["trace-update-00000005.json.gz"])
        check = TimelineCheck(self, files[0], [socket.gethostname()] * 2)
        check.all()
        for own in slices(check.trace, "op").values():
            shapes = [op["args"]["shapes"] for op in own if op["name"] == "linear_forward"]
            self.assertGreater(len(shapes), 0)
            self.assertTrue(all({"x", "weight", "y"} <= set(shape) for shape in shapes))
        self.assertGreater(len(slices(check.trace, "batch")[0]), 0)
        shown = self.nmt("timeline", self.folder / "run")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("Updates 5 to 7 of run r_", shown.stdout)
        self.assertIn("the other ranks waited", shown.stdout)
        self.check_light_lines()

    def test_a_running_run_is_traced_on_request(self) -> None:
        server = self.server()
        # It must not end before it is traced.
        endless = ["training.stop_after=1000000u", "checkpoint.every=0", "validation.every=0"]
        run = self.start_run(server=server.address, overrides=endless + ["communication.all_reduce=ring"])
        path = f"/api/v1/runs/{server.first_run()}"
        wait_for(
            "a heartbeat of rank 0",
            lambda: [
                rank
                for rank in server.get(f"{path}/ranks")["items"]
                if rank["rank"] == 0 and rank["heartbeat_age_ms"] is not None
            ],
        )
        file = self.folder / "traced.json.gz"
        shown = self.run_trace(server, "--updates", 2, "--output", file, "--json")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        check = TimelineCheck(self, file, [socket.gethostname()] * 2)
        check.all()
        self.assertEqual(check.trace["otherData"]["updates"], 2)
        artifact = json.loads(shown.stdout)["artifact"]
        first = check.trace["otherData"]["first_update"]
        self.assertEqual((artifact["update"], artifact["name"]), (first, f"trace-update-{first:08}.json.gz"))
        self.assertEqual([rank["rank"] for rank in artifact["content"]["ranks"]], [0, 1])
        for rank in artifact["content"]["ranks"]:
            parts = sum(rank[f"{part}_ms"] for part in ("compute", "exposed", "data", "other"))
            self.assertAlmostEqual(rank["total_ms"], parts, delta=0.01)
        again = self.run_trace(server, "--updates", 1, "--ops", "false", "--output", self.folder / "again.json.gz")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertRegex(again.stdout, r"again\.json\.gz: updates (\d+) to \1 of run r_\w{26}, ")
        self.assertEqual(slices(read_timeline(self.folder / "again.json.gz"), "op"), {})
        traced = read_timeline(self.folder / "again.json.gz")["otherData"]["first_update"]
        wait_for("further updates", lambda: server.get(path)["update"] > traced + 20)
        run.end()

    def run_trace(self, server: Server, *arguments: object) -> subprocess.CompletedProcess:
        return call("nmt", "run", "trace", "toy", *arguments, env=server.environment())

    def check_light_lines(self) -> None:
        shown = self.nmt("light", self.folder / "run", "--rank", 1)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        lines = [json.loads(line) for line in shown.stdout.splitlines()]
        steps = self.records("run", "step", 1)
        self.assertEqual([line["step"] for line in lines], [step["update"] for step in steps])
        for line, step in zip(lines, steps):
            self.assertAlmostEqual(line["data_io_time"] + line["model_time"], step["step_ms"] / 1e3)
            self.assertEqual(line["flops"], step["flops"])
            self.assertAlmostEqual(line["mem_GiB"], step["memory_bytes"]["peak"] / 2**30)

    def test_wrong_input_is_explained(self) -> None:
        for arguments, code, text in (
            (("timeline", self.folder), 2, "found no lab/trace-update-*.json.gz, expected one"),
            (("timeline", self.config), 1, "config.yaml: "),
            (("timeline", "nowhere.json.gz"), 1, "nowhere.json.gz"),
            (("light", self.folder), 2, "found no spool/attempt-*/rank-0.jsonl, expected the folder of a run"),
        ):
            shown = self.nmt(*arguments)
            self.assertEqual(shown.returncode, code, shown.stderr)
            self.assertIn(text, shown.stderr)
        run = self.finish_run(overrides=["lab.trace.start=2e"], code=2)
        self.assertIn("lab.trace.start: expected the number of an update (20u), found '2e'", run.text())


if __name__ == "__main__":
    unittest.main()
