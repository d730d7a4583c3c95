"""`python -m bench.loading [module]`: what it costs PHP to load the extension before its first use.

Pairs with and without the module, in turn, so that a busy machine slows both. Once processes of the command line: the
time of each start, and private dirty pages. Then children of php-fpm, which share the pages of their master until they
write to them: the memory of a child that has answered a request without duly, and the time of a request that is the
first of its child, from the fork to the answer.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAIRS = 60
POOLS = 8
REQUESTS = 100
MOST_MS = 1.0
MOST_KIB = 512
SHOW = "echo file_get_contents('/proc/self/smaps_rollup');"


def private_kib(*options: str) -> int:
    said = subprocess.run(["php", "-n", *options, "-r", SHOW], capture_output=True, text=True, check=True).stdout
    return private_in(said)


def private_in(smaps: str) -> int:
    return int(re.findall(r"Private_Dirty: +(\d+) kB", smaps)[0])


def start_ms(*options: str) -> tuple[float, float]:
    """The milliseconds of a start, elapsed and of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(["php", "-n", *options, "-r", ""], check=True)
    elapsed = time.perf_counter() - started
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
    return elapsed * 1000, busy * 1000


class Pool:
    """php-fpm with one child, which ends behind each request; another one is forked then."""

    def __init__(self, *options: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="duly-bench-")
        folder = Path(self._folder.name)
        self._script, self._socket = folder / "show.php", folder / "fpm.sock"
        self._script.write_text(f"<?php {SHOW}")
        lines = ["[global]", f"error_log={folder}/log", "[www]", f"listen={self._socket}", "user=root", "pm=static"]
        (folder / "fpm.conf").write_text("\n".join([*lines, "pm.max_children=1", "pm.max_requests=1", ""]))
        command = [fpm(), "-n", *options, "-F", "-R", "-y", str(folder / "fpm.conf")]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not self._socket.exists():
            if self._process.poll() is not None:
                sys.exit(f"bench: php-fpm ended with {self._process.returncode}")
            time.sleep(0.01)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def busy_s(self) -> float:
        """The seconds that its children have used the processor, those that have ended."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    def request(self) -> str:
        """Its answer."""
        params = b""
        for name, value in {"SCRIPT_FILENAME": str(self._script), "REQUEST_METHOD": "GET"}.items():
            params += struct.pack(">BI", len(name), len(value) | 0x80000000) + name.encode() + value.encode()
        records = [(1, struct.pack(">HB5x", 1, 0)), (4, params), (4, b""), (5, b"")]
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(30)
            line.connect(str(self._socket))
            line.sendall(b"".join(struct.pack(">BBHHBx", 1, kind, 1, len(text), 0) + text for kind, text in records))
            return b"".join(iter(lambda: line.recv(65536), b"")).decode("utf-8", "replace")


def fpm() -> str:
    """The php-fpm of the version that `php` is."""
    version = subprocess.run(["php", "-r", "echo PHP_MAJOR_VERSION, '.', PHP_MINOR_VERSION;"], capture_output=True)
    name = f"php-fpm{version.stdout.decode()}"
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin") or shutil.which("php-fpm")
    return found or sys.exit("bench: no php-fpm here: run tools/setup.sh")


def of_child(*options: str) -> tuple[float, float, int]:
    """Of a child with one request: how long that takes, how long its life uses the processor (both in ms), its KiB."""
    took, kib = [], []
    with Pool(*options) as pool:
        pool.request()
        before = pool.busy_s()
        for _ in range(REQUESTS):
            started = time.perf_counter()
            said = pool.request()
            took.append((time.perf_counter() - started) * 1000)
            kib.append(private_in(said))
        busy = (pool.busy_s() - before) / REQUESTS
    return statistics.median(took), busy * 1000, statistics.median_high(kib)


def main() -> None:
    module = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "duly.so").resolve()
    load = ("-d", f"extension={module}")
    os.sync()  # pages of a new file that are not written yet would count as private ones
    took, busy, kib = [], [], []
    for _ in range(PAIRS):
        elapsed, used = (a - b for a, b in zip(start_ms(*load), start_ms(), strict=True))
        took.append(elapsed)
        busy.append(used)
        kib.append(private_kib(*load) - private_kib())
    print(f"{module.name}, {module.stat().st_size / 1e6:.1f} MB, {PAIRS} pairs")
    show("load", took, busy, kib)
    took, busy, kib = [], [], []
    for _ in range(POOLS):
        elapsed, used, more = (a - b for a, b in zip(of_child(*load), of_child(), strict=True))
        took.append(elapsed)
        busy.append(used)
        kib.append(int(more))
    print(f"children of php-fpm, {POOLS} pairs of pools, {REQUESTS} children each")
    show("child", took, busy, kib)


def show(what: str, took: list[float], busy: list[float], kib: list[int]) -> None:
    print(f"{what}_ms     {statistics.median(took):6.2f}  (at most {MOST_MS}, on an idle machine)")
    print(f"{what}_cpu_ms {statistics.median(busy):6.2f}")
    print(f"{what}_kib    {statistics.median(kib):6.0f}  (at most {MOST_KIB})")


if __name__ == "__main__":
    main()
