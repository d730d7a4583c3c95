"""The examples of deployment are what their programs read: Docker, systemd, supervisord, Kubernetes, GitHub."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "examples" / "deploy"
GRACE_S = 30
BIN = Path(sys.executable).parent


def says(*command: str | Path) -> tuple[int, str]:
    ended = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("file", sorted(DEPLOY.glob("docker/*.Dockerfile")), ids=lambda file: file.stem)
def test_a_dockerfile_is_as_hadolint_asks(file: Path) -> None:
    assert says(BIN / "hadolint", "--config", file.parent / ".hadolint.yaml", file) == (0, "")
    # What it copies from the checkout is there.
    for source in re.findall(r"^COPY (?!--from|\.|shop )(\S+)", file.read_text("utf-8"), re.MULTILINE):
        assert (ROOT / source).exists()
    assert "php-binding/ext" not in file.read_text("utf-8") or (ROOT / "php-binding/ext/config.m4").exists()


def test_a_dockerfile_with_a_mistake_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM php\nRUN cd /tmp\nENTRYPOINT php worker.php\n", "utf-8")
    status, said = says(BIN / "hadolint", tmp_path / "Dockerfile")
    assert status != 0
    assert "DL3006" in said


@pytest.mark.parametrize("file", sorted(DEPLOY.glob("systemd/*.service")), ids=lambda file: file.stem)
def test_systemd_reads_a_unit(file: Path, tmp_path: Path) -> None:
    text = file.read_text("utf-8")
    # systemd wants the programs to be there.
    unit = tmp_path / file.name
    unit.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE), "utf-8")
    assert says("systemd-analyze", "verify", "--man=no", unit) == (0, "")
    assert int(re.findall(r"TimeoutStopSec=(\d+)", text)[0]) > GRACE_S + 15
    assert f"--grace {GRACE_S}" in text


@pytest.mark.parametrize("file", sorted(DEPLOY.glob("systemd/*.service")), ids=lambda file: file.stem)
def test_a_reload_of_a_unit_replaces_the_processes(file: Path) -> None:
    assert "\nExecReload=/bin/kill -HUP $MAINPID\n" in file.read_text("utf-8")


def test_systemd_refuses_a_unit_with_a_mistake(tmp_path: Path) -> None:
    unit = tmp_path / "wrong.service"
    unit.write_text("[Service]\nType=exec\nExecStart=/bin/true\nKillMode=mixd\n", "utf-8")
    assert "kill mode" in says("systemd-analyze", "verify", "--man=no", unit)[1]


def test_supervisord_reads_its_programs(tmp_path: Path) -> None:
    from supervisor.options import ServerOptions  # type: ignore[import-untyped]

    text = (DEPLOY / "supervisor" / "duly.conf").read_text("utf-8")
    config = tmp_path / "supervisord.conf"
    # It looks for the user and the folder of the log.
    config.write_text(
        "[supervisord]\n" + text.replace("user=www-data", "user=root").replace("/var/log", "/tmp"), "utf-8"
    )
    options = ServerOptions()
    options.realize(["-c", str(config)])
    [group] = options.process_group_configs
    [program] = group.process_configs
    assert program.command.endswith(f"duly-worker bootstrap.php --processes 4 --grace {GRACE_S}")
    assert program.stopwaitsecs > GRACE_S + 15
    assert (program.stopasgroup, program.killasgroup) == (False, True)
    parsed = configparser.RawConfigParser()
    parsed.read_string(text)
    assert parsed.sections() == ["program:duly-php"]


@pytest.mark.parametrize("file", sorted(DEPLOY.glob("kubernetes/*.yaml")), ids=lambda file: file.stem)
def test_kubernetes_knows_a_manifest(file: Path, tmp_path: Path) -> None:
    status, said = says(BIN / "kubernetes-validate", "--strict", file)
    assert (status, "passed" in said) == (0, True)
    text = file.read_text("utf-8")
    assert int(re.findall(r"terminationGracePeriodSeconds: (\d+)", text)[0]) > GRACE_S + 15
    assert f'"--grace", "{GRACE_S}"' in text
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(text.replace("replicas: 4", "replicas: four"), "utf-8")
    assert says(BIN / "kubernetes-validate", "--strict", wrong)[0] != 0


def test_the_page_has_the_times_of_the_files() -> None:
    page = (ROOT / "docs" / "php" / "deployment.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| (systemd|supervisord|Kubernetes) \|.*\| (\d+)[^|]*\|$", page, re.MULTILINE))
    files = {
        "systemd": ("systemd/duly-php.service", r"TimeoutStopSec=(\d+)"),
        "supervisord": ("supervisor/duly.conf", r"stopwaitsecs=(\d+)"),
        "Kubernetes": ("kubernetes/php-worker.yaml", r"terminationGracePeriodSeconds: (\d+)"),
    }
    assert rows == {
        name: re.findall(pattern, (DEPLOY / file).read_text("utf-8"))[0] for name, (file, pattern) in files.items()
    }
    for file in re.findall(r"`((?:docker|systemd|supervisor|kubernetes)/[^`]+)`", page):
        assert (DEPLOY / file).exists(), file


def test_docker_does_not_copy_what_was_built() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert {".git", ".venv", "build", "target"} <= set(ignored)


@pytest.mark.parametrize("file", sorted(ROOT.glob(".github/workflows/*.yml")), ids=lambda file: file.stem)
def test_a_workflow_is_one_of_github(file: Path) -> None:
    status, said = says(BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", file)
    assert status == 0, said
