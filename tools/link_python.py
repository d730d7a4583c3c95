#!/usr/bin/env python3
"""Makes `.venv` import the package `duly` from the checkout, with its commands and its pytest plugin.

That is what `maturin develop` does, too, but without its build: `tools/build.sh --dev` has put the compiled module
beside the package already, in the shape that it shares with the Rust tests. Does nothing when nothing has changed.
"""

import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SITE = pathlib.Path(sysconfig.get_path("purelib"))
SOURCES = [ROOT / "pyproject.toml", ROOT / "Cargo.toml", ROOT / "py-binding" / "Cargo.toml"]


def linked() -> bool:
    """It is, and was after its metadata changed."""
    found = [*SITE.glob("duly-*.dist-info/METADATA")]
    newest = max(source.stat().st_mtime for source in SOURCES)
    return len(found) == 1 and (SITE / "duly.pth").exists() and found[0].stat().st_mtime > newest


def link(folder: pathlib.Path) -> None:
    maturin = ["maturin", "pep517", "write-dist-info", "--metadata-directory", str(folder)]
    subprocess.run([sys.executable, "-m", *maturin], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    (info,) = folder.glob("duly-*.dist-info")
    wheel = folder / f"{info.name.removesuffix('.dist-info')}-py3-none-any.whl"
    content = {path.relative_to(folder).as_posix(): path.read_bytes() for path in info.rglob("*") if path.is_file()}
    content["duly.pth"] = f"{ROOT / 'py-binding' / 'python'}\n".encode()
    record = f"{info.name}/RECORD"
    content[record] = "".join(f"{name},,\n" for name in [*content, record]).encode()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in content.items():
            archive.writestr(name, text)
    pip = ["pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--force-reinstall"]
    subprocess.run([sys.executable, "-m", *pip, str(wheel)], check=True)


if not linked():
    with tempfile.TemporaryDirectory() as name:
        link(pathlib.Path(name))
