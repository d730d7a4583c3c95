"""The part of the demo with ThinkPHP, on real processes. Without a ThinkPHP the demo says how to get it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo import think_app

ROOT = Path(__file__).resolve().parent.parent


def demo(**environment: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "demo.run", "thinkphp"]
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.skipif(think_app.vendor() is None, reason="not run: DULY_THINK_VENDOR names no ThinkPHP")
def test_a_controller_pushes_and_a_worker_in_python_closes_the_order() -> None:
    status, said = demo()
    assert status == 0, said
    for line in ("closes order 7", "POST /orders/8/pay", "nothing lost, nothing early, nothing done twice"):
        assert line in said


def test_without_thinkphp_it_says_how_to_get_it(tmp_path: Path) -> None:
    status, said = demo(DULY_THINK_VENDOR=str(tmp_path))
    assert (status, said.strip()) == (2, think_app.HOW_TO_GET_IT)
