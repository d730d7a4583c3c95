#!/usr/bin/env bash
# Builds the wheel and tries it as a user gets it: in an empty venv, outside of the checkout, with types.
#
# One of three builds of their own in `make test`: in the shape that all steps share, the wheel would have traces and the features
# that other crates of the workspace ask for, and so not be what users get. (The others are the guard's, in release mode, and the check
# of a Python without the GIL.)
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

VIRTUAL_ENV=$root/.venv .venv/bin/maturin build --quiet --out "$folder"
.venv/bin/python -m venv "$folder/venv"
python=$folder/venv/bin/python
"$python" -m pip install --quiet --disable-pip-version-check --no-index "$folder"/duly-*.whl

cd "$folder"
cat >shop.py <<'END'
import duly

client = duly.Client("embedded:data")
queue: duly.Queue = client.queue("orders")
pushed: str = queue.push({"order_id": 42}, name="order.close")
job = queue.reserve(wait=5)
assert job is not None and job.id == pushed and job.data == {"order_id": 42}
job.ack()
END
"$root/.venv/bin/mypy" --strict --no-error-summary --python-executable "$python" shop.py
"$python" shop.py
venv/bin/duly --help >/dev/null
echo "the wheel works: $(basename "$folder"/duly-*.whl)"
