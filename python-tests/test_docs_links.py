"""Links between the pages lead somewhere, and each translation has what its original has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HOME = "https://github.com/duly-queue/duly/blob/main/"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TRANSLATIONS = [page for page in PAGES if page.name.endswith(".zh-CN.md")]
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
# Of a program, to its end of the line. A colon before it is that of a URL.
COMMENT = re.compile(r"(^|\s)(//|#|;) .*$", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """Give the anchors that GitHub makes of the headings."""
    found = Counter[str]()
    for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        found[f"{anchor}-{found[anchor]}" if found[anchor] else anchor] += 1
    return set(found)


def broken(page: Path, text: str) -> list[str]:
    """List the links of a page that lead nowhere."""
    wrong = []
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
        if link.startswith(HOME):
            file, _, anchor = link.removeprefix(HOME).partition("#")
            target = ROOT / file
        elif re.match(r"[a-z]+:", link):
            continue
        else:
            file, _, anchor = link.partition("#")
            target = page.parent / file if file else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert broken(page, page.read_text("utf-8")) == []


def test_a_link_that_leads_nowhere_is_noticed() -> None:
    page = ROOT / "README.md"
    good = f"[a](docs/errors.md#durability) [b]({HOME}docs/errors.md) [c](https://example.com) [d](#install) `[e](f)`"
    assert broken(page, f"## Install\n{good}") == []
    bad = ["docs/no.md", "docs/errors.md#no", f"{HOME}docs/no.md", "#no"]
    assert broken(page, " ".join(f"[x]({link})" for link in bad)) == bad


def test_the_index_of_php_leads_to_each_of_its_pages() -> None:
    folder = ROOT / "docs" / "php"
    linked = set(LINK.findall((folder / "README.md").read_text("utf-8")))
    assert {page.name for page in folder.glob("*.md")} - {"README.md"} <= linked


def shape(text: str) -> Iterator[str]:
    """List what a translation has in common with its original, in order: headings, blocks, lists, tables, code."""
    for part in re.split(f"({FENCE.pattern})", text, flags=re.MULTILINE | re.DOTALL):
        if part.lstrip().startswith("```"):
            yield "block " + "\n".join(line.rstrip() for line in COMMENT.sub("", part).splitlines())
            continue
        for line in part.splitlines():
            if heading := re.match(r"#+ ", line):
                yield f"heading {heading[0]}"
            elif item := re.match(r" *(-|\d+\.) ", line):
                yield f"item {item[0].strip()}"
            elif line.lstrip().startswith("|"):
                yield f"row of {len(re.findall(r'(?<!`)[|](?!`)', line))}"


def said(text: str) -> Counter[str]:
    """Count what is the same in every language: code, and which pages and headings are linked."""
    prose = FENCE.sub("", text)
    links = (link.replace(".zh-CN", "").partition("#")[0] for link in LINK.findall(prose))
    return Counter(re.findall(r"`[^`\n]+`", prose)) + Counter(f"-> {Path(link).name}" for link in links if link)


def original_of(translation: Path) -> Path:
    return translation.with_name(translation.name.replace(".zh-CN", ""))


def test_there_are_translations_of_the_first_pages() -> None:
    names = {page.name.removesuffix(".zh-CN.md") for page in TRANSLATIONS}
    assert {"README", "first-job", "thinkphp", "think-queue"} <= names


@pytest.mark.parametrize("page", TRANSLATIONS, ids=lambda page: page.name)
def test_a_translation_has_the_shape_of_its_original(page: Path) -> None:
    assert list(shape(page.read_text("utf-8"))) == list(shape(original_of(page).read_text("utf-8")))


@pytest.mark.parametrize("page", TRANSLATIONS, ids=lambda page: page.name)
def test_a_translation_names_what_its_original_names(page: Path) -> None:
    ours, theirs = (said(file.read_text("utf-8")) for file in (page, original_of(page)))
    assert (ours - theirs, theirs - ours) == (Counter(), Counter()), "only here; only in the original"


def test_a_translation_that_lags_behind_is_noticed() -> None:
    old = "# A\n\n1. `a` [b](c.md)\n\n```php\n$a = 1; // what\n```\n\n| a | b |\n"
    new = "# 甲\n\n1. `a` [乙](c.zh-CN.md#丙)\n\n```php\n$a = 1; // 什么\n```\n\n| 甲 | 乙 |\n"
    assert (list(shape(old)), said(old)) == (list(shape(new)), said(new))
    for changed in (f"{new}\n## 乙\n", f"{new}\n- 乙\n", f"{new}| 甲 | 乙 |\n", new.replace("= 1", "= 2")):
        assert list(shape(old)) != list(shape(changed))
    for changed in (new.replace("`a`", "`b`"), new.replace("c.zh-CN", "d")):
        assert said(old) != said(changed)
