"""The command line, the recipes of the language models, and how a run becomes a checkpoint."""

import json
import math
import runpy
import sys
from itertools import count

import pytest
import torch
from few import few_of, with_tokenizer

from attnlib import pretrained
from attnlib.models import NeuralNgram, ZeroLayer
from attnlib.pretrained import checkpoints
from attnlib.tokenizers import BPE
from attnlib.training import History
from recipes import cards, language, ngram_seeds
from recipes.__main__ import RECIPES, main
from recipes.cards import save

TRAINED = language.LANGUAGE_MODELS | language.POSITIONS


@pytest.fixture
def few_reviews(monkeypatch):
    """30 training and 6 test texts of IMDB, 400 letters each, in batches of two windows."""
    few = few_of("imdb", 400, 30, 6, 6)
    monkeypatch.setattr(language, "reviews", lambda source: few)
    monkeypatch.setattr(language, "BATCH", 2)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    return few


@pytest.mark.ci
@pytest.mark.parametrize("name", TRAINED)
def test_recipe_writes_a_checkpoint_that_loads(name, few_reviews, monkeypatch, tmp_path):
    shipped = pretrained.card(name)
    with_tokenizer(monkeypatch, tmp_path)
    main([name, "--steps", "2", "--folder", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.glob(f"{name}.*")) == [
        f"{name}.json",
        f"{name}.safetensors",
    ]
    card, model = pretrained.card(name), pretrained.load(name)
    assert card.keys() == shipped.keys()
    assert card["steps"] == 2
    assert card["tokens"] == 2 * 2 * language.LENGTH
    assert card["command"] == f"python -m recipes {name}"
    assert card["parameters"] == sum(p.numel() for p in model.parameters())
    assert card["config"]["vocab_size"] == pretrained.tokenizer().vocab_size
    assert len(card["curve"]["train_loss"]) * card["curve"]["every"] == 2
    bpe = pretrained.tokenizer()
    again = language.held_out(model, few_reviews.test, bpe, card["window"])
    assert again["nats_per_token"] == pytest.approx(card["loss"]["nats_per_token"], abs=2e-3)
    assert 7 < again["nats_per_token"] < 9.5  # two steps from log 4,096 = 8.3


def test_recipe_resumes_after_an_interrupt(few_reviews, monkeypatch, tmp_path):
    with_tokenizer(monkeypatch, tmp_path)
    command = ["zero-layer", "--steps", "4", "--folder"]
    main([*command, str(tmp_path / "whole")])
    real, calls = language.quick_loss, count()

    def loss(model, window):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return real(model, window)

    stopped = tmp_path / "stopped"
    monkeypatch.setattr(language, "quick_loss", loss)
    with pytest.raises(
        SystemExit, match="at step 2; .* The same command goes on from there, with "
    ):
        main([*command, str(stopped)])
    assert [path.name for path in stopped.iterdir()] == ["zero-layer.state"]
    main([*command, str(stopped)])
    assert next(calls) == 5  # two steps, the interrupt, and the two that were left
    for name in ("zero-layer.safetensors", "zero-layer.json"):
        assert (stopped / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (stopped / "zero-layer.state").exists()


@pytest.mark.parametrize(("name", "scale"), [("positions-sinusoidal", 8), ("positions-rotary", 1)])
def test_what_is_learned_is_the_embedding_over_its_scale(
    name, scale, few_reviews, monkeypatch, tmp_path
):
    """Training starts from the W_E of the model, learns a fraction of it, and stores it whole."""
    with_tokenizer(monkeypatch, tmp_path)
    real, seen = language.fit, {}

    def fit(model, *arguments, **settings):
        seen["start"] = model.W_E.detach().clone()
        history = real(model, *arguments, **settings)
        learned = dict(model.named_parameters())
        seen["learned"] = learned.get("parametrizations.W_E.original", learned.get("W_E")).detach()
        return history

    monkeypatch.setattr(language, "fit", fit)
    main([name, "--steps", "2", "--folder", str(tmp_path)])
    recipe = language.POSITIONS[name]
    torch.manual_seed(language.SEED)
    fresh = checkpoints.KINDS[recipe.kind](vocab_size=4096, **recipe.config)
    torch.testing.assert_close(seen["start"], fresh.W_E.detach())
    torch.testing.assert_close(
        pretrained.load(name).W_E.detach(), (scale * seen["learned"]).half().float()
    )
    assert pretrained.card(name).get("embedding_scale", 1) == scale


@pytest.mark.parametrize(
    ("level", "able", "dtype"),
    [
        ("AVX512", {"avx512_bf16": True}, torch.bfloat16),
        ("AVX512", {"amx_bf16": True, "avx512_bf16": False}, torch.bfloat16),
        ("AVX512", {"avx512_bf16": False}, torch.float32),  # older than the instructions
        ("AVX2", {"avx512_bf16": True}, torch.float32),  # torch is held back from them
        ("AVX512", None, torch.float32),  # a torch that cannot tell
    ],
)
def test_logits_are_in_bfloat16_only_where_the_processor_has_it(level, able, dtype, monkeypatch):
    if able is None:
        monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    else:
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able, raising=False)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: level)
    assert language.quickest() == dtype


def test_recipe_of_the_tokenizer(few_reviews, monkeypatch, tmp_path):
    monkeypatch.setattr(language, "VOCABULARY", 300)
    monkeypatch.setattr(checkpoints, "FOLDER", tmp_path)
    main(["reviews-bpe", "--folder", str(tmp_path)])
    bpe = pretrained.tokenizer()
    assert bpe.vocab_size == 300
    parts = (few_reviews.train, few_reviews.validation, few_reviews.test)
    texts = [text for part in parts for text in part.texts]
    assert bpe == BPE.train(texts, 300, progress=False)
    assert pretrained.card("reviews-bpe")["data"]["texts"] == 42


def test_another_seed_draws_other_weights_and_windows(few_reviews, monkeypatch, tmp_path):
    drawn, windows = [], language.windows

    def noted(*arguments):
        drawn.append(windows(*arguments)(0))
        return windows(*arguments)

    monkeypatch.setattr(language, "windows", noted)
    made = [
        language.trained("ngram-3", 1, tmp_path / folder, seed)[0].W_H
        for folder, seed in (("one", 2), ("other", 2), ("other", 1))  # each with its own state
    ]
    for found in (made, drawn):
        assert torch.equal(found[0], found[1])
        assert not torch.equal(found[0], found[2])


@pytest.mark.ci
def test_the_sweep_of_seeds_writes_one_card(few_reviews, monkeypatch, tmp_path):
    """Without weights; the first seed's network is the stored one."""
    monkeypatch.setattr(ngram_seeds, "reviews", lambda source: few_reviews)
    monkeypatch.setattr(ngram_seeds, "OTHERS", slice(0, 6))
    monkeypatch.setattr(ngram_seeds, "judged", ngram_seeds.judged.__wrapped__)
    main(["ngram-seeds", "--steps", "2", "--folder", str(tmp_path)])
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert path.relative_to(tmp_path).as_posix() == "results/ngram-seeds.json"
    for name, found in json.loads(path.read_text("utf-8"))["networks"].items():
        assert found["loss"][0] == pretrained.card(name)["loss"]["nats_per_token"]
        assert found["loss"][1] != found["loss"][2]
        alone = [mean for mean, _ in found["alone"]]
        assert alone[0] < 6 < 7.5 < min(alone[1:])  # two steps from log 4,096 = 8.3
        behind = torch.tensor(alone) - torch.tensor([mean for mean, _ in found["behind"]])
        assert behind.max() - behind.min() < 1e-3  # the same counter beside each


def test_what_the_sweep_tells_of_a_network_by_hand():
    """Two windows of one token: p = 1/2 and 1/8 under the network, 1/4 under the counter."""
    nats = {n: torch.full((2, 1), math.log(4)).double() for n in (3, 5)}
    found = ngram_seeds.compared(torch.tensor([[2.0], [8.0]]).double().log(), nats)
    assert found["alone"] == pytest.approx([math.log(4), 1.96 * math.log(2)])
    assert found["behind"] == pytest.approx([0, 1.96 * math.log(2)], abs=1e-6)
    gains = [math.log(4 * 3 / 8), math.log(4 * 3 / 16)]  # the mixtures have 3/8 and 3/16
    assert found["mixed"][0] == found["counters"][0] == pytest.approx(-sum(gains) / 2)


def test_the_stored_sweep_is_that_of_the_recipe():
    card = pretrained.card("results/ngram-seeds")
    runs = [
        {key: values[i] for key, values in card["networks"][name].items()}
        for name in ngram_seeds.NETWORKS
        for i in range(len(ngram_seeds.SEEDS))
    ]
    assert card == card | ngram_seeds.about(language.STEPS, runs)
    assert card["command"] == "python -m recipes ngram-seeds"
    assert list(card["networks"]) == list(ngram_seeds.NETWORKS)


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
def test_unknown_recipe_lists_the_known(capsys, monkeypatch):
    for arguments in (["zero-layr"], []):
        monkeypatch.setattr(sys, "argv", ["recipes", *arguments])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_module("recipes", run_name="__main__")  # as python -m recipes does
        assert stopped.value.code == 2
        message = capsys.readouterr().err
        assert all(name in message for name in RECIPES)


def test_table_measures_every_model(few_reviews, monkeypatch, tmp_path, capsys):
    with_tokenizer(monkeypatch, tmp_path)
    small = {
        "zero-layer": language.ModelRecipe("ZeroLayer", {"d_model": 4}, 1e-3),
        "ngram-3": language.ModelRecipe("NeuralNgram", {"n": 3, "d_model": 4, "d_hidden": 4}, 1e-3),
    }
    monkeypatch.setattr(language, "LANGUAGE_MODELS", small)
    for name, kind in (("zero-layer", ZeroLayer), ("ngram-3", NeuralNgram)):
        config = {"vocab_size": 4096, **small[name].config}
        about = {"config": config, "parameters": 1234, "tokens": 5678, "command": "make it"}
        save(name, kind(**config), about, tmp_path)
    main(["--table"])
    head, *rows = capsys.readouterr().out.splitlines()
    assert " ".join(head.split()) == "model parameters training tokens nats/token bits/byte"
    bpe, test = pretrained.tokenizer(), few_reviews.test
    for row, name in zip(rows, small, strict=True):
        loss = language.held_out(pretrained.load(name), test, bpe)
        expected = [loss["nats_per_token"], loss["bits_per_byte"]]
        assert row.split()[:3] == [name, "1,234", "5,678"]
        assert [float(x) for x in row.split()[3:]] == pytest.approx(expected, abs=6e-4)


def test_held_out_by_hand(few_reviews):
    bpe = pretrained.tokenizer()
    model = ZeroLayer(bpe.vocab_size, 4)
    with torch.no_grad():
        model.W_U.zero_()  # knows nothing: log D nats for every token
    found = language.held_out(model, few_reviews.test, bpe)
    assert found["nats_per_token"] == pytest.approx(math.log(4096), abs=1e-4)
    tokens = sum(len(bpe.encode(text)) + 1 for text in few_reviews.test.texts)
    n_bytes = sum(len(text.encode()) for text in few_reviews.test.texts)
    assert found["bits_per_byte"] == pytest.approx(12 * tokens / n_bytes, abs=1e-3)


def test_an_interrupted_run_says_what_the_same_command_will_do(tmp_path):
    """Language models keep their state and go on; the others start anew."""
    whole, half = History([2.0, 1.0]), History([2.0], interrupted=True)
    assert cards.finished(whole) is whole
    with pytest.raises(SystemExit, match=r"stopped at step 1; no checkpoint .* starts anew\.$"):
        cards.finished(half)
    with pytest.raises(SystemExit, match=r"The same command goes on from there, with .*x\.state"):
        cards.finished(half, tmp_path / "x.state")


def test_a_card_says_what_was_run(tmp_path):
    """Its optimizer is the settings of the run, whatever they were; its curve means of blocks."""
    settings = {"steps": 120, "lr": 0.1, "warmup": 3, "schedule": "constant", "clip": 2.0}
    settings |= {"weight_decay": 0.5, "seed": 7}
    history = History([float(i) for i in range(120)], tokens=960, settings=settings)
    about = {"config": {"vocab_size": 9, "d_model": 4}, "data": {}, "tokens": 480, "seed": 7}
    path = cards.write("x", ZeroLayer(9, 4), history, tmp_path, about)
    card = json.loads(path.read_text(encoding="utf-8"))
    assert card["command"] == "python -m recipes x"
    assert card["parameters"] == 72
    assert (card["steps"], card["tokens"], card["seed"]) == (120, 480, 7)
    expected = {"lr": 0.1, "warmup": 3, "schedule": "constant", "clip": 2.0, "weight_decay": 0.5}
    assert card["optimizer"] == {"name": "AdamW", **expected}
    assert card["curve"] == {"every": 2, "train_loss": [i + 0.5 for i in range(0, 120, 2)]}
