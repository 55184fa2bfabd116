"""A profile with hosts: the server on one of them starts runs over both, which are network namespaces of this machine with a
TCP link between them (tests/mpi/two_hosts.sh)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import unittest
from pathlib import Path
from typing import Any

from cases import ControlTest, TwoHostTest
from system import (
    ControlServer,
    HOST_A,
    HOST_A_OPTIONS,
    HOST_OF,
    TWO_HOSTS,
    mpirun_daemon,
    spool_records,
    wait_ended,
    wait_for,
)


class HostServer(ControlServer):
    """A `server` on hostA, asked by curl on that host."""

    def __init__(self, folder: Path, checkpoints: Path) -> None:
        super().__init__(folder, checkpoints, HOST_A_OPTIONS)
        self.agent, self.listen = self.log.with_name("agent"), HOST_A
        self.wrapper = [TWO_HOSTS, "--agent", self.agent, "--"]

    def profiles(self) -> str:
        two_hosts = f"""
  launcher: mpirun
  hosts: ["hostA:2", "hostB:2"]
  max_ranks: 4
  server: "http://hostA:8080"
  environment: ["OMPI_MCA_plm_rsh_agent={self.agent}", "OMPI_MCA_oob_tcp_if_include=10.77.0.0/24",
                "OMPI_MCA_btl_tcp_if_include=10.77.0.0/24"]
"""
        settings = {
            "two-hosts": "  heartbeat_timeout_s: 120\n  cool_down_s: 0\n",
            "few-hosts": "  heartbeat_timeout_s: 10\n  cool_down_s: 5\n  minimum_ranks: 2\n",
        }
        return "".join(f"{name}:{two_hosts}{more}" for name, more in settings.items())

    def kill(self) -> None:
        """The script removes the hosts and ends everything that runs on them."""
        self.stop()

    def request(self, method: str, path: str, body: Any = None, *_: Any) -> tuple[int, Any]:
        inside = ["ip", "netns", "exec", f"babelring-{self.process.pid}-a"]
        headers = {"Content-Type": "application/json"} | self.headers()
        command = [*inside, "curl", "-s", "--max-time", "60", "-X", method, "-w", "\n%{http_code}"]
        command += [word for name, value in headers.items() for word in ("-H", f"{name}: {value}")]
        command += ["--data-binary", json.dumps(body)] if body is not None else []
        text = subprocess.run([*command, f"http://{HOST_A}{path}"], capture_output=True, text=True).stdout
        answer, _, status = text.rpartition("\n")
        return int(status), json.loads(answer) if answer.startswith(("{", "[")) else answer


class HostProfileTest(ControlTest, TwoHostTest):
    server_type = HostServer

    @classmethod
    def setUpClass(cls) -> None:
        if shutil.which("curl") is None:
            raise unittest.SkipTest("curl is not installed")
        super().setUpClass()

    def ranks(self, run: str) -> list[dict[str, Any]]:
        return self.control.get(f"/api/v1/runs/{run}/ranks")["items"]

    def wait_hosts(self, run: str, attempt: int, hosts: list[str]) -> None:
        def trains() -> bool:
            item = self.run_item(run)
            self.assertNotEqual(item["state"], "failed", item["detail"] + self.launcher_log(run))
            return (item["attempt"], item["state"], item["hosts"]) == (attempt, "running", hosts)

        wait_for(f"attempt {attempt} on {hosts}", trains)

    def test_a_run_spans_the_hosts_and_stops_with_a_checkpoint(self) -> None:
        status, valid = self.control.ask(
            "POST", "/runs:validate", {"config": self.config_text(), "profile": "two-hosts", "world_size": 4}
        )
        self.assertEqual(status, 200, valid)
        self.assertIn("hostA:2,hostB:2", valid["command"])
        run = self.submit(
            self.config_text(training_stop_after="100000u", checkpoint_every="0"), profile="two-hosts", world_size=4
        )
        self.wait_update(run, 10)
        self.assertEqual(self.run_item(run)["hosts"], ["hostA", "hostB"])
        self.assertEqual([rank["host"] for rank in self.ranks(run)], HOST_OF)
        self.assertEqual(
            sorted(node["host"] for node in self.control.get("/api/v1/nodes")["items"]), ["hostA", "hostB"]
        )
        self.assertEqual(self.control.ask("POST", f"/runs/{run}/stop", {"grace_s": 60})[0], 202)
        item = self.wait_state(run, "stopped")
        self.assertEqual(self.control.get(f"/api/v1/runs/{run}/checkpoints")["items"][0]["update"], item["update"])

    def test_a_run_that_loses_a_host_goes_on_and_gets_it_back(self) -> None:
        run = self.submit(
            self.config_text(training_stop_after="100000u", checkpoint_every="10u"),
            profile="few-hosts",
            world_size=4,
            max_restarts=3,
        )
        self.wait_update(run, 25)
        away = f"babelring-{self.control.process.pid}-b"
        subprocess.run(["ip", "-n", away, "link", "set", "linkB", "down"], check=True)
        self.wait_hosts(run, 2, ["hostA"])
        subprocess.run(["ip", "-n", away, "link", "set", "linkB", "up"], check=True)
        self.wait_hosts(run, 3, ["hostA", "hostB"])
        wait_for("all ranks", lambda: [rank["host"] for rank in self.ranks(run)] == HOST_OF)
        causes = {step["to"]: step["cause"] for step in self.transitions(run)}
        self.assertIn("hostB", causes["restarting"])
        self.assertEqual(causes["suspended"], "all hosts answer: continues with 4 ranks")
        attempts = self.control.get(f"/api/v1/runs/{run}/attempts")["items"]
        self.assertEqual([attempt["world_size"] for attempt in attempts], [4, 2, 4])
        self.end(run)

    def test_a_rank_killed_on_the_other_host_is_named_and_the_run_continues(self) -> None:
        run = self.submit(self.config_text(training_stop_after="100000u"), profile="two-hosts", world_size=4)
        self.wait_update(run, 25)
        os.kill(self.rank_pids(run)[3], signal.SIGKILL)
        self.assertEqual(self.wait_update(run, 60, attempt=2)["attempt"], 2)
        self.end(run)
        self.assertIn("hostB", self.causes(run)[0])

    def test_a_run_resumes_after_the_daemon_of_the_other_host_is_killed(self) -> None:
        run = self.submit(
            self.config_text(training_stop_after="100000u", checkpoint_every="10u"), profile="two-hosts", world_size=4
        )
        self.wait_update(run, 25)
        pids = self.rank_pids(run).values()
        os.kill(mpirun_daemon(f"babelring-{self.control.process.pid}-b"), signal.SIGKILL)
        wait_ended(pids)
        self.wait_update(run, 25, attempt=2)
        spool = self.folder / "server" / "runs" / run / "spool" / "attempt-2" / "rank-0.jsonl"
        steps = wait_for(
            "updates of the next attempt",
            lambda: spool.exists() and [record for record in spool_records(spool) if record["kind"] == "step"],
        )
        self.end(run)
        self.assertEqual(self.causes(run)[0], "mpirun lost hostB")
        self.assertGreaterEqual(steps[0]["update"], 21)
        # Every tenth update has a checkpoint; Open MPI 5's SIGTERM lets the ranks save another one.
        before = spool_records(spool.parents[1] / "attempt-1" / "rank-0.jsonl")
        saved = [record["update"] for record in before if record["kind"] == "checkpoint"]
        last = steps[0]["update"] - 1
        self.assertTrue(last % 10 == 0 or last in saved, f"update {last} has no checkpoint")


if __name__ == "__main__":
    unittest.main()
