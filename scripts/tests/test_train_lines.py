"""Tests of scripts/lib/train_lines.py: bars and lines of training, as they come in pieces."""

from __future__ import annotations

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import train_lines  # noqa: E402

BAR = "[###.......]  30 %  update 12  loss 4.5  2 min left"
LINES = [
    "mpirun says something",
    "2026-11-22 09:00:00.123 [rank 0] info: update 50 (epoch 0.10): loss 4.2",
    "2026-11-22 09:00:01.123 [rank 1] warning: slow",
    "2026-11-22 09:00:02.123 info: validation on valid after update 1,500: loss 2.9012, perplexity 9.00, accuracy 60.0 %, "
    "teacher-forced BLEU 30.00, sacreBLEU 24.70, chrF2 50.00 (1.0 s)",
]


class TrainLines(unittest.TestCase):
    def shown(self, text: str, terminal: bool, size: int) -> tuple[str, str]:
        """The shown lines and the log of a text that arrives in blocks of `size` bytes."""
        data = text.encode()
        out = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out):
            log = pathlib.Path(folder) / "log"
            train_lines.show(iter([data[i : i + size] for i in range(0, len(data), size)]), str(log), terminal)
            return out.getvalue(), log.read_text()

    def test_without_a_terminal_lines_pass_and_bars_do_not(self) -> None:
        text = f"{LINES[0]}\n\r\x1b[K{BAR}\r\x1b[K{BAR}\r\x1b[K{LINES[1]}\n\n{LINES[2]}\n\r\x1b[K{BAR}\r\x1b[K"
        for size in (1, 7, 10000):
            plain = f"{LINES[0]}\n{LINES[1]}\n\n{LINES[2]}\n"
            self.assertEqual(self.shown(text, False, size), (plain, plain), size)

    def test_a_terminal_gets_bars_and_warnings(self) -> None:
        for size in (3, 10000):
            shown, log = self.shown(f"\r\x1b[K{BAR}\r\x1b[K" + "".join(f"{line}\n" for line in LINES), True, size)
            self.assertIn(f"\r\x1b[K  {BAR}", shown)
            self.assertIn("  mpirun says something\n", shown)
            self.assertIn("  warning: slow\n", shown)
            self.assertIn("  update 1,500: validation loss 2.9012, sacreBLEU 24.70 on valid\n", shown)
            self.assertNotIn("epoch", shown)
            self.assertEqual(log, "".join(f"{line}\n" for line in LINES))

    def test_a_line_that_another_stream_appends_to_a_bar_is_a_line(self) -> None:
        for size in (1, 7, 10000):
            self.assertEqual(self.shown(f"\r\x1b[K{BAR}update 1\n", False, size), ("update 1\n", "update 1\n"), size)

    def test_a_last_line_without_its_end_is_kept(self) -> None:
        self.assertEqual(self.shown("a\nb", False, 2), ("a\nb\n", "a\nb\n"))


if __name__ == "__main__":
    unittest.main()
