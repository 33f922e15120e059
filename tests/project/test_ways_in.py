"""Other ways in: the wheel's version, the page for the library alone, Codespaces, Binder, Colab."""

import json
import os
import re
import stat
import tomllib
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import colab
import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import attnlib

ROOT = Path(__file__).parent.parent.parent


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_told_in_one_place_and_the_others_follow() -> None:
    assert "version" in tomllib.loads(text("pyproject.toml"))["project"]["dynamic"]
    assert yaml.safe_load(text("CITATION.cff"))["version"] == attnlib.__version__
    assert re.findall(r"^## (\S+)", text("CHANGELOG.md"), re.M)[0] == attnlib.__version__


def test_what_colab_has_is_kept_and_what_it_lacks_is_installed() -> None:
    for line in tomllib.loads(text("pyproject.toml"))["project"]["dependencies"]:
        needed = Requirement(line)
        name = canonicalize_name(needed.name)
        assert (name in colab.IN_COLAB) != (name in colab.LACKING), name
        if name in colab.IN_COLAB:
            assert needed.specifier.contains(colab.IN_COLAB[name]), f"Colab's {name} is older"
    assert colab.SMOLLM2 in text("requirements.lock")


@pytest.mark.parametrize(
    "name", ["chapters/04_self_attention.ipynb", "chapters/more/05_norms.ipynb"]
)
def test_a_copy_for_colab_installs_first_and_its_links_lead_to_the_repository(name: str) -> None:
    notebook = nbformat.reads(text(name), as_version=4)
    copy = colab.copied(notebook, PurePosixPath(name).parent, "https://example.org/course")
    nbformat.validate(copy)
    first, *others = copy.cells
    assert first.source.splitlines()[1].startswith(
        '%pip install -q --no-deps "attnlib @ git+https://e'
    )
    assert [cell.id for cell in others] == [cell.id for cell in notebook.cells]
    assert not any(colab.LINK.search(c.source) for c in others if c.cell_type == "markdown")
    links = re.findall(r"\]\(https://example.org/course/blob/HEAD/([^)#]+)", str(others))
    assert links
    assert not [link for link in links if not (ROOT / link).exists()]
    assert "colab" not in str(notebook), "the chapter itself is as it was"


def test_a_clone_without_an_origin_is_told_what_to_say(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for origin, address in (
        ("git@github.com:you/course.git", "https://github.com/you/course"),
        ("https://gitlab.com/you/course", "https://gitlab.com/you/course"),
        ("/home/you/course", ""),
    ):
        said = SimpleNamespace(stdout=origin + "\n")
        monkeypatch.setattr(colab.subprocess, "run", lambda *a, said=said, **k: said)
        assert colab.origin() == address
    assert colab.main([]) == 1
    assert "make colab ARGS=https://github.com/you/course" in capsys.readouterr().err


def test_codespaces_and_binder_set_up_as_make_does() -> None:
    """One command, with no version of its own."""
    container = json.loads(text(".devcontainer/devcontainer.json"))
    assert container["postCreateCommand"] == "python3 course.py setup --torch-index cpu"
    opened = container["customizations"]["codespaces"]["openFiles"]
    assert all((ROOT / name).exists() for name in opened)
    build = ROOT / "binder" / "postBuild"
    assert "python3 course.py setup --here --torch-index cpu\n" in text("binder/postBuild")
    assert os.name == "nt" or build.stat().st_mode & stat.S_IXUSR, "repo2docker runs it"
    assert text("binder/runtime.txt") == "python-3.11\n"


PYTHON = re.findall(r"^## (.+?)$.*?^```python\n(.*?)^```", text("docs/library.md"), re.S | re.M)


@pytest.mark.parametrize("code", [c for _, c in PYTHON], ids=[title for title, _ in PYTHON])
def test_what_the_page_for_the_library_alone_shows_runs(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if "my-model" in code:
        _save_a_tiny_gpt2(tmp_path / "my-model")
    exec(code.replace("steps=200", "steps=20"), {})
    shown = capsys.readouterr().out
    assert re.search(
        r"Size\(\[2, 4, \d+, \d+\]\)|tensor\(0?\.\d*[1-9]|-> [012]\.\d\d nats", shown
    ), shown


def _save_a_tiny_gpt2(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({sign: i for i, sign in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    GPT2LMHeadModel(GPT2Config(vocab_size=256, n_layer=2, n_head=4, n_embd=64)).save_pretrained(
        folder
    )


def test_what_is_published_was_built_checked_and_tried_alone() -> None:
    jobs = yaml.safe_load(text(".github/workflows/release.yml"))["jobs"]
    said = "\n".join(step.get("run", "") for step in jobs["build"]["steps"])
    assert [
        word for word in ("-m build", "twine check --strict", "05_gpt2") if word not in said
    ] == []
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
