"""deploy/proxy: nginx, Apache, Caddy and HAProxy with the shipped configurations before the real server. Each is skipped if
it is absent."""

from __future__ import annotations

import http.client
import json
import os
import pwd
import shutil
import ssl
import subprocess
import unittest
from pathlib import Path

from cases import SystemTest
from system import BIN, ROOT, Server, held_port, make_certificate, wait_for

PROXY = ROOT / "deploy/proxy"
#: What encloses a site: a process in the foreground that writes into a folder of the test.
NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  {site}
}}
"""
APACHE = """
ServerRoot {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/apache.log
DefaultRuntimeDir {folder}
Mutex file:{folder}
ServerName localhost
User {user}
Listen 127.0.0.1:{port}
{modules}
{site}
"""
APACHE_MODULES = ("mpm_event", "authz_core", "ssl", "headers", "env", "proxy", "proxy_http", "socache_shmcb")


class ProxiedServer(Server):
    """A server with the options that deploy/proxy/README.md gives."""

    def command(self) -> list:
        options = self.log.with_name("server.yaml")
        options.write_text(
            f"listen: 127.0.0.1:{self.port}\ndata: {self.folder}\ncheckpoint-root: [{self.checkpoints}]\n"
            "behind-proxy: true\nallow-host: [localhost]\naccess-log: all\n",
            encoding="utf-8",
        )
        return [BIN / "server", "--options", options]


class ProxyTest(SystemTest):
    server_type = ProxiedServer

    def setUp(self) -> None:
        super().setUp()
        self.server_behind = self.server()
        self.token = self.server_behind.token()
        self.certificate, self.key = self.folder / "cert.pem", self.folder / "key.pem"
        make_certificate("localhost", self.certificate, self.key)
        os.environ["BABELRING_CA_FILE"] = str(self.certificate)  # for the workers
        self.addCleanup(os.environ.pop, "BABELRING_CA_FILE")
        self.tls = ssl.create_default_context(cafile=self.certificate)
        self.holder = held_port()
        self.addCleanup(self.holder.close)
        self.port = self.holder.getsockname()[1]

    def site(self, file: str, replacements: dict[str, str]) -> str:
        text = (PROXY / file).read_text(encoding="utf-8")
        for old, new in {"127.0.0.1:8080": f"127.0.0.1:{self.server_behind.port}", **replacements}.items():
            self.assertIn(old, text)
            text = text.replace(old, new)
        return text

    def start_proxy(self, command: list) -> None:
        environment = {**os.environ, "XDG_DATA_HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)}
        with open(self.folder / "proxy.log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def answers() -> bool:
            self.assertIsNone(process.poll(), (self.folder / "proxy.log").read_text())
            try:
                return self.get("/healthz").status == 200
            except OSError:
                return False

        wait_for("the proxy's first answer", answers)

    def get(self, path: str, source: str = "127.0.0.1", **headers: str) -> http.client.HTTPResponse:
        """The answer, whose body is not read yet, to a client at the address `source`."""
        connection = http.client.HTTPSConnection(
            "localhost", self.port, timeout=120, context=self.tls, source_address=(source, 0)
        )
        self.addCleanup(connection.close)
        headers.setdefault("Authorization", f"Bearer {self.token}")
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        return connection.getresponse()

    def check_all(self) -> None:
        self.check_client_address()
        self.check_page_write()
        stream = self.get("/api/v1/events?topic=metrics")
        self.assertEqual((stream.status, stream.getheader("Content-Type")), (200, "text/event-stream"))
        run = self.start_run(server=f"https://localhost:{self.port}", token_file=self.folder / "server" / "admin.token")
        # The stream never ends, and there are fewer events than a proxy's buffer holds: this would wait for ever.
        line = b""
        while not line.startswith(b"data:"):
            line = stream.readline()
            self.assertTrue(line, "the stream ended")
        self.assertIsInstance(json.loads(line[5:]), dict)
        self.assertEqual(run.wait(), 0, run.text())
        self.check_range()

    def check_client_address(self) -> None:
        """A client's forged address is not believed; limits and the access log have the real one."""
        forged = self.get("/api/v1/runs", source="127.0.0.77", X_Forwarded_For="203.0.113.9", Authorization="Bearer no")
        self.assertEqual(forged.status, 401)
        log = self.folder / "server" / "access.log"
        refused = wait_for(
            "the line of the access log",
            lambda: [entry for entry in map(json.loads, log.read_text().splitlines()) if entry.get("status") == 401],
        )
        self.assertEqual([entry["address"] for entry in refused], ["127.0.0.77"])
        self.assertNotIn("203.0.113.9", log.read_text())

    def check_page_write(self) -> None:
        """A page of this origin, on a port that is not 443, may write, and one of another may not. An entity tag comes back
        as the server made it."""
        for origin, status in ((f"https://localhost:{self.port}", 201), ("https://evil.example", 403)):
            headers = {"Origin": origin, "Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
            connection = http.client.HTTPSConnection("localhost", self.port, timeout=120, context=self.tls)
            connection.request("POST", "/api/v1/tokens", '{"name": "x", "scope": "read"}', headers)
            self.assertEqual(connection.getresponse().status, status, origin)
            connection.close()
        openapi = self.get("/api/v1/openapi.json", Accept_Encoding="gzip")
        tag = openapi.getheader("ETag")
        self.assertRegex(tag, '^(W/)?"[^"]*"$')
        self.assertEqual(self.get("/api/v1/openapi.json", Accept_Encoding="gzip", If_None_Match=tag).status, 304)

    def check_range(self) -> None:
        checkpoint = wait_for("a checkpoint", self.checkpoint)
        path = f"/api/v1/checkpoints/{checkpoint['id']}/files/weights.safetensors"
        whole = self.get(path).read()
        part = self.get(path, Range="bytes=1000-1999")
        self.assertEqual(part.status, 206)
        self.assertEqual(part.getheader("Content-Range"), f"bytes 1000-1999/{len(whole)}")
        self.assertEqual(part.read(), whole[1000:2000])

    def checkpoint(self) -> dict | None:
        run = json.load(self.get("/api/v1/runs"))["items"][0]["id"]
        items = json.load(self.get(f"/api/v1/runs/{run}/checkpoints"))["items"]
        return items[0] if items else None

    def start_nginx(self, replacements: dict[str, str]) -> None:
        site = self.site(
            "nginx.conf",
            {
                "listen 443 ssl": f"listen 127.0.0.1:{self.port} ssl",
                "server_name train.example.org": "server_name localhost",
                "/etc/babelring/fullchain.pem": str(self.certificate),
                "/etc/babelring/privkey.pem": str(self.key),
                **replacements,
            },
        )
        configuration = self.folder / "nginx.conf"
        configuration.write_text(NGINX.format(folder=self.folder, site=site), encoding="utf-8")
        self.start_proxy(["nginx", "-e", self.folder / "nginx.log", "-c", configuration])

    @unittest.skipUnless(shutil.which("nginx"), "nginx is not installed (package nginx)")
    def test_nginx(self) -> None:
        self.start_nginx({})
        self.check_all()

    @unittest.skipUnless(shutil.which("nginx"), "nginx is not installed (package nginx)")
    def test_nginx_below_a_path(self) -> None:
        """As deploy/proxy/README.md says: the server's own addresses in answers have the path, and workers find it."""
        below = "location = /healthz { return 200; }\n  location /babelring/ {\n"
        self.start_nginx(
            {
                "location / {": below + "    proxy_set_header X-Forwarded-Prefix /babelring;",
                "proxy_pass http://babelring;": "proxy_pass http://babelring/;",
            }
        )
        address = f"https://localhost:{self.port}/babelring"
        self.finish_run(server=address, token_file=self.folder / "server" / "admin.token")
        (item,) = json.load(self.get("/babelring/api/v1/runs?limit=1&state=succeeded"))["items"]
        logs = self.get(f"/babelring/api/v1/runs/{item['id']}/logs", Accept="text/plain")
        link = logs.getheader("Link")
        self.assertTrue(link.startswith("</babelring/api/v1/runs/r_"), link)
        self.assertEqual(self.get(link[1 : link.index(">")]).status, 200)

    @unittest.skipUnless(shutil.which("apache2"), "Apache is not installed (package apache2-bin)")
    def test_apache(self) -> None:
        program = Path(shutil.which("apache2"))
        installed = Path("/usr/lib/apache2/modules")
        folders = [installed] if installed.exists() else [*program.parent.glob("*/usr/lib/apache2/modules")]
        modules = [f"LoadModule {name}_module {folders[0]}/mod_{name}.so" for name in APACHE_MODULES]
        site = self.site(
            "apache.conf",
            {
                "<VirtualHost *:443>": f"<VirtualHost 127.0.0.1:{self.port}>",
                "ServerName train.example.org": "ServerName localhost",
                "/etc/babelring/fullchain.pem": str(self.certificate),
                "/etc/babelring/privkey.pem": str(self.key),
            },
        )
        configuration = self.folder / "apache.conf"
        user = pwd.getpwuid(os.getuid()).pw_name
        text = APACHE.format(
            folder=self.folder,
            port=self.port,
            user="nobody" if user == "root" else user,
            modules="\n".join(modules),
            site=site,
        )
        configuration.write_text(text, encoding="utf-8")
        self.start_proxy([program, "-X", "-f", configuration])
        self.check_all()

    @unittest.skipUnless(shutil.which("haproxy"), "HAProxy is not installed (package haproxy)")
    def test_haproxy(self) -> None:
        pair = self.folder / "pair.pem"
        pair.write_text(self.certificate.read_text() + self.key.read_text(), encoding="utf-8")
        site = self.site(
            "haproxy.cfg", {"bind :443": f"bind 127.0.0.1:{self.port}", "/etc/babelring/train.pem": str(pair)}
        )
        configuration = self.folder / "haproxy.cfg"
        configuration.write_text(site, encoding="utf-8")
        self.start_proxy(["haproxy", "-db", "-f", configuration])
        self.check_all()

    @unittest.skipUnless(shutil.which("caddy"), "Caddy is not installed (package caddy)")
    def test_caddy(self) -> None:
        site = self.site(
            "Caddyfile",
            {
                "train.example.org {\n": f"https://localhost:{self.port} {{\n\tbind 127.0.0.1\n"
                f"\ttls {self.certificate} {self.key}\n"
            },
        )
        configuration = self.folder / "Caddyfile"
        configuration.write_text("{\n\tadmin off\n\tauto_https off\n}\n" + site, encoding="utf-8")
        checked = subprocess.run(
            ["caddy", "validate", "--adapter", "caddyfile", "--config", configuration], capture_output=True, text=True
        )
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.start_proxy(["caddy", "run", "--adapter", "caddyfile", "--config", configuration])
        self.check_all()


if __name__ == "__main__":
    unittest.main()
