#!/usr/bin/env python3
"""Copies the docstrings of the extension's stub into its Rust source, from which `help()` takes them.

    tools/docstrings.py           writes them
    tools/docstrings.py --check   only says which ones differ

The stub is what is edited. A class or function of the extension that the stub does not document is left alone.
"""

import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
STUB = ROOT / "py-binding" / "python" / "duly" / "_core.pyi"
SOURCES = sorted((ROOT / "py-binding" / "src").rglob("*.rs"))


def documented() -> dict[tuple[str, str], list[str]]:
    """Give the lines of each docstring by class and function; the function of a class's own is empty."""
    found: dict[tuple[str, str], list[str]] = {}
    for node in ast.parse(STUB.read_text("utf-8")).body:
        if not isinstance(node, ast.ClassDef):
            continue
        if text := ast.get_docstring(node):
            found[node.name, ""] = text.splitlines()
        for function in node.body:
            if isinstance(function, ast.FunctionDef) and (text := ast.get_docstring(function)):
                found[node.name, function.name] = text.splitlines()
    return found


def written(source: str, docs: dict[tuple[str, str], list[str]], used: set[tuple[str, str]]) -> str:
    """Give the source with the docstrings in front of what they document."""
    lines: list[str] = []
    item: list[str] = []  # comments and attributes in front of the next item
    depth, owner, in_methods = 0, "", False
    for line in source.splitlines():
        stripped = line.strip()
        if depth > 0:  # an attribute goes on
            item.append(line)
            depth += line.count("(") + line.count("[") - line.count(")") - line.count("]")
            continue
        if stripped.startswith(("///", "#[")):
            item.append(line)
            if stripped.startswith("#["):
                depth = line.count("(") + line.count("[") - line.count(")") - line.count("]")
            continue
        attributes = " ".join(item)
        if match := re.match(r"impl(?:<[^>]*>)? (\w+)", line):
            owner, in_methods = match[1], "#[pymethods]" in attributes
        elif match := re.match(r"pub\(crate\) struct (\w+)", line):
            item = with_doc(item, docs, used, (match[1], "") if "#[pyclass" in attributes else None)
        elif match := re.match(r"    (?:pub\(\w+\) )?fn (\w+)", line):
            item = with_doc(item, docs, used, (owner, match[1]) if in_methods else None, "    ")
        lines += [*item, line]
        item = []
    return "\n".join([*lines, *item]) + "\n"


def with_doc(
    item: list[str],
    docs: dict[tuple[str, str], list[str]],
    used: set[tuple[str, str]],
    name: tuple[str, str] | None,
    indent: str = "",
) -> list[str]:
    if name not in docs or name is None:
        return item
    used.add(name)
    doc = [f"{indent}/// {line}".rstrip() for line in docs[name]]
    return [*doc, *(line for line in item if not line.strip().startswith("///"))]


def main() -> int:
    docs = documented()
    used: set[tuple[str, str]] = set()
    differing = []
    for file in SOURCES:
        before = file.read_text("utf-8")
        after = written(before, docs, used)
        if before != after:
            differing.append(str(file.relative_to(ROOT)))
            if "--check" not in sys.argv:
                file.write_text(after, "utf-8")
    if "--check" in sys.argv and differing:
        print(f"docstrings differ from the stub, run tools/docstrings.py: {', '.join(differing)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
