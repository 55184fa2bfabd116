"""deploy/docker, deploy/compose and deploy/kubernetes: the image, built by buildah on a Debian root made by debootstrap, and the
services of the compose file and the pods of Kubernetes, run in namespaces. Left out, and said so: compiling in the image (the
packages are those of this build), the images of Prometheus and Grafana, a cluster, and GPUs."""

from __future__ import annotations

import json
import random
import resource
import shutil
import sys
import tempfile
import unittest
import urllib.parse
from pathlib import Path

import kubernetes_test
import yaml
from containers import Container, Image, Switch
from programs import commands_of

for room in ("packages", "e2e"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / room))
from debian_root import BIN, ROOT, make_packages, make_root, require, run  # noqa: E402
from system import wait_for  # noqa: E402

DOCKER, COMPOSE = ROOT / "deploy/docker", ROOT / "deploy/compose"
LEFT_OUT = (
    "left out: compiling in the image (packages of this build are installed instead; the build's stage `configured` is made, "
    "the compiler is not run), images of Prometheus and Grafana, a cluster with its operators, GPUs"
)
CONFIG = """
name: composed
preset: transformer-tiny
model: {encoder_layers: 1, decoder_layers: 1, width: 32, inner: 64, dropout: 0}
data: {folder: /data/ids, tokens_per_update: 400}
training: {stop_after: 20u, precision: f32, threads: 1}
validation: {every: 0, bleu_every: 0, beam: 1}
"""


class ImageCase(unittest.TestCase):
    """The image is made once, by setUpModule."""

    folder: Path
    packages: Path

    @classmethod
    def buildah(cls, *words: object, seconds: int = 900) -> str:
        store = ["--root", cls.folder / "store", "--runroot", cls.folder / "runroot", "--storage-driver", "vfs"]
        return run("buildah", *store, *words, seconds=seconds).strip()

    @classmethod
    def build(cls, name: str, *words: object) -> None:
        # Debian 13's buildah would raise the limits of open files and processes, which not every machine permits, and Debian 12's
        # lowers that of processes to 32,768 before it sets the one that is asked for.
        limits = [("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)]
        kept = [
            f"--ulimit={kind}={limit}:{limit}"
            for kind, number in limits
            for soft, _ in [resource.getrlimit(number)]
            for limit in [32768 if soft == resource.RLIM_INFINITY else min(soft, 32768)]
        ]
        cls.buildah("build", "--isolation", "chroot", "--format", "docker", "--tag", f"localhost/{name}", *kept, *words)

    @classmethod
    def build_image(cls, target: str, *words: object) -> None:
        """One of the Dockerfile's targets, with this build's packages in place of its stages that compile."""
        contexts = [f"--build-context={stage}={cls.packages}" for stage in ("packages", "packages-cuda")]
        arguments = ["--build-arg", "BASE=localhost/base", "--target", target, *contexts, *words]
        cls.build(target, *arguments, "--file", DOCKER / "Dockerfile", ROOT)

    @classmethod
    def inspect(cls, name: str) -> dict:
        return json.loads(cls.buildah("inspect", "--type", "image", f"localhost/{name}"))["Docker"]["config"]

    @classmethod
    def image(cls, name: str) -> Image:
        configuration = cls.inspect(name)
        container = cls.buildah("from", f"localhost/{name}")
        return Image(
            files=Path(cls.buildah("mount", container)),
            user=int(configuration["User"].split(":")[0]),
            environment=dict(variable.split("=", 1) for variable in configuration["Env"]),
            command=configuration["Cmd"],
            folder=configuration["WorkingDir"],
        )

    def switch(self, *names: str) -> Switch:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="babelring-switch-")))
        switch = Switch(folder, list(names))
        self.addCleanup(switch.end)
        return switch

    def volume(self, name: str, user: int) -> Path:
        """A new volume, with the owner that Docker takes from the image's folder."""
        folder = self.folder / self._testMethodName / name
        folder.mkdir(parents=True)
        run("chown", f"{user}:{user}", folder)
        folder.chmod(0o700 if name in ("ssh", "server") else 0o755)
        return folder

    def corpus(self, folder: Path) -> None:
        """train and valid, .en and .de."""
        words = random.Random(7)
        for name, lines in (("train", 400), ("valid", 20)):
            for language in ("en", "de"):
                text = "".join(" ".join(words.choices("abcdefgh", k=6)) + "\n" for _ in range(lines))
                (folder / f"{name}.{language}").write_text(text)
        (folder / "config.yaml").write_text(CONFIG)

    def wait_healthy(self, switch: Switch, container: Container, test: list[str]) -> None:
        def healthy() -> bool:
            assert container.process is not None
            self.assertIsNone(container.process.poll(), switch.log(container.name))
            return switch.inside(container, *test).returncode == 0

        wait_for(f"a healthy {container.name}", healthy, 300)


def setUpModule() -> None:
    require("cpack", "dpkg-deb", "debootstrap", "buildah", "ip", "unshare", "nsenter")
    print(LEFT_OUT, file=sys.stderr)
    folder = ImageCase.folder = Path(tempfile.mkdtemp(prefix="babelring-image-"))
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    ImageCase.packages = make_packages(folder / "packages")
    run("tar", "-C", make_root(folder / "base"), "-cf", folder / "base.tar", ".")
    (folder / "Dockerfile").write_text('FROM scratch\nADD base.tar /\nCMD ["bash"]\n')
    ImageCase.build("base", "--file", folder / "Dockerfile", folder)
    unittest.addModuleCleanup(ImageCase.buildah, "umount", "--all")
    ImageCase.build_image("cpu")


class ImageTest(ImageCase):
    def test_the_server_works_on_a_read_only_root_without_rights(self) -> None:
        configuration = self.inspect("cpu")
        test = configuration["Healthcheck"]["Test"]
        self.assertEqual(test[0], "CMD")
        image, switch = self.image("cpu"), self.switch("server")
        self.assertNotEqual(image.user, 0)
        volumes = [(str(self.volume("server", image.user)), folder, "rw") for folder in configuration["Volumes"]]
        self.assertEqual([target for _, target, _ in volumes], ["/var/lib/babelring"])
        server = switch.start(Container("server", image, volumes=[*volumes, ("tmpfs", "/tmp", "rw")]))
        self.wait_healthy(switch, server, test[1:])
        status = switch.inside(server, "grep", "-E", "^(Uid|CapBnd|NoNewPrivs)", "/proc/1/status").stdout.split()
        self.assertEqual(status[1:3], [str(image.user)] * 2)
        self.assertEqual((status[status.index("CapBnd:") + 1], status[-1]), ("0" * 16, "1"))
        self.assertIn("Read-only", switch.inside(server, "touch", "/runs/x").stdout)
        secret = switch.inside(server, "babelring-make-token", "one", "read").stdout.strip()
        self.assertRegex(secret, r"^bbr_\w")
        for program in ("server", "babelring-server", "worker", "babelring-worker", "nmt"):
            done = switch.inside(server, program, "--version")
            self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(list((image.files / "etc/ssh").glob("ssh_host_*")), [], "host keys would be everybody's")
        run("bash", "-c", f"kill -STOP {self.pid(server)}")
        self.assertNotEqual(switch.inside(server, "timeout", "2", *test[1:]).returncode, 0)

    @staticmethod
    def pid(container: Container) -> str:
        assert container.process is not None
        return Path(f"/proc/{container.process.pid}/task/{container.process.pid}/children").read_text().split()[0]

    def test_the_image_for_gpus_has_the_module_and_its_library(self) -> None:
        if not list(self.packages.glob("babelring-cuda_*.deb")):
            self.skipTest("this build has no CUDA module")
        library = self.folder / "toolkit/usr/local/cuda-13.0/targets/x86_64-linux/lib/libcublasLt.so.13.0.1"
        library.parent.mkdir(parents=True)
        library.write_text("in place of NVIDIA's\n")
        # Links as in NVIDIA's images.
        (library.parent / "libcublasLt.so.13").symlink_to(library.name)
        (self.folder / "toolkit/usr/local/cuda-13.0/lib64").symlink_to("targets/x86_64-linux/lib")
        (self.folder / "toolkit/usr/local/cuda").symlink_to("/etc/alternatives/cuda")
        (self.folder / "toolkit/Dockerfile").write_text("FROM scratch\nCOPY usr /usr\n")
        self.build("toolkit", self.folder / "toolkit")
        self.build_image("cuda", "--build-arg", "CUDA_IMAGE=localhost/toolkit")
        image = self.image("cuda")
        self.assertTrue((image.files / "usr/lib/babelring/libbabelring_cuda.so").is_file())
        copied = image.files / "usr/lib/x86_64-linux-gnu/libcublasLt.so.13"
        self.assertEqual((copied.is_symlink(), copied.read_text()), (False, "in place of NVIDIA's\n"))
        self.assertEqual(image.user, self.image("cpu").user)

    def test_the_stage_that_compiles_finds_everything(self) -> None:
        self.build_image("configured")


class ComposeTest(ImageCase):
    def container(self, name: str, service: dict, image: Image, volumes: dict[str, Path]) -> Container:
        mounts = []
        for volume in service["volumes"]:
            source, target, *mode = volume.split(":")
            mounts.append((str(volumes[source]), target, (mode or ["rw"])[0]))
        self.assertTrue(service["read_only"])
        mounts += [("tmpfs", folder, "rw") for folder in service["tmpfs"]]
        return Container(name, image, service["command"], service.get("environment", {}), mounts)

    def test_two_hosts_train_and_report_to_the_server(self) -> None:
        services = yaml.safe_load((COMPOSE / "compose.yaml").read_text(encoding="utf-8"))["services"]
        image = self.image("cpu")
        switch = self.switch(*services)
        volumes = {name: self.volume(name, image.user) for name in ("server", "ssh", "tokens", "data", "runs")}
        made = {
            name: self.container(name, services[name], image, volumes)
            for name in ("server", "setup", "host-a", "host-b")
        }
        server = switch.start(made["server"])
        self.wait_healthy(switch, server, self.inspect("cpu")["Healthcheck"]["Test"][1:])
        for _ in range(2):  # the second time it finds everything there
            setup = switch.start(Container(**{**vars(made["setup"]), "process": None}))
            assert setup.process is not None
            self.assertEqual(setup.process.wait(timeout=300), 0, switch.log("setup"))
            run("rmdir", switch.folder / "setup-root")
        hosts = [switch.start(made[name]) for name in ("host-a", "host-b")]
        for host in hosts:
            self.wait_healthy(switch, host, services[host.name]["healthcheck"]["test"][1:])
        self.corpus(volumes["data"])
        execs = [line.split(" exec ", 1)[1] for line in commands_of(COMPOSE / "README.md") if " exec " in line]
        self.assertEqual(len(execs), 2, execs)
        for line in execs:  # as README.md says: nmt prepare, mpirun
            name, command = line.split(" ", 1)
            done = switch.inside(
                made[name], "bash", "-c", command.replace("--vocabulary-size 8000", "--vocabulary-size 18")
            )
            self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("4 ranks on 2 hosts", done.stdout)
        self.assertEqual(
            self.ranks(switch, volumes["tokens"]), [(0, "host-a"), (1, "host-a"), (2, "host-b"), (3, "host-b")]
        )

    def ranks(self, switch: Switch, tokens: Path) -> list[tuple[int, str]]:
        """The ranks and hosts of the run, as the server tells the host on which Prometheus runs; checks its metrics, too."""
        scrape = yaml.safe_load((COMPOSE / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"][0]
        file = tokens / Path(scrape["authorization"]["credentials_file"]).name
        self.assertEqual(file.stat().st_mode & 0o777, 0o644)
        self.assertEqual((tokens / "training.token").stat().st_mode & 0o777, 0o600)
        target = scrape["static_configs"][0]["targets"][0]
        host, port = target.split(":")

        def get(path: str) -> str:
            header = f"Authorization: Bearer {file.read_text().strip()}"
            words = ["-sSf", "-H", header, "--resolve", f"{target}:{switch.addresses[host]}", f"http://{target}{path}"]
            return run("ip", "netns", "exec", switch.namespace("prometheus"), "curl", *words)

        self.assertEqual(port, "8080")
        self.assertIn("babelring_runs{", get(scrape["metrics_path"]))
        run_id = json.loads(get("/api/v1/runs"))["items"][0]["id"]
        ranks = json.loads(get(f"/api/v1/runs/{urllib.parse.quote(run_id)}/ranks"))["items"]
        return [(rank["rank"], rank["host"]) for rank in ranks]


class KubernetesTest(ImageCase):
    """The pods of the StatefulSet and of the MPIJob."""

    def container(
        self, name: str, pod: dict, image: Image, mounts: dict[str, Path], more: list[tuple[str, str, str]]
    ) -> Container:
        (container,) = pod["spec"]["containers"]
        sources = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
        volumes = list(more)
        for mount in container["volumeMounts"]:
            source = "tmpfs" if "emptyDir" in sources.get(mount["name"], {}) else str(mounts[mount["name"]])
            volumes.append((source, mount["mountPath"], "ro" if mount.get("readOnly") else "rw"))
        environment = {variable["name"]: variable["value"] for variable in container.get("env", [])}
        return Container(name, image, container["command"] + container["args"], environment, volumes)

    def secret(self, name: str, files: dict[str, str], group: int) -> Path:
        """A folder as Kubernetes mounts it for a pod with this fsGroup."""
        folder = self.volume(name, 0)
        for file, text in files.items():
            (folder / file).write_text(text)
            run("chown", f"0:{group}", folder / file)
            (folder / file).chmod(0o640)
        folder.chmod(0o755)
        return folder

    def keys(self, group: int) -> Path:
        """SSH keys as the operators make them: the key is of another kind than its file's name says."""
        made = self.volume("made", 0)
        run("ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-m", "PEM", "-N", "", "-C", "", "-f", made / "id_rsa")
        files = {name: (made / name).read_text() for name in ("id_rsa", "id_rsa.pub")}
        return self.secret("keys", {**files, "authorized_keys": files["id_rsa.pub"]}, group)

    def test_pods_of_an_mpi_job_train_and_report(self) -> None:
        image, pod = self.image("cpu"), dict(kubernetes_test.pods())
        server_name = kubernetes_test.found("Service")["metadata"]["name"]
        switch = self.switch(server_name, "host-0", "host-1", "launcher")
        mounts = {name: self.volume(name, image.user) for name in ("server", "data", "runs")}
        server = switch.start(self.container(server_name, pod["server"], image, mounts, []))
        self.wait_healthy(switch, server, self.inspect("cpu")["Healthcheck"]["Test"][1:])
        token = switch.inside(server, "babelring-make-token", "cluster", "ingest").stdout
        mounts["tokens"] = self.secret("tokens", {"training": token}, image.user)
        self.corpus(mounts["data"])
        texts = [[mounts["data"] / f"{name}.{language}" for language in ("en", "de")] for name in ("train", "valid")]
        words = [
            "--train",
            *texts[0],
            "--valid",
            *texts[1],
            "--output",
            mounts["data"] / "ids",
            "--vocabulary-size",
            18,
        ]
        run(BIN / "nmt", "prepare", *words)
        key_folder = kubernetes_test.found("MPIJob")["spec"]["sshAuthMountPath"]
        keys = [(str(self.keys(image.user)), key_folder, "ro")]
        hosts = [
            switch.start(self.container(name, pod["MPIJob Worker"], image, mounts, keys))
            for name in ("host-0", "host-1")
        ]
        for host in hosts:
            self.wait_healthy(switch, host, ["bash", "-c", "exec 3<>/dev/tcp/localhost/2222"])
        other_key = f"KnownHostsCommand=/bin/sed s/AAAA/AAAB/ {key_folder}/id_rsa.pub"
        self.assertNotEqual(switch.inside(hosts[0], "ssh", "-o", other_key, "host-1", "true").returncode, 0)
        hosts_folder = self.volume("mpi", 0)
        (hosts_folder / "hostfile").write_text("host-0 slots=2\nhost-1 slots=2\n")
        (image.files / "etc/mpi").mkdir()  # as Kubernetes makes the places of volumes
        volumes = [*keys, (str(hosts_folder), "/etc/mpi", "ro")]
        launcher = self.container("launcher", pod["MPIJob Launcher"], image, mounts, volumes)
        # The operator sets Open MPI 4's variable; mpijob.yaml has Open MPI 5's.
        launcher.environment["OMPI_MCA_orte_default_hostfile"] = kubernetes_test.OPERATORS_HOSTFILE
        process = switch.start(launcher).process
        assert process is not None
        self.assertEqual(process.wait(timeout=300), 0, switch.log("launcher"))
        self.assertIn("4 ranks on 2 hosts", switch.log("launcher"))
        self.assertTrue((mounts["runs"] / "first/checkpoints").is_dir())
        header = (
            f"Authorization: Bearer {switch.inside(server, 'babelring-make-token', 'reader', 'read').stdout.strip()}"
        )
        answer = switch.inside(server, "curl", "-sSf", "-H", header, "http://localhost:8080/api/v1/runs").stdout
        self.assertEqual([item["name"] for item in json.loads(answer)["items"]], ["composed"])


if __name__ == "__main__":
    unittest.main()
