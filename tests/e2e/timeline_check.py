"""Checks that every timeline of a run must pass."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import unittest
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

from system import call

ROUNDING_US = 0.002  # times have three decimals


def read_timeline(file: Path) -> dict[str, Any]:
    """Reads the first gzip member, as speedscope and browsers do, which refuse a second."""
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    text = reader.decompress(file.read_bytes())
    if not reader.eof or reader.unused_data:
        raise AssertionError(f"{file}: found {len(reader.unused_data)} bytes after the first gzip member")
    return json.loads(text)


def slices(trace: dict[str, Any], category: str) -> dict[int, list[dict[str, Any]]]:
    """By rank, in the order of their beginnings."""
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X" and event["cat"] == category:
            found[event["pid"]].append(event)
    return {rank: sorted(events, key=lambda event: event["ts"]) for rank, events in found.items()}


def within(event: dict[str, Any], outer: dict[str, Any]) -> bool:
    return (
        event["ts"] >= outer["ts"] - ROUNDING_US
        and event["ts"] + event["dur"] <= outer["ts"] + outer["dur"] + ROUNDING_US
    )


class TimelineCheck:
    def __init__(self, test: unittest.TestCase, file: Path, hosts: list[str]) -> None:
        self.test, self.file, self.hosts = test, file, hosts
        self.trace = read_timeline(file)

    def all(self) -> None:
        self.header()
        self.events_nest()
        self.phases_agree_with_records()
        self.buckets_are_on_every_rank()
        self.summary_adds_up()
        self.perfetto_reads_it()

    def header(self) -> None:
        head = self.trace["otherData"]
        self.test.assertEqual(head["format"], "babelring-trace-1")
        self.test.assertEqual([rank["host"] for rank in head["ranks"]], self.hosts)
        for rank in head["ranks"]:  # all hosts of a test are one machine with one clock
            self.test.assertLessEqual(abs(rank["clock_ahead_us"]), rank["clock_error_us"] + ROUNDING_US)

    def events_nest(self) -> None:
        threads = defaultdict(list)
        for event in self.trace["traceEvents"]:
            if event["ph"] == "X":
                threads[event["pid"], event["tid"]].append(event)
        for events in threads.values():
            open_events: list[dict[str, Any]] = []
            for event in sorted(events, key=lambda one: (one["ts"], -one["dur"])):
                while open_events and open_events[-1]["ts"] + open_events[-1]["dur"] <= event["ts"] + ROUNDING_US:
                    open_events.pop()
                if open_events:
                    self.test.assertTrue(within(event, open_events[-1]), (event, open_events[-1]))
                open_events.append(event)

    def phases_agree_with_records(self) -> None:
        """In the median: a stall between two looks at the clock spoils one update."""
        phases = slices(self.trace, "phase")
        totals, exposures = [], []
        for rank, updates in slices(self.trace, "update").items():
            self.test.assertEqual(len(updates), self.trace["otherData"]["updates"])
            for update in updates:
                parts = [phase for phase in phases[rank] if within(phase, update)]
                record = update["args"]
                total = sum(part["dur"] for part in parts) / 1e3
                totals.append(abs(total - record["step_ms"]) / record["step_ms"])
                exposed = sum(part["dur"] for part in parts if part["name"] == "communication") / 1e3
                expected = record["exposed_communication_ms"]
                exposures.append(abs(exposed - expected) / max(1, 0.05 * expected))
        self.test.assertLess(statistics.median(totals), 0.02)
        self.test.assertLess(statistics.median(exposures), 1)

    def buckets_are_on_every_rank(self) -> None:
        buckets = {
            rank: [(event["args"]["number"], event["args"]["bytes"]) for event in events if event["args"]["bytes"] > 0]
            for rank, events in slices(self.trace, "collective").items()
        }
        self.test.assertEqual(sorted(buckets), list(range(len(self.hosts))))
        for own in buckets.values():
            self.test.assertEqual(len(set(own)), len(own))
            self.test.assertEqual(sorted(own), sorted(buckets[0]))
        self.test.assertGreater(len(buckets[0]), 0)
        arrows = defaultdict(list)
        for event in self.trace["traceEvents"]:
            if event["ph"] in "sf":
                arrows[event["id"]].append(event["ph"])
        for ends in arrows.values():
            self.test.assertEqual(sorted(ends), ["f", "s"])
        self.test.assertTrue(any("-to-" in arrow for arrow in arrows))

    def summary_adds_up(self) -> None:
        shown = call("nmt", "trace", "timeline", "--json", self.file, check=True)
        summary = json.loads(shown.stdout)
        for rank in summary["ranks"]:
            parts = ("compute_ms", "exposed_communication_ms", "data_ms", "other_ms")
            self.test.assertAlmostEqual(sum(rank[part] for part in parts), rank["total_ms"], places=3)
            self.test.assertGreater(rank["compute_ms"], 0)
        self.test.assertEqual(len(summary["ops"]), 10)
        self.test.assertEqual(len(summary["waiting"]), self.trace["otherData"]["updates"])

    def perfetto_reads_it(self) -> None:
        shell = shutil.which("trace_processor_shell") or shutil.which("trace_processor")
        if shell is None:
            return
        query = "select count(*) from slice"
        shown = subprocess.run([shell, "-Q", query, self.file], capture_output=True, text=True, check=True)
        expected = sum(event["ph"] == "X" for event in self.trace["traceEvents"])
        self.test.assertIn(str(expected), shown.stdout)
