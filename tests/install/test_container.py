"""The container: its rules, and its commands in a clean environment; built and run where there is Docker."""

import json
import os
import re
import shutil
import socket
import subprocess
import time

import psutil
import pytest
from running_commands import ROOT, run

TOKEN = "correct-horse"


def instructions():
    """Return the instructions of the Dockerfile, as (name, arguments)."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line and line[0] != "#"]


def last(name):
    return [arguments for instruction, arguments in instructions() if instruction == name][-1]


def test_the_service_is_not_run_by_root_and_files_come_from_here_only():
    names = [name for name, _ in instructions()]
    assert last("USER") not in ("root", "0")
    assert names.index("USER") > max(index for index, name in enumerate(names) if name == "RUN")
    assert "ADD" not in names
    assert last("COPY").split() == ["dist/*.whl", "/tmp/dist/"]
    assert (ROOT / ".dockerignore").read_text().split() == ["*", "!dist/*.whl"]


def test_compose_listens_on_this_machine_and_needs_a_token():
    text = (ROOT / "compose.yaml").read_text()
    assert '"127.0.0.1:8000:8000"' in text
    assert "${NUTIME_TOKEN:?" in text
    for rule in ("read_only: true", "cap_drop: [ALL]", "no-new-privileges:true"):
        assert rule in text


@pytest.mark.slow
def test_the_commands_of_the_container_run_in_a_clean_environment(environment, capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*json.loads(last("ENTRYPOINT")), *json.loads(last("CMD")), "--port", str(port)]
    check = re.search(r"CMD (python .*)", last("HEALTHCHECK"))[1].replace(":8000/", f":{port}/")
    variables = {"PATH": f"{environment}:{os.defpath}", "NUTIME_TOKEN": TOKEN, "HOME": "/nonexistent"}
    user = {"user": 10001, "group": 10001, "extra_groups": []} if os.getuid() == 0 else {}
    start = time.monotonic()
    service = subprocess.Popen(
        [shutil.which(command[0], path=str(environment)), *command[1:]],
        env=variables, cwd="/tmp", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **user,
    )  # fmt: skip
    try:
        assert service.stdout.readline().startswith(f"http://0.0.0.0:{port}/embed"), service.stderr.read()
        while subprocess.run(check, shell=True, env=variables, capture_output=True, check=False).returncode:
            assert service.poll() is None
            assert time.monotonic() - start < 120
        seconds, process = time.monotonic() - start, psutil.Process(service.pid)
        memory = process.memory_info().rss / 2**20
        wrong = {**variables, "NUTIME_TOKEN": "wrong"}
        assert subprocess.run(check, shell=True, env=wrong, capture_output=True, check=False).returncode
        with capsys.disabled():
            print(f"\ncontainer: ready after {seconds:.1f} s, {memory:.0f} MB")
    finally:
        service.terminate()
        assert service.wait(60) == 0


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("docker"), reason="there is no Docker")
def test_the_container_becomes_healthy(dist, tmp_path):
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        pytest.skip("no Docker daemon answers")
    shutil.copy(ROOT / "Dockerfile", tmp_path)
    shutil.copytree(dist, tmp_path / "dist")
    image = run("docker", "build", "--quiet", tmp_path).strip()
    container = run("docker", "run", "--detach", "--read-only", "-e", f"NUTIME_TOKEN={TOKEN}", image).strip()
    try:
        for _ in range(120):
            status = run("docker", "inspect", "--format", "{{.State.Health.Status}}", container).strip()
            if status == "healthy":
                return
            time.sleep(1)
        pytest.fail(run("docker", "logs", container))
    finally:
        run("docker", "rm", "--force", container)
