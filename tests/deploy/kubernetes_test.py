"""deploy/kubernetes: the files are of the public schemas (schemas.yaml), what one object names another has, and options,
configuration keys, ports and folders are those of the programs and the image. image_test.py runs the pods."""

from __future__ import annotations

import copy
import functools
import re
import shutil
import subprocess
import unittest
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import yaml
from programs import ROOT, unknown_words, unknown_words_of

FOLDER = ROOT / "deploy" / "kubernetes"
OPERATORS_HOSTFILE = "/etc/mpi/hostfile"  # where both operators put the list of hosts


@functools.cache
def image_text(file: str) -> str:
    return (ROOT / "deploy/docker" / file).read_text(encoding="utf-8")


def objects(folder: str) -> list[dict]:
    """The objects of the kustomization in this folder."""
    kustomization = yaml.safe_load((FOLDER / folder / "kustomization.yaml").read_text(encoding="utf-8"))
    texts = [(FOLDER / folder / file).read_text(encoding="utf-8") for file in kustomization["resources"]]
    return [item for text in texts for item in yaml.safe_load_all(text)]


def everything() -> list[dict]:
    return [item for folder in ("server", "mpijob", "trainjob") for item in objects(folder)]


def found(kind: str) -> dict:
    (only,) = [item for item in everything() if item["kind"] == kind]
    return only


def pods() -> Iterator[tuple[str, dict]]:
    """Each pod's template, with a name for messages."""
    yield "server", found("StatefulSet")["spec"]["template"]
    for role, replicas in found("MPIJob")["spec"]["mpiReplicaSpecs"].items():
        yield f"MPIJob {role}", replicas["template"]
    for job in found("TrainingRuntime")["spec"]["template"]["spec"]["replicatedJobs"]:
        yield f"TrainingRuntime {job['name']}", job["template"]["spec"]["template"]


class Schemas(unittest.TestCase):
    def setUp(self) -> None:
        schema = yaml.safe_load((Path(__file__).parent / "schemas.yaml").read_text(encoding="utf-8"))
        self.definitions = {
            name: jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]})
            for name in schema["$defs"]
        }
        self.validator = jsonschema.Draft202012Validator(schema)
        jsonschema.Draft202012Validator.check_schema(schema)

    def kind_of(self, item: dict) -> jsonschema.Draft202012Validator:
        names = {"PersistentVolumeClaim": "claim", "MPIJob": "mpi_job"}
        name = names.get(item["kind"], re.sub(r"(?<=[a-z])(?=[A-Z])", "_", item["kind"]).lower())
        return self.definitions[name]

    def test_every_file_is_of_its_schema(self) -> None:
        files = sorted(FOLDER.rglob("*.yaml"))
        self.assertGreater(len(files), 7)
        for file in files:
            for item in yaml.safe_load_all(file.read_text(encoding="utf-8")):
                with self.subTest(file=file.name, kind=item["kind"]):
                    errors = [f"{error.json_path}: {error.message}" for error in self.kind_of(item).iter_errors(item)]
                    self.assertEqual(errors, [])
                    self.assertTrue(self.validator.is_valid(item), "of exactly one kind")

    def test_a_field_that_does_not_exist_is_refused(self) -> None:
        job = found("MPIJob")
        for path, name in (((), "slots"), (("runPolicy",), "retries"), (("mpiReplicaSpecs", "Worker"), "count")):
            wrong = copy.deepcopy(job)
            place = wrong["spec"]
            for step in path:
                place = place[step]
            place[name] = 1
            self.assertIn(name, " ".join(error.message for error in self.kind_of(wrong).iter_errors(wrong)))

    @unittest.skipUnless(shutil.which("kubectl"), "there is no kubectl")
    def test_kustomize_builds_each_folder_with_its_image(self) -> None:
        for folder in ("server", "mpijob", "trainjob"):
            done = subprocess.run(["kubectl", "kustomize", FOLDER / folder], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            built = list(yaml.safe_load_all(done.stdout))
            self.assertEqual(len(built), len(objects(folder)))
            self.assertEqual(set(re.findall(r"image: (\S+)", done.stdout)), {"babelring:latest"})
            self.assertLessEqual({item["metadata"].get("namespace", "babelring") for item in built}, {"babelring"})


class References(unittest.TestCase):
    def test_objects_that_others_name_are_there(self) -> None:
        claims = {item["metadata"]["name"] for item in everything() if item["kind"] == "PersistentVolumeClaim"}
        readme = (FOLDER / "README.md").read_text(encoding="utf-8")
        named: set[str] = set()
        for name, pod in pods():
            with self.subTest(pod=name):
                volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
                own = {claim["metadata"]["name"] for claim in found("StatefulSet")["spec"]["volumeClaimTemplates"]}
                available = set(volumes) | (own if name == "server" else set())
                for container in pod["spec"]["containers"]:
                    mounted = {mount["name"] for mount in container["volumeMounts"]}
                    self.assertEqual(mounted, available)
                for volume in volumes.values():
                    if "persistentVolumeClaim" in volume:
                        named.add(volume["persistentVolumeClaim"]["claimName"])
                    if "secret" in volume:
                        self.assertIn(f"create secret generic {volume['secret']['secretName']} ", readme)
        self.assertEqual(named, claims)
        reference = found("TrainJob")["spec"]["runtimeRef"]
        runtime = found("TrainingRuntime")
        self.assertEqual((reference["name"], reference["kind"]), (runtime["metadata"]["name"], runtime["kind"]))
        self.assertEqual(reference["apiGroup"], runtime["apiVersion"].split("/")[0])

    def test_service_and_rules_select_the_pods(self) -> None:
        labels = {name: pod["metadata"]["labels"] for name, pod in pods()}
        service, state = found("Service"), found("StatefulSet")["spec"]
        self.assertEqual(service["spec"]["selector"], labels["server"])
        self.assertEqual(state["selector"]["matchLabels"], labels["server"])
        self.assertEqual(state["serviceName"], service["metadata"]["name"])
        policies = {item["metadata"]["name"]: item["spec"] for item in everything() if item["kind"] == "NetworkPolicy"}
        self.assertEqual(policies["babelring-server"]["podSelector"]["matchLabels"], labels["server"])
        training = policies["babelring-training"]["podSelector"]["matchLabels"]
        self.assertEqual(
            [label for name, label in labels.items() if label == training and name != "server"], [training] * 4
        )
        to_server = next(
            rule for rule in policies["babelring-training"]["egress"] if rule.get("ports", [{}])[0].get("port") == 8080
        )
        self.assertEqual(to_server["to"][0]["podSelector"]["matchLabels"], labels["server"])

    def test_ports_are_those_that_programs_listen_on(self) -> None:
        (server,) = found("StatefulSet")["spec"]["template"]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in server["ports"]}
        (listen,) = [word for word in server["args"] if word.startswith("--listen=")]
        self.assertEqual(ports, {"http": int(listen.rpartition(":")[2])})
        (port,) = found("Service")["spec"]["ports"]
        self.assertIn(port["targetPort"], ports)
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            self.assertIn(server[kind]["httpGet"]["port"], ports)
            self.assertEqual(server[kind]["httpGet"]["httpHeaders"], [{"name": "Host", "value": "localhost"}])
        (ssh,) = re.findall(r"^Port (\d+)$", image_text("sshd_config"), re.MULTILINE)
        for name, pod in pods():
            (container,) = pod["spec"]["containers"]
            if container.get("command") == ["/usr/sbin/sshd"]:
                self.assertEqual([port["containerPort"] for port in container["ports"]], [int(ssh)], name)
        service = found("Service")["metadata"]["name"]
        (address,) = {word for word in self.training() if word.startswith("--server=")}
        self.assertEqual(address, f"--server=http://{service}:{port['port']}")
        self.assertIn(f"--allow-host={service}", server["args"])

    @staticmethod
    def training() -> list[str]:
        (launcher,) = found("MPIJob")["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
        return launcher["command"] + launcher["args"]

    def test_programs_have_the_options_and_keys(self) -> None:
        (server,) = found("StatefulSet")["spec"]["template"]["spec"]["containers"]
        trainer = found("TrainJob")["spec"]["trainer"]
        self.assertEqual(trainer["command"] + trainer["args"], self.training())
        self.assertIn("babelring-worker", self.training())
        self.assertEqual(unknown_words(server["command"] + server["args"]), [])
        self.assertEqual(unknown_words(self.training()), [])
        self.assertEqual(unknown_words(["babelring-worker", "--no-such", "data.no=1"]), ["--no-such", "data.no=1"])
        self.assertEqual(unknown_words_of(FOLDER / "README.md"), [])

    def test_files_that_trainings_name_are_mounted_where_rank_0_runs(self) -> None:
        files = [word.partition("=")[2] for word in self.training() if "=/" in word]
        self.assertEqual(len(files), 4)
        for name, pod in pods():
            if name not in ("MPIJob Worker", "TrainingRuntime node"):
                continue
            mounts = [mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]]
            for file in files:
                self.assertTrue(any(file.startswith(f"{mount}/") for mount in mounts), f"{name}: {file}")

    def test_launchers_see_the_run_folder_in_which_rank_0_notes_the_end(self) -> None:
        (folder,) = [word.partition("=")[2] for word in self.training() if word.startswith("--run-dir=")]
        for name, pod in pods():
            if "auncher" in name:
                mounts = [mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]]
                self.assertTrue(any(folder.startswith(f"{mount}/") for mount in mounts), name)

    def test_launchers_name_the_list_of_hosts_for_open_mpi_5(self) -> None:
        """Both operators set the variable of Open MPI 4 alone; without its own, 5 starts all ranks in the launcher and exits 0."""
        launchers = {name: pod for name, pod in pods() if "auncher" in name}
        self.assertEqual(set(launchers), {"MPIJob Launcher", "TrainingRuntime launcher"})
        for name, pod in launchers.items():
            with self.subTest(pod=name):
                (container,) = pod["spec"]["containers"]
                variable = {"name": "PRTE_MCA_prte_default_hostfile", "value": OPERATORS_HOSTFILE}
                self.assertEqual(container["env"], [variable])

    def test_both_jobs_start_the_same_ranks(self) -> None:
        job, runtime = found("MPIJob")["spec"], found("TrainingRuntime")["spec"]
        trainer = found("TrainJob")["spec"]["trainer"]
        ranks = (job["mpiReplicaSpecs"]["Worker"]["replicas"], job["slotsPerWorker"])
        self.assertEqual(ranks, (trainer["numNodes"], trainer["numProcPerNode"]))
        self.assertEqual(ranks, (runtime["mlPolicy"]["numNodes"], runtime["mlPolicy"]["mpi"]["numProcPerNode"]))
        jobs = runtime["template"]["spec"]["replicatedJobs"]
        self.assertEqual([item["name"] for item in jobs], ["node", "launcher"], "the names that Kubeflow Trainer knows")
        for item in jobs:
            (container,) = item["template"]["spec"]["template"]["spec"]["containers"]
            self.assertEqual(container["name"], "node", "into others it mounts no keys")


class Rights(unittest.TestCase):
    def test_pods_are_restricted_and_run_as_the_user_of_the_image(self) -> None:
        (user,) = re.findall(r"--uid (\d+)", image_text("Dockerfile"))
        for name, pod in pods():
            with self.subTest(pod=name):
                spec = pod["spec"]
                context = spec["securityContext"]
                self.assertEqual({context[key] for key in ("runAsUser", "runAsGroup", "fsGroup")}, {int(user)})
                self.assertEqual((context["runAsNonRoot"], context["seccompProfile"]["type"]), (True, "RuntimeDefault"))
                self.assertFalse(spec["automountServiceAccountToken"])
                self.assertIn("/tmp", [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]])
                for container in spec["containers"]:
                    rights = container["securityContext"]
                    self.assertEqual(rights["capabilities"], {"drop": ["ALL"]})
                    self.assertEqual(
                        (rights["allowPrivilegeEscalation"], rights["readOnlyRootFilesystem"]), (False, True)
                    )

    def test_ssh_keys_are_mounted_where_the_image_looks(self) -> None:
        folders = {found("MPIJob")["spec"]["sshAuthMountPath"]}
        folders.add(found("TrainingRuntime")["spec"]["mlPolicy"]["mpi"]["sshAuthMountPath"])
        (folder,) = folders
        self.assertIn(f"HostKey {folder}/id_rsa\n", image_text("sshd_config"))
        self.assertIn(f"AuthorizedKeysFile {folder}/authorized_keys\n", image_text("sshd_config"))
        self.assertIn(f" {folder}/id_rsa.pub\n", image_text("ssh_config"))


if __name__ == "__main__":
    unittest.main()
