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

from control import ControlServer, ControlTest
from system import BIN, is_running, spool_records, wait_for
from two_host_system import daemon_in

SCRIPT = Path(__file__).resolve().parents[1] / "mpi" / "two_hosts.sh"
HOSTS = ["hostA", "hostA", "hostB", "hostB"]  # by rank


class HostServer(ControlServer):
    """A `server` on hostA, asked by curl on that host."""

    def start(self) -> None:
        agent, profiles = self.folder.parent / "agent", self.folder.parent / "profiles.yaml"
        two_hosts = f"""
  launcher: mpirun
  hosts: ["hostA:2", "hostB:2"]
  max_ranks: 4
  server: "http://hostA:8080"
  environment: ["OMPI_MCA_plm_rsh_agent={agent}", "OMPI_MCA_oob_tcp_if_include=10.77.0.0/24",
                "OMPI_MCA_btl_tcp_if_include=10.77.0.0/24"]
"""
        settings = {
            "two-hosts": "  heartbeat_timeout_s: 120\n  cool_down_s: 0\n",
            "few-hosts": "  heartbeat_timeout_s: 10\n  cool_down_s: 5\n  minimum_ranks: 2\n",
        }
        text = "".join(f"{name}:{two_hosts}{more}" for name, more in settings.items())
        profiles.write_text(text, encoding="utf-8")
        command = [
            SCRIPT,
            "--agent",
            agent,
            "--",
            BIN / "server",
            "--listen",
            "10.77.0.1:8080",
            "--insecure",
            "--allow-host",
            "hostA",
            "--data",
            self.folder,
            "--checkpoint-root",
            self.checkpoints,
            "--profiles",
            profiles,
        ]
        with open(self.folder.parent / "server.log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        assert "listening on" in line, f"server said: {line!r}"

    def kill(self) -> None:
        """The script removes the hosts and ends everything that runs on them."""
        self.process.terminate()
        self.process.wait(120)
        self.process.stdout.close()

    def ask(self, method: str, path: str, body: Any = None, key: str = "") -> tuple[int, Any]:
        token = (self.folder / "admin.token").read_text(encoding="utf-8").strip()
        command = [
            "ip",
            "netns",
            "exec",
            f"babelring-{self.process.pid}-a",
            "curl",
            "-s",
            "--max-time",
            "60",
            "-X",
            method,
            "-w",
            "\n%{http_code}",
            "-H",
            f"Authorization: Bearer {token}",
            "-H",
            "Content-Type: application/json",
        ]
        if body is not None or method == "POST":
            command += ["--data-binary", json.dumps(body or {})]
        text = subprocess.run([*command, f"http://10.77.0.1:8080/api/v1{path}"], capture_output=True, text=True).stdout
        answer, _, status = text.rpartition("\n")
        return int(status), json.loads(answer)

    def get(self, path: str) -> Any:
        status, answer = self.ask("GET", path.removeprefix("/api/v1"))
        assert status == 200, answer
        return answer


class HostProfileTest(ControlTest):
    @classmethod
    def setUpClass(cls) -> None:
        for program in ("mpirun", "curl"):
            if shutil.which(program) is None:
                raise unittest.SkipTest(f"{program} is not installed")
        tried = subprocess.run([SCRIPT, "--", "true"], capture_output=True, text=True)
        if tried.returncode == 77:
            raise unittest.SkipTest(tried.stderr.strip())
        super().setUpClass()

    def setUp(self) -> None:
        super(ControlTest, self).setUp()
        self.control = HostServer(self.folder / "server", self.folder)
        self.addCleanup(self.end_everything)

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
        self.assertEqual([rank["host"] for rank in self.ranks(run)], HOSTS)
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
        wait_for("all ranks", lambda: [rank["host"] for rank in self.ranks(run)] == HOSTS)
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
        cause = next(step["cause"] for step in self.transitions(run) if step["to"] == "restarting")
        self.assertIn("hostB", cause)

    def test_a_killed_daemon_of_the_other_host_is_named_and_the_run_goes_on_from_its_checkpoint(self) -> None:
        run = self.submit(
            self.config_text(training_stop_after="100000u", checkpoint_every="10u"), profile="two-hosts", world_size=4
        )
        self.wait_update(run, 25)
        pids = self.rank_pids(run).values()
        os.kill(daemon_in(f"babelring-{self.control.process.pid}-b"), signal.SIGKILL)
        wait_for("end of all ranks", lambda: not any(map(is_running, pids)))
        self.wait_update(run, 25, attempt=2)
        spool = self.folder / "server" / "runs" / run / "spool" / "attempt-2" / "rank-0.jsonl"
        steps = wait_for(
            "updates of the next attempt",
            lambda: spool.exists() and [record for record in spool_records(spool) if record["kind"] == "step"],
        )
        self.end(run)
        cause = next(step["cause"] for step in self.transitions(run) if step["to"] == "restarting")
        self.assertEqual(cause, "mpirun lost hostB")
        self.assertGreaterEqual(steps[0]["update"], 21)
        # Every tenth update has a checkpoint; Open MPI 5's SIGTERM lets the ranks save another one.
        before = spool_records(spool.parents[1] / "attempt-1" / "rank-0.jsonl")
        saved = [record["update"] for record in before if record["kind"] == "checkpoint"]
        last = steps[0]["update"] - 1
        self.assertTrue(last % 10 == 0 or last in saved, f"update {last} has no checkpoint")


if __name__ == "__main__":
    unittest.main()
