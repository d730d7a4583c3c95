#!/usr/bin/env python3
"""What the house looks like: layers, circles, lines, scripts, the longest functions and files.

    tools/house.py [checkout]

It reads the files that git lists in a checkout, this one or an older one (`git worktree add <folder>
<commit>`), so that two can be compared, and those that git does not know yet but would take. Tests are left out
everywhere. It finds functions by their indentation, which the formatters see to.
"""

from __future__ import annotations

import argparse
import ast
import pathlib
import re
import subprocess
from collections import Counter
from collections.abc import Iterator

IS_TEST = re.compile(
    r"(^|/)(tests|model|examples|demo|conformance|(python|php)-tests)/|/tests\.rs$|core/src/(layers|every_order|(bridge|schedule)/checks)\.rs|script/(lint|heads)\.rs$|worker/desk/orders(\.rs|/)"
)
LANGUAGES = {
    "Rust": "rs",
    "Lua": "lua",
    "Python": "py",
    "stubs of Python": "pyi",
    "PHP": "php",
    "stubs of PHP": "stubs.php",
}
LONGEST_FUNCTIONS = 12
LONGEST_FILE = 450

Graph = dict[str, set[str]]


def read(root: pathlib.Path) -> dict[str, str]:
    """The files of the checkout that are no tests, without the tests in them."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout
    endings = tuple(f".{ending}" for ending in LANGUAGES.values())
    names = [name for name in listed.splitlines() if name.endswith(endings) and not IS_TEST.search(name)]
    files = {name: (root / name).read_text() for name in names if (root / name).is_file()}
    return {name: re.split(r"#\[cfg\(test\)\]\n(?:pub\S* )?mod tests \{", text)[0] for name, text in files.items()}


class Modules:
    """The modules of `core/src`, and what each imports of the others."""

    def __init__(self, files: dict[str, str]) -> None:
        named = {
            name.removeprefix("core/src/").removesuffix(".rs").removesuffix("/mod"): text
            for name, text in files.items()
            if name.startswith("core/src/") and name.endswith(".rs")
        }
        self.code = {
            name.replace("/", "::"): "\n".join(line for line in text.splitlines() if not line.strip().startswith("//"))
            for name, text in named.items()
            if name != "lib"
        }
        self.imports: Graph = {name: set(self.imports_of(name)) - {name} for name in self.code}

    def imports_of(self, name: str) -> Iterator[str]:
        code = self.code[name]
        paths = [path for use in uses(code) for path in parts(use)]
        paths += re.findall(r"\b(?:crate|super|self)(?:::\w+)+", re.sub(r"\buse\s[^;]+;", "", code))
        for path in paths:
            module = self.module_of(name, path)
            if module:
                yield module

    def module_of(self, name: str, path: str, depth: int = 0) -> str | None:
        """Where what `path` names in this module is written: what a file gives out may be another's."""
        base, steps = name.split("::"), path.split("::")
        if steps[0] == "crate":
            base = []
        while steps and steps[0] in ("crate", "self", "super"):
            base = base[:-1] if steps[0] == "super" else base
            steps = steps[1:]
        while steps and "::".join([*base, steps[0]]) in self.code:
            base, steps = [*base, steps[0]], steps[1:]
        module = "::".join(base)
        if module not in self.code:
            return None
        for given in (given for use in uses(self.code[module], "pub") for given in parts(use)):
            if steps and depth < 4 and given.split("::")[-1] == steps[0] and not given.startswith(steps[0]):
                return self.module_of(module, given, depth + 1) or module
        return module


def uses(code: str, only: str = "") -> list[str]:
    """What stands behind each `use`."""
    return re.findall(rf"^\s*{only or '(?:pub)?'}(?:\([^)]*\))?\s*use\s+([^;]+);", code, re.M)


def parts(use: str, start: str = "") -> Iterator[str]:
    """The paths of `a::{b, c::d}`."""
    depth, text = 0, ""
    for c in use + ",":
        depth += (c == "{") - (c == "}")
        if c != "," or depth:
            text += c
            continue
        path = start + re.sub(r"\s+", " ", text).strip().split(" as ")[0]
        if path.endswith("}"):
            yield from parts(path[path.index("{") + 1 : -1], path[: path.index("{")])
        elif path != start:
            yield path
        text = ""


def circles(graph: Graph) -> list[list[str]]:
    """Those that reach each other, by Tarjan's algorithm."""
    found: list[list[str]] = []
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in sorted(graph[name] & graph.keys()):
            if other not in number:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            at = stack.index(name)
            if len(stack) > at + 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for name in sorted(graph):
        if name not in number:
            visit(name)
    return found


def report_layers(modules: Modules, root: pathlib.Path) -> None:
    layers = root / "core/src/layers.rs"
    listed = re.search(r"const LAYERS[^=]*= \[(.*?)\];", layers.read_text(), re.S) if layers.exists() else None
    order = re.findall(r'"(\w+)"', listed[1]) if listed else []
    edges: Counter[tuple[str, str]] = Counter()
    for name, code in modules.code.items():
        for other in re.findall(r"\bcrate::(\w+)", code):
            layer = name.split("::")[0]
            if other != layer and other in modules.code:
                edges[layer, other] += 1
    names = {name.split("::")[0] for name in modules.code}
    print(f"layers: {len(names)}, of which {len(edges)} pairs import {edges.total()} times")
    if order:
        upward = [edge for edge in sorted(edges) if order.index(edge[0]) < order.index(edge[1])]
        print(f"  upward: {len(upward)}{': ' if upward else ''}{', '.join(' -> '.join(edge) for edge in upward)}")
    else:
        of_layers: Graph = {name: {other for layer, other in edges if layer == name} for name in names}
        print(f"  core/src/layers.rs says no order; circles: {[' '.join(circle) for circle in circles(of_layers)]}")


def report_circles(modules: Modules) -> None:
    inside = {name: {other for other in to if "::" in other} for name, to in modules.imports.items() if "::" in name}
    found = circles(inside)
    print(f"circles of files inside a layer, without the file that gives out what is in its folder: {len(found)}")
    for circle in sorted(found, key=len, reverse=True):
        print(f"  {len(circle)}: {' '.join(circle)}")


def report_lines(files: dict[str, str]) -> None:
    print("lines, without tests:")
    for language, ending in LANGUAGES.items():
        texts = [text for name, text in files.items() if name.split(".", 1)[1] == ending]
        print(f"  {language:16} {sum(len(text.splitlines()) for text in texts):7,} in {len(texts)} files")


def assembled(files: dict[str, str], name: str, flags: dict[str, bool]) -> Iterator[str]:
    """The lines of a script behind its header, as `core/src/script/library.rs` puts them together."""
    is_part = True
    for line in map(str.strip, files[f"core/lua/{name}.lua"].splitlines()):
        if line.startswith("--- if "):
            is_part = flags[line.removeprefix("--- if ")]
        elif line == "--- else":
            is_part = not is_part
        elif line == "--- end":
            is_part = True
        elif is_part and line.startswith("--- include: "):
            for part in line.removeprefix("--- include: ").split(", "):
                yield from assembled(files, f"lib/{part}", flags)
        elif is_part and line and not line.startswith("--"):
            yield line


def report_scripts(files: dict[str, str]) -> None:
    print(
        "assembled scripts, lines and bytes behind the header: all of it; a plain queue's usual text, if that differs;"
        " and its full one, if that differs from the usual one"
    )
    declared = "".join(text for name, text in files.items() if name.startswith("core/src/script/"))
    kinds = dict(re.findall(r'= "([\w/]+)",\s*kind: \w+([^,]*),', declared))
    names = [name.removeprefix("core/lua/").removesuffix(".lua") for name in files if name.startswith("core/lua/")]
    for name in sorted(name for name in names if not name.startswith("lib/")):
        has_shapes, has_extents = ("shapes" in kinds.get(name, ""), "extents" in kinds.get(name, ""))
        texts = [
            list(assembled(files, name, {"plain": plain, "usual": usual, "limited": not plain, "full": not usual}))
            for plain, usual in ((False, False), (has_shapes, has_extents), (has_shapes, False))
        ]
        sizes = [f"{len(lines):4} {sum(len(line) + 1 for line in lines):6,}" for lines in texts]
        differs = [True, texts[1] != texts[0], texts[2] != texts[1]]
        columns = [size if shown else " " * len(size) for size, shown in zip(sizes, differs, strict=True)]
        print(f"  {name:20} {'   '.join(columns)}".rstrip())


FUNCTION = {
    "rs": r"(\s*)(?:(?:pub(?:\([^)]*\))?|async|const|unsafe|extern \"C\") )*fn (\w+)",
    "php": r"(\s*)(?:(?:final|private|protected|public|static|abstract) )*function (\w+)",
    "lua": r"(\s*)local function ([\w.]+)",
}


def functions(name: str, text: str) -> Iterator[tuple[int, str]]:
    """How long each is, and what to call it."""
    ending, lines = name.rsplit(".", 1)[1], text.splitlines()
    if ending == "py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield (node.end_lineno or node.lineno) - node.lineno + 1, f"{name}:{node.lineno} {node.name}"
    for at, line in enumerate(lines):
        begins = re.match(FUNCTION[ending], line) if ending in FUNCTION else None
        if begins and not line.rstrip().endswith((";", "}", " end")):
            last = begins[1] + ("end" if ending == "lua" else "}")
            declared = re.compile(rf"{begins[1]}(?:\}}|\).*);$")
            ends = (k for k in range(at, len(lines)) if lines[k].rstrip() == last or declared.match(lines[k]))
            yield next(ends, at) - at + 1, f"{name}:{at + 1} {begins[2]}"


def outside_of_functions(name: str, text: str) -> tuple[int, str]:
    """How long the code of a Lua file is without its functions and its head."""
    lines = text.splitlines()
    head = next((at for at, line in enumerate(lines) if not line.startswith("-- ")), 0)
    inside = sum(length for length, where in functions(name, text) if not is_indented(lines, where))
    return len(lines) - head - inside, f"{name} outside of functions"


def is_indented(lines: list[str], where: str) -> bool:
    at = int(where.split(" ")[0].rsplit(":", 1)[1])
    return lines[at - 1].startswith(" ")


def report_longest(files: dict[str, str]) -> None:
    print("longest functions, and code of Lua outside of functions:")
    found = [each for name, text in files.items() for each in functions(name, text)]
    found += [outside_of_functions(name, text) for name, text in files.items() if name.endswith(".lua")]
    found.sort(reverse=True)
    for length, where in found[:LONGEST_FUNCTIONS]:
        print(f"  {length:4} {where}")
    print(f"files of more than {LONGEST_FILE} lines:")
    sizes = sorted(((len(text.splitlines()), name) for name, text in files.items()), reverse=True)
    for length, name in sizes:
        if length > LONGEST_FILE:
            print(f"  {length:4} {name}")


def main() -> None:
    asked = argparse.ArgumentParser(description="What the house looks like.")
    asked.add_argument("checkout", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root: pathlib.Path = asked.parse_args().checkout
    files = read(root)
    modules = Modules(files)
    report_layers(modules, root)
    report_circles(modules)
    report_lines(files)
    report_scripts(files)
    report_longest(files)


if __name__ == "__main__":
    main()
