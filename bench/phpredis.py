"""`python -m bench.phpredis`: single pushes from PHP, through duly and through the extension redis, on one server.

Prints the time of a call and how many times that of phpredis' `rPush` it is. `rPush` gives a job neither an id nor a
lease, and does not check whether it is there already: it is the least that any queue on Redis costs.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from bench.server import Server

HERE = Path(__file__).resolve().parent
LEAST = "phpredis rPush"


def main() -> None:
    with Server() as server:
        command = ["php", str(HERE / "phpredis.php"), server.url]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    figures = {figure["way"]: figure for figure in map(json.loads, said.splitlines())}
    least = figures[LEAST]["us"]
    for way, figure in figures.items():
        spread = f"({figure['from']:.1f} to {figure['to']:.1f})"
        print(f"{way:26} {figure['us']:7.1f} us {spread:16} {figure['us'] / least:5.2f} times {LEAST}")


if __name__ == "__main__":
    main()
