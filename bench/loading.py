"""`python -m bench.loading [module]`: what it costs PHP to load the extension before its first use.

Pairs of `php -n` with and without the module, in turn, so that a busy machine slows both. Time: what a process of the
command line pays at each start, and php-fpm once for all children. Memory: private dirty pages, which each process has
for itself; a child of php-fpm shares those of its master until it writes to them, so that it pays less.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAIRS = 60
MOST_MS = 1.0
MOST_KIB = 512
SHOW = "echo file_get_contents('/proc/self/smaps_rollup');"


def private_kib(*options: str) -> int:
    said = subprocess.run(["php", "-n", *options, "-r", SHOW], capture_output=True, text=True, check=True).stdout
    return int(re.findall(r"Private_Dirty: +(\d+) kB", said)[0])


def elapsed_ms(*options: str) -> float:
    started = time.perf_counter()
    subprocess.run(["php", "-n", *options, "-r", ""], check=True)
    return (time.perf_counter() - started) * 1000


def main() -> None:
    module = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "duly.so").resolve()
    load = ("-d", f"extension={module}")
    os.sync()  # pages of a new file that are not written yet would count as private ones
    took, kib = [], []
    for _ in range(PAIRS):
        took.append(elapsed_ms(*load) - elapsed_ms())
        kib.append(private_kib(*load) - private_kib())
    print(f"{module.name}, {module.stat().st_size / 1e6:.1f} MB, {PAIRS} pairs")
    print(f"load_ms   {statistics.median(took):6.2f}  (at most {MOST_MS})")
    print(f"load_kib  {statistics.median(kib):6.0f}  (at most {MOST_KIB})")


if __name__ == "__main__":
    main()
