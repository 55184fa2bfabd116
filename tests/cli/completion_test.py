"""`nmt completion SHELL`, `worker --completion SHELL`, `server --completion SHELL`: the scripts, asked by the shells themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from system import BIN  # noqa: E402


def script(shell: str, program: str = "nmt") -> str:
    """The completion of a program called by this name, which may be the longer name of installations."""
    how = "completion" if program == "nmt" else "--completion"
    file = BIN / program.removeprefix("babelring-")
    return subprocess.run([program, how, shell], executable=file, capture_output=True, text=True, check=True).stdout


class CompletionTest(unittest.TestCase):
    def offers(self, *words: str) -> list[str]:
        """The words that bash offers for the last word."""
        program = (
            script("bash", words[0])
            + f"""
COMP_WORDS=({' '.join(f"'{word}'" for word in words)})
COMP_CWORD={len(words) - 1}
_{words[0]}_complete
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
        )
        done = subprocess.run(["bash", "--norc", "-euo", "pipefail"], input=program, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_offers_commands_options_and_values(self) -> None:
        self.assertEqual(self.offers("nmt", "tr"), ["translate", "trace"])
        self.assertEqual(self.offers("nmt", "run", "s"), ["submit", "show", "stop", "sync"])
        self.assertIn("watch", self.offers("nmt", "run", ""))
        self.assertEqual(self.offers("nmt", "run", "list", "--st"), ["--state"])
        self.assertEqual(self.offers("nmt", "run", "logs", "toy", "--fol"), ["--follow"])
        self.assertIn("--checkpoint", self.offers("nmt", "translate", "--"))
        self.assertEqual(self.offers("nmt", "translate", "--precision", ""), ["f32", "bf16", "int8"])
        self.assertEqual(self.offers("nmt", "translate", "--precision", "b"), ["bf16"])
        self.assertEqual(self.offers("nmt", "completion", "zz"), [])
        self.assertEqual(self.offers("nmt", "translate", "--input", ""), [], "a file: left to bash")
        self.assertEqual(self.offers("nmt", "translate", ""), [], "options do not hide files")
        self.assertEqual(self.offers("nmt", "run", "list", "--json", "--st"), ["--state"])

    def test_bash_offers_options_of_worker_and_server(self) -> None:
        self.assertEqual(self.offers("server", "--tls-"), ["--tls-cert", "--tls-key"])
        self.assertEqual(self.offers("server", "--log-format", ""), ["text", "json"])
        self.assertEqual(self.offers("server", "--log-format", "=", "j"), ["json"], "bash splits --log-format=j")
        self.assertEqual(self.offers("server", ""), [])
        self.assertEqual(self.offers("worker", "--prog"), ["--progress"])
        self.assertEqual(self.offers("worker", "--config", ""), [])

    def test_bash_offers_configuration_keys_and_their_words(self) -> None:
        for command in (["worker"], ["nmt", "run", "submit", "--config", "a.yaml"]):
            self.assertEqual(self.offers(*command, "training.prec"), ["training.precision="])
            self.assertEqual(self.offers(*command, "training.precision", "="), ["bf16", "f32"])
            self.assertEqual(self.offers(*command, "training.precision", "=", "f"), ["f32"])
            self.assertEqual(self.offers(*command, "tensorboard", "=", ""), ["true", "false"])
            self.assertEqual(self.offers(*command, "data.folder", "=", "/tm"), [], "a file: left to bash")
        self.assertIn("data.folder=", self.offers("worker", ""))
        self.assertEqual(self.offers("babelring-worker", "--run-d"), ["--run-dir"])

    def test_bash_loads_it(self) -> None:
        program = script("bash") + "\ncomplete -p nmt"
        done = subprocess.run(["bash", "--norc"], input=program, capture_output=True, text=True)
        self.assertIn("-F _nmt_complete nmt", done.stdout)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_offers_the_same(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "completion.zsh"
            for words, expected in (
                (["nmt", "run", "s"], {"submit", "show", "stop", "sync"}),
                (["nmt", "translate", "--precision", ""], {"f32", "bf16", "int8"}),
                (["nmt", "run", "list", "--"], {"--state", "--json"}),
                (["server", "--log-format", ""], {"text", "json"}),
                (["babelring-server", "--log-format", ""], {"text", "json"}),
                (["worker", "training."], {"training.precision=", "data.folder="}),
                (["worker", "training.precision="], {"bf16", "f32"}),
                (["worker", "--progress="], {"auto", "always", "never"}),
                (["worker", "data.folder=/tm"], {"files"}),
            ):
                file.write_text(script("zsh", words[0]), encoding="utf-8")
                program = f"""
compdef() {{ : }}
compset() {{ : }}
_files() {{ print files }}
compadd() {{ print -l -- ${{(P)@[-1]}} }}
source {file}
words=({' '.join(f'"{word}"' for word in words)})
CURRENT={len(words)}
_{words[0]}
"""
                done = subprocess.run(["zsh", "-f", "-c", program], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertLessEqual(expected, set(done.stdout.split()), words)

    def test_unknown_shells_are_refused(self) -> None:
        done = subprocess.run([BIN / "nmt", "completion", "tcsh"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("found 'tcsh', expected bash, fish or zsh", done.stderr)

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish_offers_the_same(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "completion.fish"
            for words, expected in (
                ("nmt tr", {"translate", "trace"}),
                ("nmt run s", {"submit", "show", "stop", "sync"}),
                ("nmt translate --precision ", {"f32", "bf16", "int8"}),
                ("nmt run list --st", {"--state"}),
                ("nmt run list --json --st", {"--state"}),
                ("server --log-format ", {"text", "json"}),
                ("babelring-server --log-format ", {"text", "json"}),
                ("worker training.prec", {"training.precision=", "training.precision=bf16", "training.precision=f32"}),
            ):
                file.write_text(script("fish", words.split()[0]), encoding="utf-8")
                done = subprocess.run(
                    ["fish", "--no-config", "-c", f"source {file}; complete -C '{words}'"],
                    capture_output=True,
                    text=True,
                    env={**os.environ, "HOME": folder},
                )
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual({line.split("\t")[0] for line in done.stdout.splitlines()}, expected, words)

    def test_fish_names_every_place(self) -> None:
        lines = script("fish").splitlines()
        self.assertIn(
            "complete -c nmt -n '__nmt_at \"nmt run\"' -f -a 'submit list show why compare watch stop resume edit archive delete logs checkpoints pin download trace sync import what-if'",
            lines,
        )
        self.assertIn("complete -c nmt -n '__nmt_at \"nmt translate\"' -l 'precision' -x -a 'f32 bf16 int8'", lines)
        self.assertIn("complete -c nmt -n '__nmt_at \"nmt translate\"' -l 'input' -r", lines)


if __name__ == "__main__":
    unittest.main()
