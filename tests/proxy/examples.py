"""folio behind the proxies of docs/proxy, as they stand there: TLS, streams, limits, who asks and what a request is called.

    python3 tests/proxy/examples.py build/release/folio

Where a proxy, or openssl, is not installed its part is skipped; where none is, the status is 77.
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))
sys.dont_write_bytecode = True
from service import KEY, Program, Service  # noqa: E402

EXAMPLES = HERE.parent.parent / "docs" / "proxy"
NAME = "models.example.org"
CLIENT = "127.0.0.2"  # another address of this machine than the proxy's


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def changed(text, *pairs):
    for old, new in pairs:
        assert old in text, f"{old!r} is no longer in the example"
        text = text.replace(old, new)
    return text


def example(kind, program, port, upstream):
    """The example of docs/proxy with other ports and another certificate, and the command that runs it."""
    here = program.directory
    certificate = (f"/etc/ssl/{NAME}/", here + "/")
    to = ("127.0.0.1:8080", f"127.0.0.1:{upstream}")
    if kind == "nginx":
        site = changed((EXAMPLES / "nginx.conf").read_text(), ("listen 443 ", f"listen {port} "), certificate, to)
        program.write(
            "nginx.conf",
            f"pid {here}/nginx.pid; error_log stderr; daemon off; worker_processes 1; events {{}}\n"
            f"http {{ access_log off; client_body_temp_path {here}/body; proxy_temp_path {here}/proxy;\n"
            f"fastcgi_temp_path {here}/f; uwsgi_temp_path {here}/u; scgi_temp_path {here}/s;\n{site}}}\n",
        )
        command = [shutil.which("nginx"), "-p", here, "-c", here + "/nginx.conf"]
        return command, [*command, "-t"]
    if kind == "caddy":
        site = changed((EXAMPLES / "Caddyfile").read_text(), (f"\n{NAME} {{", f"\n{NAME}:{port} {{"), certificate, to)
        program.write("Caddyfile", "{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + site)
        words = ["--config", here + "/Caddyfile", "--adapter", "caddyfile"]
        return ["caddy", "run", *words], ["caddy", "validate", *words]
    site = changed((EXAMPLES / "haproxy.cfg").read_text(), ("bind :443 ", f"bind :{port} "), certificate, to)
    program.write("haproxy.cfg", site)
    command = [shutil.which("haproxy"), "-f", here + "/haproxy.cfg"]
    return [*command, "-db"], [*command, "-c"]


class Proxy:
    """One of them in front of the service; ends with the block."""

    def __init__(self, kind, program, service):
        self.kind, self.program = kind, program
        self.port = free_port()
        self.upstream = int(service.url.rsplit(":", 1)[1])
        self.connection = None

    def __enter__(self):
        command, check = example(self.kind, self.program, self.port, self.upstream)
        environment = {**os.environ, "HOME": self.program.directory, "XDG_DATA_HOME": self.program.directory}
        checked = subprocess.run(check, env=environment, capture_output=True, text=True)
        assert checked.returncode == 0, f"{self.kind}: {checked.stdout}{checked.stderr}"
        self.log = open(self.program.file(self.kind + ".log"), "w")
        self.process = subprocess.Popen(command, env=environment, stdout=self.log, stderr=self.log)
        end = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return self
            assert time.monotonic() < end and self.process.poll() is None, open(self.log.name).read()
            time.sleep(0.05)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.log.close()

    def connect(self):
        context = ssl.create_default_context(cafile=self.program.file("fullchain.pem"))
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=context, timeout=60, source_address=(CLIENT, 0)
        )
        # By its name, as its certificate has it.
        connection.sock = context.wrap_socket(
            socket.create_connection(("127.0.0.1", self.port), 60, (CLIENT, 0)), server_hostname=NAME
        )
        return connection

    def ask(self, method, path, body=None, connection=None, **headers):
        connection = connection or self.connect()
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers.setdefault("Host", f"{NAME}:{self.port}")
        headers.setdefault("Authorization", "Bearer " + KEY)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.getheader("X-Request-Id"), answer

    def check(self, log):
        """`log` gives the line of a request's id."""
        # The client is named, whatever it says of itself, and so is its request.
        status, name, answer = self.ask("GET", "/v1/models", X_Request_Id=self.kind + "-1", X_Forwarded_For="192.0.2.9")
        assert (status, name) == (200, self.kind + "-1"), (status, name, answer.read())
        line = log(name)
        assert (line["client"], line["key"], line["path"]) == (CLIENT, "tests", "/v1/models"), line
        _, made, _ = self.ask("GET", "/health")
        assert re.fullmatch("[0-9a-f-]{32,36}", made) and log(made)["path"] == "/health", made
        assert self.ask("GET", "/v1/models", Authorization="Bearer no")[0] == 401
        # The page's own requests come from its own origin.
        assert self.ask("GET", "/v1/models", Origin=f"https://{NAME}:{self.port}")[0] == 200
        assert self.ask("GET", "/v1/models", Origin="https://other.example")[0] == 403
        # Bodies of nearly 8 MiB pass, larger ones do not.
        large = " " * (7 << 20) + json.dumps({"model": "letters", "content": "a"})
        assert self.ask("POST", "/tokenize", large)[0] == 200
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLError):
            status = self.ask("POST", "/tokenize", b"a" * (9 << 20))[0]
            assert status in (413, 502), (self.kind, status)  # which Caddy 2.6 says of them
        self.check_stream()

    def running(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=60)
        connection.request("GET", "/metrics", headers={"Authorization": "Bearer " + KEY})
        text = connection.getresponse().read().decode()
        return int(re.search(r"^folio_texts_running (\d+)$", text, re.M).group(1))

    def check_stream(self):
        """The first piece of a text is there while it is written, and a client that goes ends it."""
        connection = self.connect()
        body = {
            "model": "letters", "prompt": "a", "stream": True, "max_tokens": 10**6, "when_full": "slide", "ignore_eos": True,
        }  # fmt: skip
        status, _, answer = self.ask("POST", "/v1/completions", json.dumps(body), connection)
        assert status == 200, (status, answer.read())
        assert answer.readline().startswith(b"data: {")
        assert self.running() == 1
        connection.sock.close()
        answer.close()
        end = time.monotonic() + 30
        while self.running() > 0:
            assert time.monotonic() < end, "the text goes on without its client"
            time.sleep(0.05)


def main(path):
    kinds = [kind for kind in ("nginx", "caddy", "haproxy") if shutil.which(kind)]
    for kind in sorted({"nginx", "caddy", "haproxy"} - set(kinds)):
        print(f"skipped: {kind} is not installed", file=sys.stderr)
    if not kinds or not shutil.which("openssl"):
        print("skipped: needs openssl, and one of nginx, caddy and haproxy", file=sys.stderr)
        return 77
    program = Program(path)
    os.chmod(program.directory, 0o755)  # nginx's workers are of another user
    program.train_models()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}", "-keyout", "privkey.pem",
         "-out", "fullchain.pem"],
        cwd=program.directory, check=True, capture_output=True,
    )  # fmt: skip
    program.write("both.pem", open(program.file("fullchain.pem")).read() + open(program.file("privkey.pem")).read())
    program.write("named.txt", f"tests:{KEY}\n")
    flags = ["--api-key-file", "named.txt", "--trusted-proxy", "127.0.0.1", "--allow-host", NAME, "--access-log", "log"]

    def log(name):
        end = time.monotonic() + 30
        while True:
            for line in open(program.file("log")):
                if json.loads(line)["id"] == name:
                    return json.loads(line)
            assert time.monotonic() < end, f"{name} is not logged"
            time.sleep(0.05)

    with contextlib.ExitStack() as open_ones:
        service = open_ones.enter_context(Service(program, *flags, keys=False))
        proxies = [open_ones.enter_context(Proxy(kind, program, service)) for kind in kinds]
        for proxy in proxies:
            proxy.check(log)
        # After folio has closed what was idle, nobody's request gets a broken connection.
        for proxy in proxies:
            assert proxy.ask("POST", "/tokenize", '{"model": "letters", "content": "a"}')[0] == 200
        time.sleep(5.2)
        for proxy in proxies:
            assert proxy.ask("POST", "/tokenize", '{"model": "letters", "content": "a"}')[0] == 200, proxy.kind
            print(f"{proxy.kind}: as docs/proxy has it")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
