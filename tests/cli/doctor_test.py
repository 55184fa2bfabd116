"""`nmt doctor` as a program, on this machine as it is."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from system import AS_ROOT, BIN, call  # noqa: E402


class StandIn(http.server.BaseHTTPRequestHandler):
    """A server with one valid token and a clock that may be wrong."""

    date = ""

    def do_GET(self) -> None:  # noqa: N802
        """Like ours: readiness for everybody, runs for those who have the token."""
        allowed = self.path == "/readyz" or self.headers.get("Authorization") == "Bearer good"
        body = b'{"items": []}' if allowed else b'{"title": "Unauthorized", "status": 401, "detail": "no token"}'
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The Date header."""
        return self.date or super().date_time_string(timestamp)

    def log_message(self, *_: object) -> None:
        """Nothing on the console."""


def doctor(*arguments: str) -> tuple[int, list[dict[str, str]]]:
    """Exit code and findings."""
    done = call("nmt", "doctor", "--json", *arguments)
    return done.returncode, json.loads(done.stdout)["findings"]


class Doctor(unittest.TestCase):
    """Its report on the machine that runs the test."""

    def test_looks_at_everything(self) -> None:
        """Every area is there, this machine can run MPI, and text and exit code agree with the findings."""
        with tempfile.TemporaryDirectory() as folder:
            code, findings = doctor("--runs", folder, "--hosts", "127.0.0.1")
        areas = {finding["area"] for finding in findings}
        self.assertLessEqual({"processor", "memory", "libraries", "mpi", "network", "gpu", "storage"}, areas)
        self.assertEqual([one["verdict"] for one in findings if one["area"] == "mpi"], ["ok"], findings)
        self.assertEqual(code, 1 if any(one["verdict"] == "fail" for one in findings) else 0)
        self.assertTrue(any("127.0.0.1" in one["text"] and "lo" in one["text"] for one in findings), findings)

    def test_runs_under_mpirun(self) -> None:
        """As the only rank of a job, whose variables its trial of MPI must not inherit."""
        command = ["mpirun", "-np", "1", BIN / "nmt", "doctor", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | AS_ROOT)
        findings = json.loads(done.stdout)["findings"]
        self.assertEqual([one["verdict"] for one in findings if one["area"] == "mpi"], ["ok"], findings)

    def test_fails_where_something_does_not_work(self) -> None:
        """An unknown host is named, with a remedy."""
        done = call("nmt", "doctor", "--hosts", "no.such.host.invalid")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no.such.host.invalid: unknown host name", done.stdout)
        self.assertIn("-> add it to DNS", done.stdout)
        self.assertRegex(done.stderr, r"^nmt: doctor: \d+ of \d+ checks failed\n$")

    def test_compares_hosts(self) -> None:
        """By a remote shell that knows three hosts: this one, one with other programs, and one whose processor is older."""
        with tempfile.TemporaryDirectory() as folder:
            shell = Path(folder) / "shell"
            shell.write_text(
                f"""#!/bin/sh
host=$2; shift 2
case $host in
  localhost) eval exec "$@" ;;
  127.0.0.1) eval "$@" | sed 's/"worker":"[^"]*"/"worker":"0.0.1 build 012345678901"/' ;;
  *) echo "nmt: error: the processor of $host lacks avx512f" >&2; exit 1 ;;
esac
""",
                encoding="utf-8",
            )
            shell.chmod(0o755)
            code, findings = doctor(
                "--runs", folder, "--hosts", "localhost,127.0.0.1,127.0.0.2", "--remote-shell", f"{shell} -x"
            )
        hosts = [(one["verdict"], one["text"]) for one in findings if one["area"] == "hosts"]
        self.assertEqual(code, 1)
        self.assertEqual([verdict for verdict, _ in hosts], ["ok", "fail", "warn"], hosts)
        self.assertRegex(hosts[1][1], r"^127.0.0.1: worker 0.0.1 build 012345678901, here [0-9.]+ build [0-9a-f]{12}$")
        self.assertIn(
            "127.0.0.2 could not be compared: nmt: error: the processor of 127.0.0.2 lacks avx512f", hosts[2][1]
        )

    def test_tries_the_server(self) -> None:
        """Token and clock; an address without a listener."""
        server = http.server.HTTPServer(("127.0.0.1", 0), StandIn)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        with tempfile.TemporaryDirectory() as folder:
            token = Path(folder) / "token"
            token.write_text("good\n", encoding="utf-8")
            verdicts = [
                one["verdict"]
                for one in doctor("--server", address, "--token-file", str(token))[1]
                if one["area"] == "server"
            ]
            self.assertEqual(verdicts, ["ok", "ok", "ok"])
            token.write_text("bad\n", encoding="utf-8")
            StandIn.date = "Sun, 06 Nov 1994 08:49:37 GMT"
            code, findings = doctor("--server", address, "--token-file", str(token))
        mine = [one for one in findings if one["area"] == "server"]
        self.assertEqual((code, [one["verdict"] for one in mine]), (1, ["ok", "fail", "warn"]))
        self.assertIn("401", mine[1]["text"])
        self.assertIn("behind the local clock", mine[2]["text"])
        mine = [one for one in doctor("--server", address.replace("http:", "https:"))[1] if one["area"] == "server"]
        self.assertEqual(mine[0]["advice"], f"the server speaks HTTP without TLS there: use {address}")
        server.shutdown()
        server.server_close()
        code, findings = doctor("--server", address)
        self.assertEqual((code, [one["verdict"] for one in findings if one["area"] == "server"]), (1, ["fail"]))


if __name__ == "__main__":
    unittest.main()
