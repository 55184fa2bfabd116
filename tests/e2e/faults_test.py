"""Programs, hosts and files that die, stop or go away."""

import os
import signal
import subprocess
import unittest
from pathlib import Path

from cases import SystemTest
from system import MPIRUN, Server, children, wait_ended, wait_for

STARTS_MPIRUN = Path(__file__).resolve().parents[2] / "deploy/babelring-mpirun"
LONG = ["training.stop_after=1000000u", "checkpoint.every=0"]


def start_script(ranks: int = 2) -> list:
    return [STARTS_MPIRUN, *MPIRUN[1:], "-np", str(ranks)]


class FaultsTest(SystemTest):
    def test_killed_rank_ends_all_with_its_name(self) -> None:
        run = self.start_run(ranks=3, overrides=LONG)
        pids = self.wait_steps(run)
        os.kill(pids[1], signal.SIGKILL)
        self.assertNotEqual(run.wait(), 0)
        wait_ended(pids)
        self.assertRegex(run.text(), r"rank 1\b.*|process rank 1 ")

    def test_a_killed_rank_of_a_run_started_by_hand_leaves_its_last_seconds(self) -> None:
        server = self.server()
        run = self.start_run(server=server.address, overrides=LONG)
        pids = self.wait_steps(run)
        wait_for("the run", lambda: server.get("/api/v1/runs")["items"])
        path = f"/api/v1/runs/{server.first_run()}/ends"
        wait_for("a heartbeat of each rank", lambda: len(self.heard_ranks(server)) == 2)
        os.kill(pids[1], signal.SIGKILL)
        self.assertNotEqual(run.wait(), 0)
        end = wait_for("the last minute", lambda: server.get(path)["items"])[0]
        self.assertEqual(end["attempt"], 1)
        self.assertRegex(end["summary"], r" GB of .* free.*, load .*; rank \d on ")
        self.assertEqual([rank["rank"] for rank in end["ranks"]], [0, 1])
        for rank in end["ranks"]:
            self.assertGreater(rank["resident_bytes"][-1], 1_000_000)
            self.assertEqual(len(rank["seconds"]), len(rank["resident_bytes"]))
        self.assertTrue(any("update" in line["text"] for line in end["log"]), end["log"])

    @staticmethod
    def heard_ranks(server: Server) -> list[dict]:
        """The ranks of which a heartbeat came."""
        ranks = server.get(f"/api/v1/runs/{server.first_run()}/ranks")["items"]
        return [rank for rank in ranks if rank["resident_bytes"]]

    def test_stopped_rank_ends_all_within_the_deadline(self) -> None:
        run = self.start_run(ranks=2, overrides=[*LONG, "communication.deadline_s=10"])
        pids = self.wait_steps(run)
        os.kill(pids[1], signal.SIGSTOP)
        self.assertNotEqual(run.wait(), 0)
        wait_ended(pids)
        message = [line for line in run.text().splitlines() if "error" in line]
        self.assertTrue(any("rank 1" in line and "(collective " in line for line in message), run.text())

    def test_sigterm_saves_and_the_run_resumes(self) -> None:
        for stop in (signal.SIGTERM, signal.SIGINT):
            run = self.start_run(overrides=LONG)
            os.kill(self.wait_steps(run)[0], stop)
            self.assertEqual(run.wait(), 0, run.text())
        updates = [step["update"] for step in self.steps()]
        self.assertEqual(updates, list(range(1, len(updates) + 1)))

    def test_the_script_that_starts_mpirun_lets_ranks_save_after_each_signal(self) -> None:
        for stop in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            run = self.start_run(overrides=LONG, launcher=start_script())
            self.wait_steps(run)
            run.process.send_signal(stop)
            self.assertEqual(run.wait(), 0, run.text())
        updates = [step["update"] for step in self.steps()]
        self.assertEqual(updates, list(range(1, len(updates) + 1)))

    def test_a_second_signal_to_the_script_ends_ranks_that_cannot_save(self) -> None:
        run = self.start_run(overrides=LONG, launcher=start_script())
        self.wait_steps(run)
        ranks = children(*run.pids())
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)
        for _ in range(2):
            run.process.send_signal(signal.SIGTERM)
            wait_for("the script's line", lambda: "a second signal ends them at once" in run.text())
        self.assertNotEqual(run.wait(), 0)
        wait_ended(ranks)

    def test_exit_code_0_of_mpirun_is_no_success_without_the_end_of_training(self) -> None:
        """Open MPI 5 exits 0 when it has lost a host. The mpirun here writes what it is told to run.json."""
        folder = self.folder / "run"
        (self.folder / "bin").mkdir()
        folder.mkdir()
        mpirun = self.folder / "bin/mpirun"
        mpirun.write_text(
            '#!/bin/sh\n[ -z "$SAYS" ] || echo "$SAYS" > "$RUN/run.json"\nenv > "$RUN/environment"\n', encoding="utf-8"
        )
        mpirun.chmod(0o755)

        def ended(says: str, *words: str) -> subprocess.CompletedProcess:
            return subprocess.run(
                [STARTS_MPIRUN, "worker", *(words or ("--run-dir", str(folder)))],
                env={
                    **os.environ,
                    "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                    "SAYS": says,
                    "RUN": str(folder),
                    "OMPI_MCA_plm_rsh_agent": "/bin/agent",
                    "OMPI_MCA_oob_tcp_if_include": "lo",
                    "OMPI_MCA_orte_default_hostfile": "/hosts",
                },
                capture_output=True,
                text=True,
                check=False,
            )

        lost = ended('{"run":"r_1","attempt":1,"host":"a"}')
        self.assertEqual(lost.returncode, 1)
        self.assertIn(f"rank 0 did not say in {folder}/run.json that training ended", lost.stderr)
        finished = ended('{"run":"r_1","attempt":1,"host":"a","end":"finished","detail":"done"}')
        self.assertEqual((finished.returncode, finished.stderr), (0, ""))
        self.assertEqual(ended("", f"--run-dir={folder}").returncode, 1, "no attempt began")
        self.assertEqual(ended("", "--config", "x").returncode, 0, "without a folder there is nothing to ask")
        variables = (folder / "environment").read_text(encoding="utf-8").splitlines()
        for twin in ("plm_ssh_agent=/bin/agent", "oob_tcp_if_include=lo", "prte_default_hostfile=/hosts"):
            self.assertIn(f"PRTE_MCA_{twin}", variables)

    def masks(self, pid: int) -> list[tuple[int, int]]:
        """Blocked and handled signals of each thread."""
        found = []
        for task in Path(f"/proc/{pid}/task").iterdir():
            fields = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            found.append((int(fields["SigBlk"], 16), int(fields["SigCgt"], 16)))
        return found

    def test_signals_save_and_run_no_handler_in_computing_threads(self) -> None:
        ours = sum(1 << (number - 1) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1))
        for stop, held_by_mpirun in ((signal.SIGTERM, set()), (signal.SIGUSR1, {signal.SIGUSR1})):
            before = signal.pthread_sigmask(signal.SIG_BLOCK, held_by_mpirun)  # which mpirun inherits
            run = self.start_run(overrides=[*LONG, "training.threads=2"])
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            pids = self.wait_steps(run)
            for pid in pids:
                threads = self.masks(pid)
                self.assertGreater(len(threads), 3, "main, OpenMP, MPI, the one that takes signals")
                self.assertEqual(
                    [caught & ours for _, caught in threads if caught & ours], [], "a handler is installed"
                )
                # The rank that waits for them holds none back meanwhile, every other rank all three.
                self.assertEqual(sorted({held & ours for held, _ in threads}), [0, ours])
                self.assertEqual(len([held for held, _ in threads if held & ours == 0]), 1)
            os.kill(pids[1], stop)
            self.assertEqual(run.wait(), 0, run.text())
            newest = int(self.checkpoints()[-1].split("-")[1])
            self.assertEqual(newest, self.steps()[-1]["update"], "it was saved where it stopped")

    def test_a_killed_server_misses_and_doubles_nothing(self) -> None:
        server = self.server()
        run = self.start_run(server=server.address, overrides=LONG)
        self.wait_steps(run, 50)
        run_id = server.first_run()
        server.kill()
        before = len(self.steps())
        self.wait_steps(run, 100)  # trains on without it
        server.start()
        wait_for("what was trained meanwhile", lambda: server.get(f"/api/v1/runs/{run_id}")["update"] > before)
        os.kill(run.rank_pids()[0], signal.SIGTERM)
        self.assertEqual(run.wait(), 0, run.text())
        trained = len(self.steps())
        for rank in (0, 1):
            self.assertEqual(server.series(run_id, "nll", rank), list(range(1, trained + 1)))

    def test_training_without_its_server_sends_everything_later(self) -> None:
        server = self.server()
        server.kill()
        self.finish_run(server=server.address, overrides=["training.stop_after=30u"])
        server.start()
        self.finish_run(server=server.address, overrides=["training.stop_after=40u"])
        self.assertEqual(server.series(server.first_run(), "loss", 1), list(range(1, 41)))

    def test_refused_token_keeps_the_records_until_a_good_one_comes(self) -> None:
        server = self.server()
        wrong = self.folder / "wrong.token"
        wrong.write_text("bbr_wrong\n", encoding="utf-8")
        run = self.finish_run(server=server.address, overrides=["training.stop_after=10u"], token_file=wrong)
        # Once for the host. At the end a rank that it served may have tried by itself.
        self.assertIn(run.text().count("answered 401"), (1, 2), run.text())
        self.assertIn("--token-file FILE", run.text())
        self.assertEqual(server.get("/api/v1/runs")["items"], [])
        self.finish_run(server=server.address, overrides=["training.stop_after=20u"])
        for rank in (0, 1):
            self.assertEqual(server.series(server.first_run(), "loss", rank), list(range(1, 21)))


if __name__ == "__main__":
    unittest.main()
