"""Tests of `scripts/book.py` and `scripts/check-site.py`, which make the site of the documents."""

from __future__ import annotations

import base64
import importlib.util
import zlib
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), SCRIPTS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


book = script("book")
check = script("check-site")
PAGES = ["README.md", "docs/README.md", "docs/scenarios.md", "docs/decisions/README.md"]


def converted(text: str, path: str = "docs/scenarios.md") -> str:
    page: str = book.Page(path, PAGES).converted(text)
    return page


def test_a_scenario_in_a_sentence_leads_to_the_playground() -> None:
    text = converted("Run `scenarios/two-paths.toml`.")
    assert text == "Run [`scenarios/two-paths.toml`](../playground/#scenario=two-paths)."
    text = converted("Run `scenarios/rmcat/5.8-pause-and-resume.toml`.", "README.md")
    assert "(playground/#scenario=rmcat/5.8-pause-and-resume)" in text


def test_a_scenario_without_its_folder_is_found_beside_the_one_before() -> None:
    text = converted("| `kondo-mptcp/a.toml`, `b.toml` | a film |")
    assert "[`b.toml`](../playground/#scenario=kondo-mptcp/b)" in text


@pytest.mark.parametrize("text", [
    "`scenarios/no-such.toml`", "`camera.toml`", "[`two-paths.toml`](results.md)",
    "```\n`two-paths.toml`\n```\n",
])
def test_other_code_and_links_stay(text: str) -> None:
    assert converted(text) == text


def test_a_pattern_leads_to_each_of_its_scenarios() -> None:
    text = converted("`kondo-mptcp/*.toml`")
    first = "[kondo-mptcp/a](../playground/#scenario=kondo-mptcp/a)"
    assert text.startswith(f"`kondo-mptcp/*.toml` ({first}, [b](")
    assert text.count("#scenario=") == 4


def test_a_link_follows_a_code_block_that_names_scenarios() -> None:
    code = "```\nanabranch-lab run scenarios/two-paths.toml\n```\n"
    text = converted(code + "Then\n")
    assert text.startswith(code)
    assert "*In the playground:* [two-paths](../playground/#scenario=two-paths)\nThen\n" in text
    assert converted("```\nls\n```\n") == "```\nls\n```\n"


def test_a_scenario_in_a_code_block_is_opened_by_its_text() -> None:
    code = 'duration = "1 s"\n[links.a]\n[routes.a]\n[[flows]]\n'
    text = converted(f"```toml trip.toml\n{code}```\n")
    address = text.split("[this scenario](../playground/#text=")[1].split(")")[0]
    packed = base64.urlsafe_b64decode(address + "=" * (-len(address) % 4))
    assert zlib.decompress(packed, wbits=-15).decode() == code


def test_links_lead_to_pages_copies_and_anchors_of_the_book() -> None:
    assert converted("[a](README.md#b)") == "[a](index.md#b)"
    assert converted("[a](decisions/README.md)") == "[a](decisions/index.md)"
    assert converted("[a](../README.md)") == "[a](../index.md)"
    assert converted("[a](https://example.com/README.md)") == "[a](https://example.com/README.md)"
    page = book.Page("README.md", PAGES)
    assert page.converted("[MIT](LICENSE-MIT)") == "[MIT](LICENSE-MIT.txt)"
    # mdBook would take another ending for a page's.
    assert page.converted("[a](web/playground/README.md)") == "[a](web/playground/README.txt)"
    assert page.files == {"LICENSE-MIT", "web/playground/README.md"}
    # The site lists no folders.
    assert page.converted("[`examples`](crates/anabranch/examples)") == "`examples`"


def test_the_summary_has_all_decisions_and_forgotten_pages() -> None:
    pages = [*PAGES, "docs/decisions/0001-libraries.md", "docs/results.md"]
    text = book.summary("[Start](../README.md)\n\n- [Decisions](decisions/README.md)\n", pages)
    assert "[Start](index.md)" in text
    child = "  - [1. Libraries before own code](docs/decisions/0001-libraries.md)"
    assert f"- [Decisions](docs/decisions/index.md)\n{child}" in text
    assert "# More" in text and "- [Results](docs/results.md)" in text


def test_the_documents_name_scenarios_in_the_playground() -> None:
    documents = book.documents()
    pages = [(book.Page(path, documents), book.ROOT / path) for path in documents]
    texts = [page.converted(file.read_text()) for page, file in pages]
    assert sum(text.count("/#scenario=") for text in texts) > 60


def has_mistakes(tmp_path: Path, link: str) -> bool:
    for path in ["playground/index.html", "docs/other.html"]:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text('<h2 id="here">Here</h2>')
    page = tmp_path / "docs/index.html"
    links = ["../playground/#scenario=two-paths", link]
    page.write_text("".join(['<h1 id="top">Top</h1>', *(f'<a href="{to}">a</a>' for to in links)]))
    return bool(check.main(tmp_path))


@pytest.mark.parametrize("link", [
    "other.html#here", "#top", "../playground/", "../playground/#text=y", "../docs/",
    "https://example.com/none",
])
def test_links_that_lead_somewhere_pass(tmp_path: Path, link: str) -> None:
    assert not has_mistakes(tmp_path, link)


@pytest.mark.parametrize("link", [
    "none.html", "other.html#there", "#nowhere", "../../outside.html",
    "../playground/#scenario=none",
])
def test_links_that_lead_nowhere_are_mistakes(
    tmp_path: Path, link: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert has_mistakes(tmp_path, link)
    assert f"docs/index.html: {link}: " in capsys.readouterr().out
