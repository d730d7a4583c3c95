#!/usr/bin/env python3
"""Writes the classes of `duly.aio` in the extension's stub from those of `duly`: each method gives a `Call` instead.

    tools/aio_stub.py           writes them
    tools/aio_stub.py --check   only says which ones differ

So a method is written once, in `Queue`, and `AsyncQueue` gets it from here. Kept as they are: the docstrings of the
classes, what only they have, and the methods of `OWN`.
"""

import ast
import pathlib
import re
import subprocess
import sys

STUB = pathlib.Path(__file__).resolve().parent.parent / "py-binding" / "python" / "duly" / "_core.pyi"
# Methods with a text of their own.
OWN = {("AsyncQueue", "push_many")}
# What sends nothing, or is more than a call.
RETURNS = {
    ("AsyncClient", "__new__"): "AsyncClient",
    ("AsyncClient", "queue"): "AsyncQueue",
    ("AsyncClient", "partitions"): "AsyncQueue",
    ("AsyncClient", "topic"): "AsyncTopic",
    ("AsyncClient", "lock"): "LockCall",
    ("AsyncJob", "lock"): "LockCall",
}


def start(node: ast.FunctionDef | ast.ClassDef) -> int:
    """Give the index of its first line, that of a decorator."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1


def methods(node: ast.ClassDef, lines: list[str]) -> dict[str, tuple[ast.FunctionDef, list[str]]]:
    """Give each method with its lines, and the blank ones and comments in front of it, by its name."""
    found, begin = {}, 0
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            found[item.name] = (item, lines[begin : item.end_lineno])
        begin = item.end_lineno or 0
    return found


def derived(owner: str, function: ast.FunctionDef, lines: list[str], async_names: set[str]) -> list[str]:
    """Give the method's lines with what it returns there."""
    assert function.returns is not None, f"{owner}.{function.name} says nothing of what it returns"
    given = ast.unparse(function.returns)
    given = re.sub(r"\b\w+\b", lambda name: f"Async{name[0]}" if f"Async{name[0]}" in async_names else name[0], given)
    is_property = any(ast.unparse(decorator) == "property" for decorator in function.decorator_list)
    if not is_property:
        given = f"Call[{given}]"
    given = RETURNS.get((owner, function.name), given)
    assert function.end_lineno is not None
    row = len(lines) - (function.end_lineno - function.returns.lineno) - 1
    line = lines[row]
    changed = line[: function.returns.col_offset] + given + line[function.returns.end_col_offset :]
    return [*lines[:row], changed, *lines[row + 1 :]]


def written(text: str) -> str:
    """Give the stub with the methods of the asyncio classes."""
    lines = text.splitlines()
    classes = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}
    async_names = {name for name in classes if name.startswith("Async")}
    for name in sorted(async_names, key=lambda name: classes[name].lineno, reverse=True):
        node = classes[name]
        own, others = methods(node, lines), methods(classes[name.removeprefix("Async")], lines)
        body: list[str] = []
        for method, (function, of_sync) in others.items():
            opposite = method.replace("__enter__", "__aenter__").replace("__exit__", "__aexit__")
            if opposite in own and (opposite != method or (name, method) in OWN):
                body += own[opposite][1]
            else:
                body += derived(name, function, of_sync, async_names)
        for method, (_, kept) in own.items():
            if method not in others and method not in ("__aenter__", "__aexit__"):
                body += kept
        first = next(item for item in node.body if isinstance(item, ast.FunctionDef))
        begin = node.body[node.body.index(first) - 1].end_lineno if first is not node.body[0] else start(first)
        lines[begin : node.end_lineno] = body
    ruff = [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", str(STUB), "-"]
    formatted = subprocess.run(ruff, input="\n".join(lines) + "\n", text=True, stdout=subprocess.PIPE, check=True)
    return formatted.stdout


def main() -> int:
    """Write the stub, or say that it would change."""
    before = STUB.read_text("utf-8")
    after = written(before)
    if before == after:
        return 0
    if "--check" in sys.argv:
        print("the classes of duly.aio differ from those of duly in the stub: run tools/aio_stub.py")
        return 1
    STUB.write_text(after, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
