"""server/page/embed.cmake: which files a server is given, with what types and bytes, with and without ONNX Runtime's file."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
NAME = "assets/ort-4byDm7i3.wasm"
RUNTIME = b"\0asm" * 5000
ROW = re.compile(
    r'\{"([^"]+)", "([^"]+)", "\\"([0-9a-f]{64})\\"", (\d+), (true|false), \{babelring_page_(\d+), (\d+)\}\}'
)


class EmbedTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="babelring-embed-")))
        self.dist, self.runtime = self.folder / "dist", self.folder / "runtime.wasm"
        (self.dist / "assets").mkdir(parents=True)
        (self.folder / "out").mkdir()
        (self.dist / "index.html").write_text("<html>", encoding="utf-8")
        for name in ("app-Daq69PXK.js", "zoo-4byDm7i3.css"):
            (self.dist / "assets" / name).write_text(name, encoding="utf-8")
        self.expect(RUNTIME)

    def expect(self, runtime: bytes) -> None:
        text = f"{hashlib.sha256(runtime).hexdigest()}  {NAME}\n"
        (self.dist / "onnx_runtime.sha256").write_text(text, encoding="utf-8")

    def embed(self, runtime: str = "", *, fails: bool = False) -> str:
        """Runs the script; returns its output in one line."""
        words = [f"-DDIST={self.dist}", f"-DRUNTIME={runtime}", f"-DOUT={self.folder}/out", "-DGZIP=gzip"]
        command = ["cmake", *words, "-P", ROOT / "server/page/embed.cmake"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode != 0, fails, done.stderr)
        return " ".join((done.stdout + done.stderr).split())

    def rows(self) -> dict[str, tuple[str, str, bytes, str]]:
        """Type, digest, bytes and immutability of each embedded file, by its name."""
        found = {}
        for path, kind, digest, size, immutable, number, packed in ROW.findall(
            (self.folder / "out/page.cc").read_text(encoding="utf-8")
        ):
            compressed = (self.folder / f"out/page{number}.gz").read_bytes()
            content = gzip.decompress(compressed)
            self.assertEqual((len(content), len(compressed)), (int(size), int(packed)), path)
            self.assertEqual(hashlib.sha256(content).hexdigest(), digest, path)
            found[path] = (kind, digest, content, immutable)
        self.assertEqual(list(found), sorted(found), "the server searches by halves")
        return found

    def test_the_runtime_is_embedded_compressed_under_the_name_that_the_page_asks_for(self) -> None:
        self.runtime.write_bytes(RUNTIME)
        self.assertEqual(self.embed(str(self.runtime)), "")
        rows = self.rows()
        self.assertEqual(list(rows), ["assets/app-Daq69PXK.js", NAME, "assets/zoo-4byDm7i3.css", "index.html"])
        kind, _, content, immutable = rows[NAME]
        self.assertEqual((kind, content, immutable), ("application/wasm", RUNTIME, "true"))
        assembly = (self.folder / "out/page.S").read_text(encoding="utf-8")
        self.assertEqual(len(re.findall(r"\.incbin", assembly)), 4)

    def test_without_it_the_page_is_whole_and_the_build_says_what_it_lacks(self) -> None:
        for absent in ("", str(self.runtime)):
            self.assertRegex(
                self.embed(absent), r"Without ONNX Runtime.*cannot translate offline.*run 'npm ci' in server/page"
            )
            self.assertEqual(list(self.rows()), ["assets/app-Daq69PXK.js", "assets/zoo-4byDm7i3.css", "index.html"])

    def test_another_version_is_left_out_with_a_warning(self) -> None:
        self.runtime.write_bytes(RUNTIME + b"x")
        found, expected = (hashlib.sha256(content).hexdigest() for content in (RUNTIME + b"x", RUNTIME))
        said = self.embed(str(self.runtime))
        self.assertIn("CMake Warning", said)
        self.assertIn(f"{self.runtime}: its SHA-256 is {found}, expected {expected}; it is left out", said)
        self.assertNotIn(NAME, self.rows())

    def test_a_page_without_a_runtime_needs_none(self) -> None:
        (self.dist / "onnx_runtime.sha256").unlink()
        self.runtime.write_bytes(RUNTIME)
        self.assertEqual(self.embed(str(self.runtime)), "")
        self.assertEqual(len(self.rows()), 3)

    def test_a_digest_that_is_none_stops_the_build(self) -> None:
        (self.dist / "onnx_runtime.sha256").write_text("none\n", encoding="utf-8")
        self.assertIn("found 'none', expected a SHA-256 digest, two spaces and a name", self.embed(fails=True))

    def test_the_page_in_the_repository_names_its_runtime(self) -> None:
        dist = ROOT / "server/dashboard/dist"
        digest, name = (dist / "onnx_runtime.sha256").read_text(encoding="utf-8").split()
        self.assertFalse((dist / name).exists(), "14 MB that are not in git")
        asking = [file.name for file in (dist / "assets").glob("*.js") if Path(name).name in file.read_text("utf-8")]
        self.assertTrue(any(file.startswith("run_offline") for file in asking), asking)
        installed = ROOT / "server/page/node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm"
        if not installed.exists():
            self.skipTest("the package of `npm ci` in server/page is not installed")
        self.assertEqual(hashlib.sha256(installed.read_bytes()).hexdigest(), digest)

    def test_the_server_and_the_page_are_built_with_the_same_version(self) -> None:
        found = []
        for folder in ("page", "dashboard"):
            lock = json.loads((ROOT / "server" / folder / "package-lock.json").read_text(encoding="utf-8"))
            package = lock["packages"]["node_modules/onnxruntime-web"]
            found.append((package["version"], package["integrity"]))
        self.assertEqual(found[0], found[1])


if __name__ == "__main__":
    unittest.main()
