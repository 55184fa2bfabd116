"""deploy/compose: Docker's own reader takes the file, and the files name services, ports, volumes, tokens and options that are
there. image_test.py runs it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.parse
from pathlib import Path

import yaml
from programs import ROOT, unknown_words, unknown_words_of

COMPOSE = ROOT / "deploy" / "compose"


def load(file: str) -> dict:
    return yaml.safe_load((COMPOSE / file).read_text(encoding="utf-8"))


class BuildContext(unittest.TestCase):
    def test_every_folder_that_the_build_needs_reaches_the_image(self) -> None:
        cmake = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        added = re.findall(r"^add_subdirectory\(([a-z]+)", cmake, re.MULTILINE) + ["nmt", "cmake"]
        self.assertGreater(len(added), 6)
        allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        self.assertEqual([folder for folder in added if f"!{folder}" not in allowed], [], "missing in .dockerignore")


class ComposeFile(unittest.TestCase):
    def setUp(self) -> None:
        self.file = load("compose.yaml")
        self.services: dict[str, dict] = self.file["services"]
        self.ours = {name: service for name, service in self.services.items() if "BABELRING_IMAGE" in service["image"]}

    @unittest.skipUnless(shutil.which("docker-compose"), "there is no docker-compose (package docker-compose)")
    def test_docker_compose_takes_it(self) -> None:
        done = subprocess.run(
            ["docker-compose", "--file", COMPOSE / "compose.yaml", "config"], capture_output=True, text=True, timeout=60
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(set(yaml.safe_load(done.stdout)["services"]), set(self.services))

    def test_our_pods_have_no_rights_and_known_options(self) -> None:
        self.assertEqual(set(self.ours), {"server", "setup", "host-a", "host-b"})
        for name, service in self.ours.items():
            with self.subTest(service=name):
                self.assertTrue(service["read_only"])
                self.assertEqual((service["cap_drop"], service["tmpfs"]), (["ALL"], ["/tmp"]))
                self.assertEqual(service["security_opt"], ["no-new-privileges:true"])
                self.assertEqual(unknown_words(service["command"]), [])
        self.assertEqual(unknown_words_of(COMPOSE / "README.md"), [])
        self.assertEqual(unknown_words_of(ROOT / "deploy/docker/README.md"), [])

    def test_ports_are_published_on_loopback(self) -> None:
        ports = [port for service in self.services.values() for port in service.get("ports", [])]
        self.assertEqual([port.split(":")[0] for port in ports], ["127.0.0.1"] * 2)

    def test_volumes_and_files_are_there(self) -> None:
        dockerfile = (ROOT / "deploy/docker/Dockerfile").read_text(encoding="utf-8")
        used = set()
        for name, service in self.services.items():
            for volume in service["volumes"]:
                source, target = volume.split(":")[:2]
                if source.startswith("."):
                    self.assertTrue((COMPOSE / source).is_file(), source)
                    continue
                used.add(source)
                if name in self.ours:  # Docker takes owner and mode of a new volume from the image's folder
                    self.assertRegex(dockerfile, rf"install -d -o babelring .*{re.escape(target)}\b", target)
        self.assertEqual(used, set(self.file["volumes"]))
        boards = load("grafana-boards.yaml")["providers"][0]["options"]["path"]
        self.assertIn(f":{boards}/babelring.json:ro", " ".join(self.services["grafana"]["volumes"]))
        self.assertTrue(self.services["setup"]["command"][-1].endswith("/deploy/compose/setup.sh"))

    def test_services_call_each_other_by_their_names(self) -> None:
        allowed = [word.partition("=")[2] for word in self.services["server"]["command"] if "--allow-host" in word]
        listen = next(word for word in self.services["server"]["command"] if "--listen" in word).rpartition(":")[2]
        scrape = load("prometheus.yml")["scrape_configs"][0]
        calls = [scrape["static_configs"][0]["targets"][0]]
        calls.append(urllib.parse.urlparse(self.services["setup"]["environment"]["BABELRING_SERVER"]).netloc)
        self.assertEqual(calls, [f"{allowed[0]}:{listen}"] * 2)
        self.assertIn(allowed[0], self.services)
        self.assertIn(
            urllib.parse.urlparse(load("grafana-source.yaml")["datasources"][0]["url"]).hostname, self.services
        )
        for service in self.services.values():
            self.assertLessEqual(set(service.get("depends_on", {})), set(self.services))
        for name in ("host-a", "host-b"):
            self.assertEqual(self.services[name]["hostname"], name)

    def test_setup_keeps_its_results(self) -> None:
        """With programs that stand in for those of the image."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            script = (COMPOSE / "setup.sh").read_text(encoding="utf-8")
            for path in ("/home/babelring/.ssh", "/run/babelring"):
                self.assertIn(path, script)
                (folder / path[1:]).mkdir(parents=True)
                script = script.replace(path, f"{folder}{path}")
            (folder / "bin").mkdir()
            stand_in = folder / "bin/babelring-make-token"
            stand_in.write_text('#!/bin/sh\necho "$1 $2 $$"\n')
            stand_in.chmod(0o755)
            contents = []
            for _ in range(2):
                run = subprocess.run(
                    ["bash", "-c", script], env={"PATH": f"{folder}/bin:/usr/bin:/bin"}, capture_output=True, text=True
                )
                self.assertEqual((run.returncode, run.stderr), (0, ""))
                contents.append({file: file.read_text() for file in sorted(folder.rglob("*")) if file.is_file()})
            self.assertEqual(contents[0], contents[1])
            tokens = {file.name: text.split()[:2] for file, text in contents[0].items() if file.suffix == ".token"}
            self.assertEqual(
                tokens,
                {"prometheus.token": ["compose-prometheus", "read"], "training.token": ["compose-training", "ingest"]},
            )
            scrape = load("prometheus.yml")["scrape_configs"][0]
            self.assertIn(Path(scrape["authorization"]["credentials_file"]).name, tokens)


if __name__ == "__main__":
    unittest.main()
