"""Runs containers as Docker would, of a folder that has an image's files: each in its own namespaces, without capabilities,
on a read-only root, with volumes and a virtual Ethernet link to a switch of them all. Needs root, ip, unshare and nsenter.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

SUBNET = "10.78.0"
#: Arguments: the image's files, an empty folder, the host's name, the file of hosts, then "SOURCE TARGET ro|rw" for each volume,
#: "--" and the command.
START = """
set -e
image=$1 root=$2 name=$3 hosts=$4
shift 4
mount --make-rprivate /
mount --bind "$image" "$root"
mount -o remount,bind,ro "$root"
while [ "$1" != -- ]; do
  if [ "$1" = tmpfs ]; then mount -t tmpfs -o mode=1777 tmpfs "$root$2"; else mount --bind "$1" "$root$2"; fi
  if [ "$3" = ro ]; then mount -o remount,bind,ro "$root$2"; fi
  shift 3
done
shift
mount --bind "$hosts" "$root/etc/hosts"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev"
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
for device in null zero full random urandom tty; do touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
ln -s /proc/self/fd "$root/dev/fd"
hostname "$name"
exec chroot "$root" "$@"
"""


@dataclass(frozen=True)
class Image:
    """The settings that a container takes from its image."""

    files: Path
    user: int
    environment: dict[str, str]
    command: list[str]
    folder: str  # where commands start


@dataclass
class Container:
    """A service: its image, and what Docker's command line or a compose file says of it."""

    name: str
    image: Image
    command: list[str] = field(default_factory=list)  # empty: the image's
    environment: dict[str, str] = field(default_factory=dict)
    volumes: list[tuple[str, str, str]] = field(default_factory=list)  # source or "tmpfs", target, "ro" or "rw"
    process: subprocess.Popen[str] | None = None

    def as_user(self, command: list[str]) -> list[str]:
        user = str(self.image.user)
        rights = [f"--reuid={user}", f"--regid={user}", "--clear-groups", "--bounding-set=-all", "--no-new-privs"]
        variables = {"HOME": "/home/babelring", **self.image.environment, **self.environment}
        return [
            *("/usr/bin/setpriv", *rights, "--", "/usr/bin/env", "-i", "-C", self.image.folder),
            *(f"{name}={value}" for name, value in variables.items()),
            *command,
        ]


class Switch:
    """Connects containers, which reach each other by their names. Ends them with itself."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder, self.prefix, self.containers = folder, f"babelring-{os.getpid()}", []
        self.addresses = {name: f"{SUBNET}.{number}" for number, name in enumerate(names, 2)}
        self.hosts = folder / "hosts"
        lines = [f"{address} {name}" for name, address in self.addresses.items()]
        self.hosts.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]), encoding="utf-8")
        self.ip("netns", "add", self.namespace("switch"))
        self.ip("-n", self.namespace("switch"), "link", "add", "bridge", "type", "bridge")
        self.ip("-n", self.namespace("switch"), "link", "set", "bridge", "up")
        for number, (name, address) in enumerate(self.addresses.items(), 2):
            space, switch = self.namespace(name), self.namespace("switch")
            self.ip("netns", "add", space)
            self.ip(
                *("link", "add", "eth0", "netns", space, "type", "veth", "peer", "name", f"port{number}"),
                *("netns", switch),
            )
            self.ip("-n", switch, "link", "set", f"port{number}", "master", "bridge", "up")
            self.ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            self.ip("-n", space, "link", "set", "eth0", "up")
            self.ip("-n", space, "link", "set", "lo", "up")

    def ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def namespace(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def log(self, name: str) -> str:
        file = self.folder / f"{name}.log"
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    def start(self, container: Container) -> Container:
        root = self.folder / f"{container.name}-root"
        root.mkdir()
        volumes = [word for volume in container.volumes for word in volume]
        with open(self.folder / f"{container.name}.log", "w", encoding="utf-8") as log:
            container.process = subprocess.Popen(
                [
                    *("ip", "netns", "exec", self.namespace(container.name)),
                    *(
                        "unshare",
                        "--mount",
                        "--uts",
                        "--ipc",
                        "--pid",
                        "--fork",
                        "--kill-child",
                        "bash",
                        "-c",
                        START,
                        "bash",
                    ),
                    *(container.image.files, root, container.name, self.hosts, *volumes, "--"),
                    *container.as_user(container.command or container.image.command),
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                text=True,
            )
        self.containers.append(container)
        return container

    def inside(self, container: Container, *command: str, seconds: int = 300) -> subprocess.CompletedProcess[str]:
        """Like `docker exec`."""
        assert container.process is not None
        children = Path(f"/proc/{container.process.pid}/task/{container.process.pid}/children").read_text().split()
        if not children:
            return subprocess.CompletedProcess(command, 1, f"{container.name} has ended: {self.log(container.name)}")
        enter = ["nsenter", f"--target={children[0]}", "--mount", "--uts", "--ipc", "--net", "--pid", "--root"]
        return subprocess.run(
            [*enter, *container.as_user(list(command))],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=seconds,
        )

    def stop(self, container: Container) -> None:
        """Ends it as SIGKILL does."""
        assert container.process is not None
        container.process.kill()
        container.process.wait(timeout=60)

    def end(self) -> None:
        for container in self.containers:
            self.stop(container)
        for name in (*self.addresses, "switch"):
            subprocess.run(["ip", "netns", "del", self.namespace(name)], capture_output=True)
