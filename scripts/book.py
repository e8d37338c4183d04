#!/usr/bin/env python3
"""Prepares the documents for mdBook: `scripts/site.sh` calls it.

    scripts/book.py FOLDER SITE

writes the sources of the book into FOLDER and files that documents link to into SITE. The Markdown
files of the repository stay as forges show them. In the book, each scenario that they name also
leads to the playground, and `docs/SUMMARY.md` is completed by all decisions and by pages that it
does not list. The checks of `python/tests/test_book.py` show the rules.
"""

import base64
import glob
import posixpath
import re
import shutil
import sys
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUMMARY = "docs/SUMMARY.md"
DECISIONS = "docs/decisions/README.md"
# Documents beside those of docs/.
OTHERS = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]

FENCE = re.compile(r"^([ \t]*)```.*?^[ \t]*```[ \t]*$\n?", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)((?:(?!\n\n).)+?)\1", re.DOTALL)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)((?: \"[^\"]*\")?)\)")
# Parts without which a text is no scenario.
WHOLE_SCENARIO = ["duration = ", "[links.", "[routes.", "[[flows]]"]
# A scenario's path in code: a star stands for any part of it, as an ellipsis does.
SCENARIO = re.compile(r"scenarios/[\w./*…-]+\.toml")


def documents():
    """Returns the paths of all documents from the repository's root."""
    found = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")]
    return OTHERS + sorted(path for path in found if path != SUMMARY)


def scenarios(text, folder=""):
    """Returns the names of existing scenarios that a path means, without folder and ending.

    A path may lack the beginning `scenarios/`, and then also the folder of the one before.
    """
    if not text.endswith(".toml") or " " in text:
        return []
    path = text.removeprefix("scenarios/").replace("…", "*")
    for candidate in [path, posixpath.join(folder, path)]:
        pattern = str(ROOT / "scenarios" / candidate)
        found = [Path(hit) for hit in glob.glob(pattern)]
        if found:
            names = [hit.relative_to(ROOT / "scenarios").as_posix() for hit in found]
            return sorted(name.removesuffix(".toml") for name in names)
    return []


class Page:
    """One document on its way into the book."""

    def __init__(self, path, pages):
        """`path` is the document's, `pages` are those of the whole book."""
        self.path = path
        self.folder = posixpath.dirname(path)
        self.pages = pages
        # Files outside of the book that the page links to.
        self.files = set()
        self.scenario_folder = ""

    def converted(self, text):
        """Returns the page's text for the book."""
        parts, end = [], 0
        for fence in FENCE.finditer(text):
            parts.append(self.prose(text[end:fence.start()]))
            parts.append(fence[0] + self.after_code(fence))
            end = fence.end()
        return "".join([*parts, self.prose(text[end:])])

    def prose(self, text):
        """Returns text outside of code blocks with its links and scenarios replaced."""
        text = LINK.sub(self.link, text)
        linked = [match.span() for match in LINK.finditer(text)]

        def replace(code):
            is_linked = any(start <= code.start() < end for start, end in linked)
            return code[0] if is_linked else self.code(code)

        return CODE.sub(replace, text)

    def code(self, code):
        """Returns code in a line as a link to the playground if it is a scenario's path."""
        names = scenarios(code[2], self.scenario_folder)
        if not names:
            return code[0]
        self.scenario_folder = posixpath.dirname(names[0])
        if len(names) == 1 and not set("*…") & set(code[2]):
            return f"[{code[0]}]({self.playground(names[0])})"
        return f"{code[0]} ({self.playground_links(names)})"

    def after_code(self, fence):
        """Returns a line with links to the scenarios that a code block names or is, or nothing."""
        names = {}
        for path in SCENARIO.findall(fence[0]):
            names.update(dict.fromkeys(scenarios(path)))
        links = [self.playground_links(names)] if names else []
        info, code = fence[0].strip().removesuffix("```").split("\n", 1)
        if info.startswith("```toml") and all(part in code for part in WHOLE_SCENARIO):
            links.append(f"[this scenario]({self.relative('playground/')}/#text={packed(code)})")
        return f"\n{fence[1]}*In the playground:* {', '.join(links)}\n" if links else ""

    def playground_links(self, names):
        """Returns links to scenarios; of several in one folder, the folder is named once."""
        texts, folder = [], None
        for name in names:
            before, folder = folder, posixpath.dirname(name)
            text = posixpath.basename(name) if folder == before else name
            texts.append(f"[{text}]({self.playground(name)})")
        return ", ".join(texts)

    def playground(self, scenario):
        return self.relative("playground/") + "/#scenario=" + scenario

    def relative(self, path):
        return posixpath.relpath(path, self.folder or ".")

    def link(self, match):
        picture, text, target, title = match.groups()
        path, sharp, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:") or not path:
            return match[0]
        path = posixpath.normpath(posixpath.join(self.folder, path))
        if (ROOT / path).is_dir() and f"{path}/README.md" in self.pages:
            path = f"{path}/README.md"
        if path in self.pages:
            target = self.relative(index(path)) + sharp + anchor
        elif picture or path.startswith("docs/"):
            return match[0]
        elif (ROOT / path).is_file():
            self.files.add(path)
            target = self.relative(shown(path))
        else:
            # The site does not list folders.
            return text
        return f"{picture}[{text}]({target}{title})"


def packed(text):
    """Returns a text as the playground's addresses hold it: deflated, in base64 for addresses."""
    deflate = zlib.compressobj(level=9, wbits=-15)
    code = deflate.compress(text.encode()) + deflate.flush()
    return base64.urlsafe_b64encode(code).decode().rstrip("=")


def shown(path):
    """Returns the path in the site of a file outside of the book.

    The ending lets every server and browser show it. mdBook would change `.md` to `.html`.
    """
    return path.removesuffix(".md") + ".txt"


def index(path):
    """Returns the path of a document in the book, which serves `index.md` for a folder."""
    return re.sub(r"(^|/)README\.md$", r"\1index.md", path)


def title(path):
    """Returns a document's first heading."""
    return re.search(r"^# (.+)$", (ROOT / path).read_text(), re.MULTILINE)[1]


def summary(text, pages):
    """Returns `docs/SUMMARY.md` for the book, with decisions and pages that it lacks."""
    lines, listed = [], set()
    for line in text.splitlines():
        match = LINK.search(line)
        if not match:
            lines.append(line)
            continue
        path = posixpath.normpath(posixpath.join("docs", match[3]))
        listed.add(path)
        lines.append(line.replace(f"({match[3]})", f"({index(path)})"))
        if path == DECISIONS:
            indent = line[: len(line) - len(line.lstrip())] + "  "
            folder = posixpath.dirname(path)
            children = [page for page in pages if posixpath.dirname(page) == folder]
            children.remove(path)
            listed.update(children)
            lines.extend(f"{indent}- [{title(page)}]({page})" for page in children)
    others = [page for page in pages if page not in listed]
    if others:
        lines += ["", "# More", "", *(f"- [{title(page)}]({index(page)})" for page in others)]
    return "\n".join(lines) + "\n"


def main(folder, site):
    pages = documents()
    source = Path(folder) / "src"
    shutil.rmtree(source, ignore_errors=True)
    for path in pages:
        page = Page(path, pages)
        file = source / index(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page.converted((ROOT / path).read_text()))
        for linked in page.files:
            copy = Path(site) / shown(linked)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / linked, copy)
    for picture in (ROOT / "docs").rglob("*"):
        if picture.suffix in [".svg", ".png", ".webp", ".json"]:
            shutil.copy(picture, source / picture.relative_to(ROOT))
    (source / "SUMMARY.md").write_text(summary((ROOT / SUMMARY).read_text(), pages))


if __name__ == "__main__":
    main(*sys.argv[1:])
