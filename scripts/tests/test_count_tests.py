"""Tests of scripts/lib/count_tests.py: the figures that end test.sh."""

from __future__ import annotations

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import count_tests  # noqa: E402


class Counting(unittest.TestCase):
    def test_a_program_counts_as_its_cases(self) -> None:
        output = "[==========] 7 tests ran.\n[  PASSED  ] 6 tests.\n[  SKIPPED ] 1 test, listed below:\n"
        self.assertEqual(count_tests.junit_case("run", output), (6, 0, 1))

    def test_ranks_that_print_the_same_summary_count_once(self) -> None:
        self.assertEqual(count_tests.junit_case("run", "[  PASSED  ] 5 tests.\n" * 4), (5, 0, 0))

    def test_a_crash_counts_as_a_failure_and_a_script_as_one_case(self) -> None:
        self.assertEqual(count_tests.junit_case("fail", "Segmentation fault"), (0, 1, 0))
        self.assertEqual(
            count_tests.junit_case("fail", "[  PASSED  ] 5 tests.\n[  FAILED  ] 2 tests, listed below:"), (5, 2, 0)
        )
        self.assertEqual(count_tests.junit_case("run", "fine"), (1, 0, 0))
        self.assertEqual(count_tests.junit_case("notrun", ""), (0, 0, 1))

    def test_a_unittest_script_under_ctest_counts_as_its_cases(self) -> None:
        self.assertEqual(count_tests.junit_case("run", "....\nRan 4 tests in 9s\n\nOK (skipped=1)\n"), (3, 0, 1))
        self.assertEqual(count_tests.junit_case("fail", "F\nRan 4 tests in 9s\n\nFAILED (errors=2)\n"), (2, 2, 0))

    def test_junit_files_of_others_say_it_by_children(self) -> None:
        text = "<testsuites><testsuite><testcase/><testcase><failure/></testcase><testcase><skipped/></testcase></testsuite></testsuites>"
        self.assertEqual(count_tests.junit_counts(text), (1, 1, 1))

    def test_a_junit_file_is_the_sum_of_its_entries(self) -> None:
        text = """<testsuite><testcase status="run"><system-out>[  PASSED  ] 3 tests.</system-out></testcase>
            <testcase status="fail"><system-out>[  FAILED  ] 2 tests</system-out></testcase></testsuite>"""
        self.assertEqual(count_tests.junit_counts(text), (3, 2, 0))

    def test_only_failed_cases_are_printed(self) -> None:
        text = """<testsuite><testcase name="base" status="run"><system-out>fine</system-out></testcase>
            <testcase name="pool" status="fail"><system-out>[ RUN      ] Pool.One\n[       OK ] Pool.One (1 ms)
[ RUN      ] Pool.Two\npool_test.cc:7: Failure\n[  FAILED  ] Pool.Two (3 ms)\n[  FAILED  ] 1 test, listed below:</system-out></testcase>
            <testcase name="script" status="fail"><system-out>no such file</system-out></testcase>
            <testcase name="page"><failure>expected 3</failure></testcase></testsuite>"""
        self.assertEqual(
            count_tests.failures(text),
            [
                "failed: pool",
                "[ RUN      ] Pool.Two",
                "pool_test.cc:7: Failure",
                "[  FAILED  ] Pool.Two (3 ms)",
                "failed: script",
                "no such file",
                "failed: page",
                "expected 3",
            ],
        )

    def test_a_unittest_log_is_read(self) -> None:
        self.assertEqual(count_tests.unittest_counts("...\nRan 30 tests in 3.2s\n\nOK (skipped=1)\n"), (29, 0, 1))
        self.assertEqual(
            count_tests.unittest_counts("F\nRan 4 tests in 1s\n\nFAILED (failures=1, errors=2)\n"), (1, 3, 0)
        )

    def stage(self, status: int, log: str = "", **files: str) -> tuple[tuple[int, int, int], str]:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for ending, text in {"log": log, **files}.items():
                (folder / f"system.{ending}").write_text(text, encoding="utf-8")
            return count_tests.stage_result(folder, "system", status)

    def test_a_stage_without_counted_tests_is_one_test(self) -> None:
        self.assertEqual(self.stage(0), ((1, 0, 0), "passed"))
        self.assertEqual(self.stage(2), ((0, 1, 0), "FAILED"))
        self.assertEqual(self.stage(77, "a line\nskipped: no node\n"), ((0, 0, 1), "skipped: no node"))

    def test_a_stage_has_the_counts_of_its_files(self) -> None:
        ran = "Ran 4 tests in 1s\n\n"
        self.assertEqual(
            self.stage(0, **{"a.tests": ran + "OK", "b.tests": ran + "OK (skipped=1)"}),
            ((7, 0, 1), "7 passed, 0 failed, 1 skipped"),
        )
        passing = '<testsuite><testcase name="pool" status="run"/></testsuite>'
        self.assertEqual(
            self.stage(1, xml=passing), ((1, 1, 0), "1 passed, 1 failed, 0 skipped"), "its exit code counts"
        )


if __name__ == "__main__":
    unittest.main()
