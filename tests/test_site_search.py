"""What users type into the search of the site leads to a page that answers."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
# What the search shows first are titles and headings; then the words of the text count.
IN_HEADINGS = {
    "databricks": "faq.md",
    "emr": "faq.md",
    "notebook": "faq.md",
    "prometheus": "faq.md",
    "kafka": "how-to/kafka.md",
    "broadcast": "faq.md",
    "lookup join": "faq.md",
    "skew": "how-to/skew.md",
    "migrate": "how-to/migrate.md",
    "memory": "how-to/sizing.md",
    "replay": "how-to/refresh.md",
}
IN_TEXT = {
    "databricks": "how-to/platforms.md",
    "emr": "how-to/platforms.md",
    "prometheus": "how-to/cluster.md",
    "broadcast": "limits.md",
    "lookup join": "limits.md",
    "kafka": "how-to/kafka.md",
    "checkpoint": "how-to/table.md",
}


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def holds(text: str, query: str) -> bool:
    """Whether each word of a query begins a word of the text, as the site's search matches."""
    return all(any(word.startswith(one) for word in words(text)) for one in words(query))


def searched() -> list[Path]:
    """The pages of the navigation that the search covers."""
    named = re.findall(r"(?m): ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"))
    return [DOCS / page for page in named]


def test_a_heading_or_a_section_answers() -> None:
    for pattern, answers in (
        (r"(?m)^#+ (.+)$", IN_HEADINGS),
        (r"(?ms)^#+ .*?(?=^#+ |\Z)", IN_TEXT),
    ):
        for query, page in answers.items():
            assert DOCS / page in searched()
            parts = re.findall(pattern, (DOCS / page).read_text("utf-8"))
            assert any(holds(part, query) for part in parts), (query, page)


def test_the_site_is_searched_and_no_page_is_left_out() -> None:
    configuration = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert re.search(r"(?m)^  - search$", configuration)
    assert len(searched()) > 40
    assert not [page for page in searched() if "exclude: true" in page.read_text("utf-8")]
