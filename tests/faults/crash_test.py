"""F3: the server is killed while ranks report, at random moments and at the points around its commit, with a database that
is large already. Ranks and readers of the event stream continue with the next server."""

import hashlib
import random
import time
import unittest

from reporters import LONG, SEED, FaultTest, Follower, OpenServer, grow_database, records_path, run_id

from cases import SystemTest
from system import show_figures, wait_for

FAILPOINTS = ["applied", "committed", "acknowledged"]
MEGABYTES = 1000 if LONG else 80  # over 64 MiB the database is checked while the server works


class CrashTest(FaultTest):
    def setUp(self) -> None:
        super().setUp()
        self.bytes = grow_database(self.folder / "server", MEGABYTES)

    def rounds(self, count: int, environment, fault: str) -> None:
        """Kills and restarts the server `count` times; the reporters and the follower continue meanwhile."""
        rng = random.Random(SEED)
        server = self.server()
        reporters = self.report(server)
        follower = Follower(server, reporters[0].run_id, len(reporters))
        self.addCleanup(follower.stopping.set)
        follower.start()
        wait_for("the follower to have an event", lambda: follower.last_id)
        ready, temporary = [], 0
        for _ in range(count):
            wanted = environment(rng)
            if wanted:  # with a failpoint it must begin anew to know it
                server.kill()
                server.start(wait=False, **wanted)
                server.process.wait(120)
            else:
                time.sleep(rng.uniform(0.05, 0.6))
                server.kill()
            began = time.monotonic()
            server.start()
            wait_for("readiness", lambda: server.request("GET", "/readyz")[0] == 200)
            ready.append(time.monotonic() - began)
        wait_for("many points", lambda: sum(len(r.acknowledged) for r in reporters) > 100)
        self.end(reporters)
        points = self.check_history(server, reporters)
        acknowledged = {(r.rank, update) for r in reporters for update in r.acknowledged}
        wait_for("the follower to have seen everything", lambda: acknowledged <= follower.seen)
        wait_for("the follower to be told that the stream began anew", lambda: follower.resets)
        self.assertEqual(server.stop(), 0)
        follower.stopping.set()
        temporary = len([path for path in server.folder.iterdir() if ".tmp" in path.name or path.name.endswith("-wal")])
        self.assertEqual(temporary, 0)
        show_figures(
            fault,
            rounds=count,
            database_mb=self.bytes / 1e6,
            acknowledged_points=points,
            lost=0,
            twice=0,
            resent_and_dropped=sum(r.duplicates for r in reporters),
            ready_s_max=max(ready),
            ready_s_median=sorted(ready)[len(ready) // 2],
            stream_resets=follower.resets,
            stream_missing=0,
            leaked_files=temporary,
        )

    def test_killed_at_random_moments(self) -> None:
        self.rounds(70 if LONG else 4, lambda rng: {}, "F3 random")

    def test_killed_around_the_commit(self) -> None:
        self.rounds(
            30 if LONG else 6,
            lambda rng: {"BABELRING_FAILPOINT": f"{rng.choice(FAILPOINTS)}@{rng.randint(1, 40)}"},
            "F3 failpoints",
        )


class UnfinishedChangeTest(FaultTest):
    """Killed between a request's change of the database and its change on disk."""

    def checkpoint(self, server, update: int) -> str:
        """Makes one as a worker leaves it, and reports it. Its path of the API."""
        folder = server.folder / "run" / "checkpoints" / f"update-{update:08}"
        folder.mkdir(parents=True)
        texts = {"weights.safetensors": "w" * 1000, "config.yaml": "seed: 1\n", "state.json": "{}"}
        files = []
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
            files.append({"name": name, "size": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()})
        (folder / "SHA256SUMS").write_text(
            "".join(f"{file['sha256']}  {file['name']}\n" for file in files), encoding="utf-8"
        )
        record = {"sequence": update, "kind": "checkpoint", "time_ms": 1795233600000, "update": update, "files": files}
        record |= {"name": folder.name, "folder": str(folder.resolve())}
        body = {"attempt": 1, "rank": 0, "host": "h", "records": [record]}
        self.assertEqual(server.request("POST", records_path(), body)[0], 200)
        listed = server.get(f"/api/v1/runs/{run_id(1)}/checkpoints")["items"]
        return "/api/v1/checkpoints/" + next(item["id"] for item in listed if item["update"] == update)

    def test_the_next_server_finishes_a_change_of_a_killed_one(self) -> None:
        server = self.server()
        paths = {update: self.checkpoint(server, update) for update in (10, 20, 30, 40)}
        server.stop()
        points = (
            ("removal_begun", "DELETE", 10, ""),
            ("removal_renamed", "DELETE", 20, ""),
            ("pin_marked", "PUT", 30, "/pin"),
        )
        for failpoint, method, update, more in points:
            server.start(BABELRING_FAILPOINT=f"{failpoint}@1")
            self.assertEqual(server.request(method, paths[update] + more), (0, None))
            server.process.wait(120)
            server.start()
            done = "pinned" if more else "removed"
            wait_for(f"{failpoint} to be mended", lambda: server.get(paths[update])[done])
            folder = server.folder / "run" / "checkpoints" / f"update-{update:08}"
            wait_for("the folder's end", lambda: folder.exists() == bool(more))
            rows = [row for row in server.get("/api/v1/audit")["items"] if row["object"] == paths[update] + more]
            self.assertEqual([(row["method"], row["status"]) for row in rows], [(method, 204)])
            server.stop()
        self.assertEqual(
            sorted(path.name for path in (server.folder / "run" / "checkpoints").iterdir()),
            ["update-00000030", "update-00000040"],
        )
        show_figures("F3 between database and disk", points=len(points), unfinished=0)


class SpoolTest(SystemTest):
    def test_training_continues_without_its_server_and_the_spool_is_drained(self) -> None:
        folder = self.folder / "data"
        grow_database(folder, MEGABYTES)
        server = OpenServer(folder)
        self.addCleanup(server.end)
        server.start()
        run = self.start_run(server=server.address, overrides=["training.stop_after=1000000u", "checkpoint.every=0"])
        listed = wait_for("the run", lambda: server.get("/api/v1/runs?state=running")["items"])
        path = f"/api/v1/runs/{listed[0]['id']}/ranks"
        spools = [self.folder / "run" / "spool" / "attempt-1" / f"rank-{rank}.jsonl" for rank in (0, 1)]
        lines = lambda: [spool.read_bytes().count(b"\n") for spool in spools]  # noqa: E731
        wait_for(
            "records of both ranks", lambda: [r["records"] > 20 for r in server.get(path)["items"]] == [True, True]
        )
        server.kill()
        before = lines()
        run.wait_for("training to go on", lambda: min(lines()) > max(before) + (300 if LONG else 30))
        waiting = lines()
        server.start()
        ready = time.monotonic()
        wait_for("the spool's end", lambda: all(r["records"] >= waiting[r["rank"]] for r in server.get(path)["items"]))
        drained = time.monotonic() - ready
        rows = server.get(path)["items"]
        self.assertEqual([row["missing"] for row in rows], [0, 0])
        show_figures("F3 spool", records_waiting=sum(waiting) - sum(before), drained_s=drained, lost=0)


if __name__ == "__main__":
    unittest.main()
