"""The Debian packages and the tarball: their contents and dependencies, and the quickstart in a root where they are installed."""

from __future__ import annotations

import re
import shutil
import tempfile
import unittest
from pathlib import Path

from debian_root import BIN, RELEASE, ROOT, make_packages, make_root, require, run

ENVIRONMENT = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "DEBIAN_FRONTEND=noninteractive"]
#: Mounts what programs expect, in a mount namespace that ends with the command.
IN_ROOT = """
set -e
mount -t proc proc "$1/proc"; mount -t sysfs sysfs "$1/sys"; mount --rbind /dev "$1/dev"
root=$1; shift
exec chroot "$root" "$@"
"""


def in_root(root: Path, *command: str) -> str:
    return run("unshare", "--mount", "sh", "-c", IN_ROOT, "sh", root, *ENVIRONMENT, *command)


class PackagesTest(unittest.TestCase):
    base: Path  # a new Debian root, of which tests install in copies
    packages: Path

    @classmethod
    def setUpClass(cls) -> None:
        require("cpack", "dpkg-deb", "debootstrap", "unshare")
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="babelring-packages-")))
        cls.packages = make_packages(cls.folder / "packages")
        cls.base = make_root(cls.folder / "base")

    def root(self) -> Path:
        root = self.folder / self._testMethodName
        run("cp", "-a", self.base, root)
        self.addCleanup(shutil.rmtree, root, ignore_errors=True)
        shutil.copy(ROOT / "deploy" / "quickstart.sh", root / "root")
        return root

    def package(self, name: str) -> Path:
        return next(self.packages.glob(f"babelring-{name}_*.deb"))

    def test_packages_declare_dependencies_and_contents(self) -> None:
        def field(name: str, field: str) -> str:
            return run("dpkg-deb", "-f", self.package(name), field)

        version = field("common", "Version").strip()
        self.assertRegex(version, rf"^\d[\d.]*-1~{RELEASE['ID']}{re.escape(RELEASE['VERSION_ID'])}$")
        self.assertIn(f"_{version}_", self.package("server").name)
        for name in ("server", "worker", "nmt"):
            self.assertIn(f"babelring-common (= {version})", field(name, "Depends"))
        self.assertRegex(field("worker", "Depends"), r"openmpi-bin.*libopenmpi(3|40)\b")
        self.assertIn("libsqlite3-0", field("server", "Depends"))
        self.assertNotIn("openmpi", field("server", "Depends"))
        self.assertIn("babelring-worker", field("server", "Recommends"))
        self.assertEqual(field("common", "Architecture").strip(), "all")
        contents = run("dpkg-deb", "-c", self.package("server"))
        for file in (
            "usr/lib/babelring/server",
            "etc/babelring/server.yaml",
            "usr/lib/systemd/system/babelring-server.service",
        ):
            self.assertIn(f" ./{file}\n", contents)
        for name in ("server", "worker", "nmt"):
            contents = run("dpkg-deb", "-c", self.package(name))
            called = name if name == "nmt" else f"babelring-{name}"
            self.assertEqual(re.findall(r"\./usr/bin/(\S+ -> \S+)", contents), [f"{called} -> ../lib/babelring/{name}"])
            for file in (
                f"man/man1/{called}.1",
                f"bash-completion/completions/{called}",
                f"zsh/vendor-completions/_{called}",
            ):
                self.assertIn(f" ./usr/share/{file}\n", contents)

    def test_packages_work_in_a_new_root(self) -> None:
        root = self.root()
        for name in ("common", "nmt", "worker", "server"):
            shutil.copy(self.package(name), root / "root")
        in_root(root, "apt-get", "-qq", "update")
        in_root(root, "sh", "-c", "apt-get -y -qq install --no-install-recommends /root/*.deb")
        self.assertIn("everything works", in_root(root, "bash", "/root/quickstart.sh"))
        self.assertIn("nologin", in_root(root, "getent", "passwd", "babelring"))
        self.assertIn("ok ", in_root(root, "babelring-server", "--options", "/etc/babelring/server.yaml", "--check"))
        unit = (root / "usr/lib/systemd/system/babelring-server.service").read_text(encoding="utf-8")
        self.assertIn("ExecStart=/usr/bin/babelring-server", unit)
        self.assertNotIn("/opt/babelring", unit)
        configuration = root / "etc/babelring/server.yaml"
        configuration.write_text(configuration.read_text(encoding="utf-8") + "# changed here\n", encoding="utf-8")
        in_root(root, "sh", "-c", "apt-get -y -qq remove 'babelring-*'")
        self.assertFalse((root / "usr/bin/babelring-server").is_symlink())
        self.assertFalse((root / "usr/lib/babelring").exists())
        self.assertIn("# changed here", configuration.read_text(encoding="utf-8"), "configuration stays")

    @unittest.skipUnless(shutil.which("patchelf"), "needs patchelf")
    def test_the_tarball_works_without_any_package(self) -> None:
        run(ROOT / "scripts" / "portable.sh", "--build", BIN.parent, "--out", self.packages)
        root = self.root()
        run("tar", "-C", root / "root", "-xf", next(self.packages.glob("*.tar.gz")))
        command = "source /root/babelring-*/env.sh && bash /root/quickstart.sh"
        self.assertIn("everything works", in_root(root, "bash", "-c", command))


if __name__ == "__main__":
    unittest.main()
