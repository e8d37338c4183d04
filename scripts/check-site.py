#!/usr/bin/env python3
"""Checks the links of the site in FOLDER: their files, headings and scenarios exist.

    scripts/check-site.py FOLDER

Rustdoc checks links inside of its own pages, so pages under `api/` are only led to.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
ATTRIBUTES = {"href", "src"}
SCENARIO = "scenario="


class Document(HTMLParser):
    """Links and anchors of one page."""

    def __init__(self, text):
        super().__init__()
        self.links = []
        self.anchors = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ATTRIBUTES and value:
                self.links.append(value)
            elif name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)


class Site:
    """The pages of a folder."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.documents = {}

    def document(self, path):
        if path not in self.documents:
            self.documents[path] = Document(path.read_text(errors="replace"))
        return self.documents[path]

    def mistake(self, page, link):
        """Returns the reason for which a link of a page leads nowhere, or None."""
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            return None
        path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if self.folder not in [path, *path.parents]:
            return "it leaves the site"
        if path.is_dir():
            path = path / "index.html"
        if not path.is_file():
            return "the file does not exist"
        anchor = unquote(parts.fragment)
        if path.parent == self.folder / "playground":
            # An address of the playground has a scenario's name or text, and no heading.
            name = anchor.removeprefix(SCENARIO).split("&")[0]
            is_named = anchor.startswith(SCENARIO)
            exists = not is_named or (ROOT / "scenarios" / f"{name}.toml").is_file()
            return None if exists else "the scenario does not exist"
        if anchor and path.suffix == ".html" and anchor not in self.document(path).anchors:
            return "the page has no such heading"
        return None

    def pages(self):
        own = [path for path in self.folder.rglob("*.html")
               if path.relative_to(self.folder).parts[0] not in ["api", "playground"]]
        starts = [self.folder / part / "index.html" for part in ["api", "playground"]]
        return sorted(own) + [path for path in starts if path.is_file()]


def main(folder):
    site = Site(folder)
    pages = site.pages()
    mistakes, count, scenarios = [], 0, set()
    for page in pages:
        for link in site.document(page).links:
            count += 1
            scenarios.update([link.split(SCENARIO)[1]] if "#" + SCENARIO in link else [])
            mistake = site.mistake(page, link)
            if mistake:
                mistakes.append(f"{page.relative_to(site.folder)}: {link}: {mistake}")
    if not scenarios:
        mistakes.append("no page leads to a scenario in the playground")
    print("\n".join(mistakes) or
          f"{count} links of {len(pages)} pages are right, to {len(scenarios)} scenarios as well")
    return bool(mistakes)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
