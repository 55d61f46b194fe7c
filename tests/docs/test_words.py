"""Words that no file may hold: addresses of registries, and paths of one machine."""

import re
from pathlib import Path
from typing import Final

import pytest
from tests.kit.repository import ROOT, texts

# Put together here, so that this file does not hold them itself.
_HOSTS: Final = (
    "pypi" + r"\.org",
    "python" + r"hosted\.org",
    "npm" + r"js\.org",
    r"proxy\.go" + r"lang\.org",
)
_PATHS: Final = (
    r"(?<![\w.\-/}])/wo" + "rk/",
    r"(?<![\w.\-/}])/ro" + "ot/",
    r"\.\./sha" + "red",
    "/t" + "mp/bg",
)
FORBIDDEN: Final = re.compile("|".join((*_HOSTS, *_PATHS)))


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, hit.start()) + 1}: {hit.group()}"
        for path, text in texts()
        for hit in FORBIDDEN.finditer(text)
    ]
    assert found == []


@pytest.mark.parametrize("name", ["agent", "demo", "dev"])
def test_requirements_are_pinned_by_hash_and_name_no_source(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"^\s*(-i|--index|--extra-index|--find-links|--trusted)", text, re.MULTILINE)
    entries = [line for line in text.splitlines() if re.match(r"[A-Za-z]", line)]
    assert len(entries) > 10
    loose = [line for line in entries if not re.match(r"[\w.\-\[\]]+==\S+.*\\$", line)]
    assert loose == []
    assert text.count("--hash=sha256:") >= len(entries)


def test_the_smaller_requirements_agree_with_the_larger_ones() -> None:
    def pins(name: str) -> dict[str, str]:
        text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
        return dict(re.findall(r"^([\w.\-]+)(?:\[[^\]]*\])?==(\S+)", text, re.MULTILINE))

    dev = pins("dev")
    for name in ("agent", "demo"):
        differing = {key: (pin, dev.get(key)) for key, pin in pins(name).items() if dev.get(key) != pin}
        assert differing == {}, name


LINK: Final = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


def test_every_link_in_the_documents_resolves() -> None:
    broken = []
    for path, text in texts():
        if path.suffix != ".md":
            continue
        for target in LINK.findall(text):
            if target.startswith(("http://", "https://", "mailto:")):
                continue
            file, _, heading = target.partition("#")
            aim = (path.parent / file).resolve() if file else path
            if not aim.exists() or (heading and heading not in _headings(aim)):
                broken.append(f"{path.relative_to(ROOT)}: {target}")
    assert broken == []


def _headings(path: Path) -> set[str]:
    """Return the anchors as forges make them: lower case, punctuation dropped, blanks to dashes."""
    lines = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in lines}
