"""Tests of scripts/check_layers.py, check_sizes.py and setup.sh: each violation planted in a small tree must be found."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import check_layers  # noqa: E402
import check_sizes  # noqa: E402
import check_words  # noqa: E402


class Tree(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")


class Layers(Tree):
    def faults(self, path: str, include: str) -> list[str]:
        for header in (
            "base/result.h",
            "nmt/core/tensor.h",
            "nmt/train/trainer.h",
            "server/store/runs.h",
            "server/http/router.h",
            "tests/support.h",
        ):
            self.write(header, "")
        self.write(path, f"// a file\n#include {include}\n")
        found = check_layers.violations(self.root)
        (self.root / path).unlink()
        return found

    def test_the_table_has_no_cycle_and_every_room_but_those_of_the_page_rests_on_base(self) -> None:
        for room, below in check_layers.ROOMS.items():
            if not room.startswith("server/dashboard/src"):
                self.assertIn("base", check_layers.visible(room))
            for other in below:
                self.assertNotIn(room, check_layers.visible(other))

    def test_an_edge_down_is_fine(self) -> None:
        self.assertEqual(self.faults("nmt/ops/x.cc", '"base/result.h"'), [])
        self.assertEqual(self.faults("server/api/x.cc", '"server/store/runs.h"'), [])

    def test_a_name_of_a_file_that_is_gone_is_found_in_comments_and_documents(self) -> None:
        self.write("base/result.h", "")
        self.write("base/x.h", "// See result.h, old_result.h, linux/magic.h and _test.cc.\nint y;  // base/gone.cc\n")
        self.write("docs/x.md", "`base/result.h` and `base/moved.h`\n")
        self.assertEqual(
            [line.split(",")[0] for line in check_layers.violations(self.root)],
            ["base/x.h:1: names old_result.h", "base/x.h:2: names base/gone.cc", "docs/x.md:1: names base/moved.h"],
        )

    def test_an_import_of_the_page_goes_down_only(self) -> None:
        page = "server/dashboard/src"
        self.write(f"{page}/data/x.ts", "import { get } from '../api/client';\nimport type { Y } from './y';\n")
        self.assertEqual(check_layers.violations(self.root), [])
        self.write(f"{page}/api/x.ts", "import type {\n  Page,\n} from '../views/parts';\n")
        self.assertEqual(
            check_layers.violations(self.root),
            [f'{page}/api/x.ts:3: "{page}/views/parts": {page}/api must not see {page}/views; it sees {page}/lib'],
        )

    def test_an_edge_up_or_sideways_is_found_with_its_line(self) -> None:
        self.assertEqual(
            self.faults("nmt/core/x.cc", '"nmt/train/trainer.h"'),
            [
                'nmt/core/x.cc:2: "nmt/train/trainer.h": nmt/core must not see nmt/train; it sees base, base/options, base/records'
            ],
        )
        self.assertIn("server must not see nmt/train", self.faults("server/x.cc", '"nmt/train/trainer.h"')[-1])
        self.assertIn(
            "server/http must not see server/store", self.faults("server/http/x.cc", '"server/store/runs.h"')[-1]
        )

    def test_headers_from_outside_stay_in_their_rooms(self) -> None:
        for path, header in (
            ("nmt/train/x.cc", "mpi.h"),
            ("nmt/layers/x.cc", "oneapi/dnnl/dnnl.hpp"),
            ("server/api/x.cc", "sqlite3.h"),
            ("base/x.cc", "boost/beast/http.hpp"),
            ("nmt/ops/x.cc", "cuda_runtime.h"),
            ("nmt/comm/x.cc", "nccl.h"),
        ):
            with self.subTest(header=header):
                self.assertIn(f"<{header}> outside", self.faults(path, f"<{header}>")[-1])
        for path, header in (
            ("nmt/comm/mpi/ring.cc", "mpi.h"),
            ("nmt/ops/cpu/x.cc", "dnnl.hpp"),
            ("server/store/x.cc", "sqlite3.h"),
        ):
            self.assertEqual(self.faults(path, f"<{header}>"), [])

    def test_includes_start_at_the_root_and_never_name_tests(self) -> None:
        self.assertIn("is no file of the repository", self.faults("nmt/core/x.cc", '"tensor.h"')[-1])
        self.write("server/api/CMakeLists.txt", 'configure_file(text.in "${CMAKE_CURRENT_BINARY_DIR}/text.h")')
        self.assertEqual(self.faults("server/api/x.cc", '"server/api/text.h"'), [])
        self.assertIn("includes a test", self.faults("nmt/core/x.cc", '"tests/support.h"')[-1])


class Sizes(Tree):
    def test_files_over_the_limit_are_found_and_tests_may_be_longer(self) -> None:
        self.write("nmt/core/fits.cc", "\n" * 400)
        self.write("nmt/core/long.cc", "\n" * 401)
        self.write("tests/nmt/core/fits_test.cc", "\n" * 600)
        self.write("tests/nmt/core/long_test.cc", "\n" * 601)
        self.assertEqual(
            check_sizes.violations(self.root),
            ["nmt/core/long.cc:1: 401 lines, at most 400", "tests/nmt/core/long_test.cc:1: 601 lines, at most 600"],
        )

    @unittest.skipUnless(shutil.which("ctags"), "needs universal-ctags")
    def test_long_functions_are_found(self) -> None:
        for name, lines in (("fits", 58), ("too_long", 59)):
            self.write(f"nmt/core/{name}.cc", f"int {name}() {{\n" + "  // line\n" * lines + "}\n")
        self.assertEqual(
            check_sizes.violations(self.root), ["nmt/core/too_long.cc:1: too_long has 61 lines, at most 60"]
        )

    def test_long_python_functions_are_found(self) -> None:
        self.write("scripts/x.py", "def f():\n" + "    pass\n" * 60)
        self.assertEqual(check_sizes.violations(self.root), ["scripts/x.py:1: f has 61 lines, at most 60"])

    def test_long_typescript_functions_are_found(self) -> None:
        body = "  work();\n" * 59
        self.write(
            "server/dashboard/src/x.ts",
            f"function fits() {{\n{body[10:]}}}\n\n"
            f"export async function named(a: number): Promise<void> {{\n{body}}}\n\n"
            f"export const arrow = (\n  a: number,\n): void => {{\n{body}}};\n\n"
            "class C {\n"
            + "".join(f"  {line}\n" for line in f"method(a: number): void {{\n{body}}}".splitlines())
            + "}\n",
        )
        self.assertEqual(
            check_sizes.violations(self.root),
            [
                f"server/dashboard/src/x.ts:{line}: {name} has {lines} lines, at most 60"
                for name, line, lines in (("named", 62, 61), ("arrow", 124, 63), ("method", 189, 61))
            ],
        )

    def test_more_files_or_headers_than_the_product_has_are_found(self) -> None:
        self.write("nmt/train/update/update_runner.cc", '#include "base/a.h"\n#include "base/b.h"\nint x;\n')
        self.write("base/a.h", '#pragma once\n#include "base/b.h"\n')
        self.write("base/b.h", "int y;\n" * 95)
        found = {"files": 3, "headers under 40 lines": 1, "headers seen by an update": 2}
        measured = check_sizes.density(self.root)
        self.assertEqual({name: measured[name] for name in found}, found)
        self.assertEqual(measured["lines in 1,000 that are includes, guards or namespaces"], 40)
        with unittest.mock.patch.dict(check_sizes.LIMITS, {**measured, "files": 2}):
            self.assertEqual([line.split(":")[0] for line in check_sizes.violations(self.root)], ["files"])


class Words(Tree):
    GLOSSARY = "| word | meaning | never |\n| --- | --- | --- |\n| max | a bound | `top_`, `odd word` |\n| x | y | |\n"

    def test_names_and_phrases_are_found_also_across_lines(self) -> None:
        self.write("CONTRIBUTING.md", self.GLOSSARY)
        self.write("base/x.h", "int top_bytes;  // Odd\n// word\nint stop_all, top;  // odd, word\n")
        self.write("docs/x.md", "an odd  word")
        self.assertEqual(
            [line.rsplit(":", 1)[0] for line in check_words.violations(self.root)],
            ["base/x.h:1: 'top_bytes'", "base/x.h:1: 'Odd word'", "docs/x.md:1: 'odd word'"],
        )

    def test_comments_name_the_thing_that_they_describe(self) -> None:
        self.write("CONTRIBUTING.md", self.GLOSSARY)
        self.write(
            "base/x.h", "/// Of a rank.\nint x;\n/// The size. Of\n/// Those.\nint y;  // Of a rank.\n// Of `x`: y.\n"
        )
        self.write("tests/x.py", '"""What it is."""\nx = 1  # Those\n# The one of x.\n')
        self.assertEqual(
            [line.rsplit(":", 1)[0] for line in check_words.violations(self.root)],
            ["base/x.h:1: 'Of'", "tests/x.py:1: 'What'", "tests/x.py:3: 'The one'"],
        )

    def test_parameters_and_tests_have_names_of_their_own(self) -> None:
        self.write("CONTRIBUTING.md", self.GLOSSARY)
        self.write("base/x.h", "int f(int of);  // g(int of)\nint g(const T& of, int offset);\nint of_day(int off);\n")
        self.write("tests/x_test.cc", "\nTEST(Size, OfAFile) {}\nTEST_F(Size, WhatFits) {}\nTEST(Size, Offers) {}\n")
        self.assertEqual(
            [line.rsplit(":", 1)[0] for line in check_words.violations(self.root)],
            ["base/x.h:1: 'of'", "base/x.h:2: 'of'", "tests/x_test.cc:2: 'OfAFile'", "tests/x_test.cc:3: 'WhatFits'"],
        )

    def test_a_tree_without_a_glossary_fails(self) -> None:
        self.write("CONTRIBUTING.md", "no table")
        self.assertIn("expected the glossary", check_words.violations(self.root)[0])


class Setup(Tree):
    def run_setup(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [ROOT / "scripts" / "setup.sh", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **environment},
        )

    def boost(self) -> str:
        """Debian 12's unversioned packages are too old."""
        return "1.81" if 'VERSION_ID="12"' in pathlib.Path("/etc/os-release").read_text(encoding="utf-8") else ""

    def test_boost_is_named_by_version_where_the_default_is_too_old(self) -> None:
        names = self.run_setup("--list", "--test").stdout.split()
        boost = [name for name in names if "boost" in name]
        self.assertEqual(len(boost), 3)
        self.assertEqual(
            {name.removeprefix("lib").strip("abcdefghijklmnopqrstuvwxyz-") for name in boost}, {self.boost()}
        )
        self.assertEqual(len(names), len(set(names)))
        plain = set(self.run_setup("--list").stdout.split())
        self.assertLess(plain, set(names))
        self.assertEqual(
            set(self.run_setup("--list", "--bundle").stdout.split()) - plain,
            {"patchelf", "libgtest-dev", "libgmock-dev"},
        )

    def test_check_names_missing_parts_of_a_broken_system(self) -> None:
        self.write("bin/dpkg-query", "#!/bin/sh\necho 'cmake installed'\necho 'git half-installed'\nexit 1\n")
        (self.root / "bin" / "dpkg-query").chmod(0o755)
        done = self.run_setup("--check", PATH=f"{self.root}/bin:{os.environ['PATH']}", BABELRING_SKIP_SETUP="")
        if "installs packages on Debian 12 and 13" in done.stderr:
            self.skipTest("neither Debian 12 nor 13")
        self.assertEqual(done.returncode, 1)
        self.assertIn(" git ", done.stdout)
        self.assertNotIn(" cmake ", done.stdout)

    def test_a_removal_is_refused_and_named(self) -> None:
        self.write("bin/dpkg-query", "#!/bin/sh\nexit 1\n")
        self.write(
            "bin/apt-get",
            '#!/bin/sh\ncase "$*" in\n  *"-s install"*) echo "Remv libboost1.74-dev [1.74.0]" ;;\n'
            f'  *) echo "$*" >> "{self.root}/calls" ;;\nesac\n',
        )
        for tool in ("dpkg-query", "apt-get"):
            (self.root / "bin" / tool).chmod(0o755)
        self.write("bin/sudo", '#!/bin/sh\nexec "$@"\n')
        (self.root / "bin" / "sudo").chmod(0o755)
        done = self.run_setup(PATH=f"{self.root}/bin:{os.environ['PATH']}", BABELRING_SKIP_SETUP="")
        if "installs packages on Debian 12 and 13" in done.stderr:
            self.skipTest("neither Debian 12 nor 13")
        self.assertEqual(done.returncode, 1)
        self.assertIn("would remove: libboost1.74-dev", done.stderr)
        self.assertNotIn(" install ", (self.root / "calls").read_text())

    def set_up_page(self, npm: str) -> subprocess.CompletedProcess[str]:
        """Runs a copy of setup.sh in a tree with a page, where nothing of Debian is missing and npm is the given script."""
        self.write("bin/dpkg-query", '#!/bin/sh\nfor name; do echo "$name installed"; done\n')
        self.write(
            "bin/npm",
            f'#!/bin/sh\n[ "$1" = --version ] && echo 11.0.0 && exit\necho called >>{self.root}/calls\n{npm}\n',
        )
        self.write("server/page/package-lock.json", "{}")
        for name in ("setup.sh", "lib/common.sh"):
            self.write(f"scripts/{name}", (ROOT / "scripts" / name).read_text(encoding="utf-8"))
        for name in ("bin/dpkg-query", "bin/npm", "scripts/setup.sh"):
            (self.root / name).chmod(0o755)
        variables = {"PATH": f"{self.root}/bin:{os.environ['PATH']}", "BABELRING_SKIP_SETUP": ""}
        done = subprocess.run(
            [self.root / "scripts/setup.sh"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **variables},
        )
        if "installs packages on Debian 12 and 13" in done.stderr:
            self.skipTest("neither Debian 12 nor 13")
        return done

    def test_the_package_of_the_page_is_installed_once(self) -> None:
        install = "mkdir -p node_modules && touch -d '+1 minute' node_modules/.package-lock.json"
        for _ in range(2):
            done = self.set_up_page(install)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual((self.root / "calls").read_text(encoding="utf-8"), "called\n")

    def test_a_machine_without_the_registry_of_npm_is_set_up_and_told(self) -> None:
        done = self.set_up_page("exit 1")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(
            done.stderr, r"^warning: npm did not install .* 'npm ci' .*: the page will not translate offline\n$"
        )

    def test_unknown_options_exit_2(self) -> None:
        self.assertEqual(self.run_setup("--nonsense").returncode, 2)


class Arguments(unittest.TestCase):
    def test_an_option_without_its_value_is_one_line_and_does_nothing(self) -> None:
        for call in (
            "quickstart.sh --dir",
            "quickstart.sh --minutes",
            "fetch_corpus.sh --downloads",
            "test.sh --only",
            "faults.sh --seed",
            "fuzz.sh --seconds",
            "gpu_bundle.sh --text",
        ):
            with self.subTest(call=call):
                script, option = call.split()
                done = subprocess.run([ROOT / "scripts" / script, option], capture_output=True, text=True, timeout=60)
                self.assertEqual(
                    (done.returncode, done.stderr), (2, f"{script}: {option} needs a value (see --help)\n")
                )


if __name__ == "__main__":
    unittest.main()
