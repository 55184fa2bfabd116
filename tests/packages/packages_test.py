"""The Debian packages and the tarball: what they contain and need, and the quickstart in a root where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

BIN = Path(os.environ["BABELRING_BIN"]).resolve()
ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "DEBIAN_FRONTEND=noninteractive"]
#: Mounts what programs expect, in a mount namespace that ends with the command.
IN_ROOT = """
set -e
mount -t proc proc "$1/proc"; mount -t sysfs sysfs "$1/sys"; mount --rbind /dev "$1/dev"
root=$1; shift
exec chroot "$root" "$@"
"""


def run(*command: object, seconds: int = 600, **options: object) -> str:
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, **options  # type: ignore[call-overload]
    )
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit code {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def in_root(root: Path, *command: str) -> str:
    return run("unshare", "--mount", "sh", "-c", IN_ROOT, "sh", root, *ENVIRONMENT, *command)


class PackagesTest(unittest.TestCase):
    base: Path  # a new Debian root, of which tests install in copies
    packages: Path

    @classmethod
    def setUpClass(cls) -> None:
        absent = [name for name in ("cpack", "dpkg-deb", "debootstrap", "unshare") if shutil.which(name) is None]
        if absent or os.geteuid() != 0:
            raise unittest.SkipTest(f"needs root and {', '.join(absent or ['no further program'])}")
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="babelring-packages-")))
        cls.packages = cls.folder / "packages"
        run("cpack", "-G", "DEB", "-B", cls.packages, cwd=BIN.parent)
        cls.base = cls.folder / "base"
        try:
            run("debootstrap", "--variant=minbase", "bookworm", cls.base, seconds=900)
        except AssertionError as failure:
            raise unittest.SkipTest(f"debootstrap made no root: {str(failure)[-300:]}") from failure
        shutil.copy("/etc/resolv.conf", cls.base / "etc")

    def root(self) -> Path:
        root = self.folder / self._testMethodName
        run("cp", "-a", self.base, root)
        self.addCleanup(shutil.rmtree, root, ignore_errors=True)
        shutil.copy(ROOT / "deploy" / "quickstart.sh", root / "root")
        return root

    def package(self, name: str) -> Path:
        return next(self.packages.glob(f"babelring-{name}_*.deb"))

    def test_packages_name_what_they_need_and_contain(self) -> None:
        def field(name: str, field: str) -> str:
            return run("dpkg-deb", "-f", self.package(name), field)

        self.assertRegex(field("worker", "Depends"), r"babelring-common \(= .*openmpi-bin.*libopenmpi3")
        self.assertIn("libsqlite3-0", field("server", "Depends"))
        self.assertNotIn("openmpi", field("server", "Depends"))
        self.assertIn("babelring-worker", field("server", "Recommends"))
        self.assertEqual(field("common", "Architecture").strip(), "all")
        contents = run("dpkg-deb", "-c", self.package("server"))
        for file in ("usr/bin/server", "etc/babelring/server.yaml", "usr/lib/systemd/system/babelring-server.service"):
            self.assertIn(f" ./{file}\n", contents)
        for name in ("server", "worker", "nmt"):
            contents = run("dpkg-deb", "-c", self.package(name))
            for file in (
                f"man/man1/{name}.1",
                f"bash-completion/completions/{name}",
                f"zsh/vendor-completions/_{name}",
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
        self.assertIn("ok ", in_root(root, "server", "--options", "/etc/babelring/server.yaml", "--check"))
        unit = (root / "usr/lib/systemd/system/babelring-server.service").read_text(encoding="utf-8")
        self.assertIn("ExecStart=/usr/bin/server", unit)
        self.assertNotIn("/opt/babelring", unit)
        configuration = root / "etc/babelring/server.yaml"
        configuration.write_text(configuration.read_text(encoding="utf-8") + "# changed here\n", encoding="utf-8")
        in_root(root, "sh", "-c", "apt-get -y -qq remove 'babelring-*'")
        self.assertFalse((root / "usr/bin/server").exists())
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
