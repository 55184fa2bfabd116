"""Runs whose ranks wait instead of computing, beside a real one: records, service, refusals."""

import json
import unittest

from cases import SystemTest
from system import call, wait_for

FEW = [
    "training.stop_after=12u",
    "training.log_every=4u",
    "checkpoint.every=4u",
    "validation.every=4u",
    "communication.all_reduce=ring",
]


class EmulationTest(SystemTest):
    def setUp(self) -> None:
        super().setUp()
        self.record = self.folder / "rank.json"
        call("nmt", "emulate", "record", "--config", self.config, "--output", self.record, "--updates", 3, check=True)
        self.emulated = [*FEW, "training.device=emulated", f"lab.emulated.record={self.record}"]

    def test_an_emulated_run_reports_all_but_computed_values(self) -> None:
        server = self.server()
        run = self.finish_run(server=server.address, overrides=self.emulated)
        self.assertIn("update 12 (epoch", run.text())
        self.assertIn("emulated, ", run.text())
        self.finish_run("real", overrides=FEW)
        for rank in range(2):
            for step, other in zip(self.records("run", "step", rank), self.records("real", "step", rank), strict=True):
                for key in ("target_tokens", "communication_bytes", "flops"):
                    self.assertEqual(step[key], other[key])
                self.assertEqual([step[key] for key in ("loss", "nll", "gradient_norm")], [None] * 3)
            self.assertEqual(self.records("run", "lifecycle", rank)[-1 if rank else 1]["device"], "emulated")
        for kind in ("eval", "checkpoint"):
            self.assertEqual(self.records("run", kind), [])
            self.assertNotEqual(self.records("real", kind), [])
        shown = wait_for(
            "the end of the run",
            lambda: next((item for item in server.get("/api/v1/runs")["items"] if item["state"] == "succeeded"), None),
        )
        self.assertTrue(shown["emulated"])
        self.assertIsNone(shown["loss"])
        self.assertNotEqual(shown["health"]["level"], "bad", shown["health"])

    def test_a_balloon_has_the_memory_of_a_real_run(self) -> None:
        run = self.start_run(overrides=[*self.emulated, "lab.emulated.balloon=true"])
        if run.wait() == 2 and "cannot be locked" in run.text():
            self.skipTest("the limit on locked memory is too low here")
        self.finish_run("real", overrides=FEW)
        balloon, trained = (self.records(name, "step")[-1]["memory_bytes"] for name in ("run", "real"))
        self.assertEqual(balloon["weights"], trained["weights"])
        self.assertGreater(balloon["process"], 0.6 * trained["process"])

    def test_updates_far_outside_of_the_recorded_sizes_are_warned_of(self) -> None:
        run = self.finish_run(overrides=[*self.emulated, "data.tokens_per_update=4000"])
        self.assertRegex(run.text(), r"lab.emulated.record: size 2000 is 2\.\d times the largest recorded one")

    def test_wrong_records_are_explained(self) -> None:
        def refusal(*overrides: str) -> str:
            run = self.finish_run(overrides=[*self.emulated, *overrides], code=2)
            return run.text()

        self.assertIn("lab.emulated.record: missing", refusal("lab.emulated.record="))
        self.assertIn("lab.emulated.record: ", refusal("lab.emulated.record=nowhere.json"))
        self.assertIn("the record is of a model with ", refusal("model.width=32"))
        other = self.folder / "other.json"
        other.write_text(json.dumps(json.loads(self.record.read_text()) | {"format": "babelring-rank-record-9"}))
        self.assertIn("babelring-rank-record-9", refusal(f"lab.emulated.record={other}"))
        table = ["--compute-ms", "60", "--size", "200", "--parameters", "1000", "--output", other]
        call("nmt", "emulate", "record", *table, check=True)
        self.assertIn("found no times of ops", refusal(f"lab.emulated.record={other}"))


if __name__ == "__main__":
    unittest.main()
