"""Figures: every one with its words, drawn once, closed, and without a change of what is drawn."""

import io
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.image import imread

from attnlib import plots
from attnlib.widgets.payload import DARK

ALT = "A map of attention; the last row looks at the first token."


def heatmap(**changes):
    """A single map."""
    options = {"weights": np.eye(3), "destinations": list("abc"), "alt": ALT} | changes
    return plots.maps([options.pop("weights")], [options.pop("title", "")], **options)


def maps(**changes):
    options = {"weights": np.ones((2, 2, 3)) / 3, "titles": ["one", "two"], "alt": ALT}
    return plots.maps(**(options | {"destinations": list("ab"), "sources": list("xyz")} | changes))


def lines(**changes):
    options = {"series": {"loss": ([1, 2, 3], [3.0, 2.0, 1.0])}, "xlabel": "steps"}
    return plots.lines(**(options | {"ylabel": "nats per token", "alt": ALT} | changes))


def bars(**changes):
    return plots.bars(**({"values": {"a": 1.0, "b": 2.0}, "ylabel": "nats", "alt": ALT} | changes))


def show(**changes):
    return plots.show(**({"fig": plt.figure(), "alt": ALT} | changes))


HELPERS = [heatmap, maps, lines, bars, show]


def axes_of(draw, monkeypatch, **changes):
    """The axes that a helper drew, before they became a picture."""
    caught = []

    def keep(fig, alt):
        caught.append(fig)
        plt.close(fig)
        return plots.Figure(b"", alt)

    monkeypatch.setattr(plots, "show", keep)
    draw(**changes)
    return caught[0].axes


@pytest.mark.parametrize("draw", HELPERS)
def test_a_figure_is_a_picture_with_words_and_the_same_at_every_drawing(draw):
    before = dict(mpl.rcParams)
    figure = draw()
    assert dict(mpl.rcParams) == before, "the settings are the caller's"
    assert figure.png.startswith(b"\x89PNG\r\n\x1a\n")
    assert min(imread(io.BytesIO(figure.png), format="png").shape[:2]) > 50
    data, metadata = figure._repr_mimebundle_()
    assert data["image/png"] == figure.png == draw().png
    assert metadata["image/png"]["alt"] == figure.alt == ALT
    assert ALT in data["text/plain"] == repr(figure)


NOTHING = ["", "   ", "Image", "figure 3", "x" + " " * 40]


@pytest.mark.parametrize(("draw", "alt"), [*((show, alt) for alt in NOTHING), (maps, NOTHING[4])])
def test_alt_must_say_something(draw, alt):
    with pytest.raises(ValueError, match="alt must say in words what the figure shows"):
        draw(alt=alt)
    assert plt.get_fignums() == []  # nothing left open that the notebook would show after all


def test_another_figure_of_the_caller_stays_open():
    mine, other = plt.subplots()[0], plt.figure()
    plots.show(mine, ALT)
    heatmap()
    assert plt.get_fignums() == [other.number]
    plt.close(other)


WEIGHTS = torch.tensor([[0.25, 0.75, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])


@pytest.mark.parametrize(
    "weights",
    [
        WEIGHTS.numpy().copy(),
        WEIGHTS.clone().requires_grad_(),  # a tensor straight from a layer
        WEIGHTS.bfloat16(),
        WEIGHTS.tolist(),
    ],
    ids=["array", "gradient", "bfloat16", "lists"],
)
def test_weights_of_any_kind_are_drawn_and_not_changed(weights):
    before = torch.as_tensor(weights).detach().clone()
    with torch.device("meta"):  # whatever is made without the device of the weights shows itself
        assert heatmap(weights=weights).png
        assert plots.small_map(weights, list("abc"), list("abc"))
    assert torch.equal(torch.as_tensor(weights), before)


def test_lines_and_bars_change_nothing():
    x, y = np.arange(3.0), torch.tensor([1.0, 2.0, 4.0])
    values, marks = {"a": 1.0}, {"chance": 2.0}
    lines(series={"a": (x, y)}, marks=marks)
    bars(values=values, errors=[0.1])
    assert (x.tolist(), y.tolist()) == ([0, 1, 2], [1, 2, 4])
    assert (values, marks) == ({"a": 1.0}, {"chance": 2.0})


# --- what is drawn ------------------------------------------------------------------------------


def test_rows_are_destinations_and_columns_are_sources(monkeypatch):
    weights = np.array([[0.0, 1.0, 0.0], [0.5, 0.25, 0.25]])
    names = {"destinations": ["d0", "d1"], "sources": ["s0", "s1", "s2"]}
    axes = axes_of(heatmap, monkeypatch, weights=weights, title="head 3", **names)[0]
    assert axes.get_ylabel() == "destination (query)"
    assert axes.get_xlabel() == "source (key)"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["d0", "d1"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["s0", "s1", "s2"]
    assert axes.get_title() == "head 3"
    image = axes.images[0]
    assert np.array_equal(image.get_array(), weights)
    assert image.get_clim() == (0, 1)
    assert image.origin == "upper"


def test_maps_share_one_scale_and_all_say_what_their_axes_are(monkeypatch):
    weights = np.linspace(0, 0.5, 30).reshape(5, 2, 3)
    axes = axes_of(maps, monkeypatch, weights=weights, titles=list("abcde"), vmax=None)
    drawn = [one for one in axes if one.images and one.get_title()]
    assert [one.get_title() for one in drawn] == list("abcde")
    assert {one.images[0].get_clim() for one in drawn} == {(0, 0.5)}
    assert all(one.get_xlabel() == "source (key)" for one in drawn)
    first_of_rows = [one for one in drawn if one.get_subplotspec().is_first_col()]
    assert len(first_of_rows) == 3
    assert all(one.get_ylabel() == "destination (query)" for one in first_of_rows)


def test_with_a_sign_0_is_the_paper_blue_is_above_and_brown_below():
    places = np.array([0.5, 0.625, 0.375, 1.0, 0.0])
    colours = plots.colours(signed=True)(places)[:, :3]
    assert (colours[0] == 1).all()
    assert (np.sign(colours[:, 2] - colours[:, 0]) == [0, 1, -1, 1, -1]).all()


def drawn_in_small_map(monkeypatch, *arguments):
    """The figure of a small map, before it becomes a picture."""
    figures = []
    monkeypatch.setattr(mpl.figure.Figure, "savefig", lambda self, *_, **__: figures.append(self))
    monkeypatch.setattr(plots, "_with_few_colours", lambda *_, **__: b"")
    plots.small_map(*arguments)
    return figures[0]


@pytest.mark.parametrize(("length", "names"), [(40, 40), (120, 30)])
def test_a_small_map_names_few_rows_where_not_all_names_fit(monkeypatch, length, names):
    words = [f"w{i}" for i in range(length)]
    figure = drawn_in_small_map(monkeypatch, np.eye(length), words, words, "A $ B")
    axes = figure.axes[0]
    rows = [label.get_text() for label in axes.get_yticklabels()]
    assert rows == words[:: length // names]
    assert axes.get_ylabel() == "destination (query)"
    assert axes.get_xlabel() == "source (key)"
    assert figure.get_suptitle() == r"A \$ B"


def test_a_small_map_has_few_bytes_even_if_it_is_large_and_of_noise():
    noise = np.random.default_rng(0).random((512, 512))
    png = plots.small_map(noise, ["word"] * 512, ["word"] * 512)
    assert len(png) <= 60_000
    assert min(imread(io.BytesIO(png), format="png").shape[:2]) > 200


def test_entries_outside_the_scale_are_refused():
    with pytest.raises(ValueError, match=r"an entry is -2: weights are at least 0"):
        heatmap(weights=-2 * np.eye(3))
    with pytest.raises(ValueError, match=r"an entry is 1.5, .* 1.0: try vmax=None"):
        heatmap(weights=1.5 * np.eye(3))
    assert plt.get_fignums() == []


def test_lines_by_name(monkeypatch):
    series = {f"run {i}": ([1, 10, 100], [3, 2, 1 + i]) for i in range(9)}
    axes = axes_of(
        lines, monkeypatch, series=series, logx=True, logy=True, marks={"chance": 2.5}, title="t"
    )[0]
    curves = axes.get_lines()[:9]
    looks = {(line.get_color(), line.get_linestyle()) for line in curves}
    assert len(looks) == 9  # told apart also without colour
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(series)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("steps", "nats per token")
    assert axes.get_lines()[9].get_ydata()[0] == 2.5
    assert "chance" in [text.get_text() for text in axes.texts]


def test_bars_have_their_heights_and_values(monkeypatch):
    axes = axes_of(bars, monkeypatch, values={"one": 1.25, "two": -3.0}, errors=[0.1, 0.2])[0]
    assert [bar.get_height() for bar in axes.patches] == [1.25, -3.0]
    assert [text.get_text() for text in axes.texts] == ["1.25", "-3"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["one", "two"]


def rgb(palette, count=0):
    """Linear RGB of the anchors, or of `count` colours between the first and the last."""
    anchors = [[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in palette]
    places = np.linspace(0, len(anchors) - 1, count or len(anchors))
    levels = [np.interp(places, range(len(anchors)), channel) for channel in np.transpose(anchors)]
    shades = np.stack(levels, -1)
    return np.where(shades <= 0.04045, shades / 12.92, ((shades + 0.055) / 1.055) ** 2.4)


def lab(linear):
    """CIELAB, whose distances are what the eye sees: about 2 is just noticeable."""
    rows = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    f = np.cbrt(linear.clip(0, 1) @ np.transpose(rows) / [0.9505, 1, 1.089])
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], -1)


# What is left of a colour without one kind of cone (Machado, Oliveira and Fernandes 2009).
VISION = {
    "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protan": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.052]],
    "deutan": [[0.3673, 0.8606, -0.228], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritan": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}


@pytest.mark.parametrize("palette", [plots.PALETTE, DARK, plots.SIGNED[6:], plots.SIGNED[6::-1]])
def test_palettes_are_safe_without_colour(palette):
    """Each step is lighter, or each darker, than the one before, so that a map reads in grey."""
    steps = np.diff(lab(rgb(palette))[:, 0])
    assert (np.sign(steps) == np.sign(steps[0])).all()
    assert np.abs(steps).min() > 5


@pytest.mark.parametrize("vision", VISION)
def test_signs_differ_for_every_kind_of_colour_vision(vision):
    """Same size, other sign: equally dark, and unlike from a tenth of the scale on."""
    seen = lab(rgb(plots.SIGNED, 255) @ np.transpose(VISION[vision]))
    plain = lab(rgb(plots.SIGNED, 255))
    assert np.abs(plain[:, 0] - plain[::-1, 0]).max() < 3
    for share in (0.1, 0.2, 0.5, 0.75, 1.0):
        k = round(127 * share)
        assert np.linalg.norm(seen[127 + k] - seen[127 - k]) > min(10, 100 * share)


AWKWARD = ["$", "$a$", r"\$", r"$\frac{", "\n", "a\nb", " ", "", "\t", "_x", "<b>", "{", "%"]
BROKEN_FORMULA = r"$\frac{$"


def test_awkward_tokens(monkeypatch):
    """Mathematics and line breaks in a token are neither run nor hidden."""
    n = len(AWKWARD)
    assert heatmap(weights=np.eye(n), destinations=AWKWARD).png
    assert heatmap(weights=[[1.0]], destinations=[BROKEN_FORMULA]).png
    assert bars(values=dict.fromkeys(AWKWARD, 1.0)).png
    assert lines(series={token: ([1, 2], [1, 2]) for token in AWKWARD}).png
    axes = axes_of(heatmap, monkeypatch, weights=np.eye(n), destinations=AWKWARD)[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert len(set(labels)) == n  # still told apart
    assert labels[4:9] == ["↵", "a↵b", "·", "∅", "⇥"]


def test_a_token_without_a_glyph_is_no_warning():
    """Warnings are errors here, and red text in a chapter; reviews hold every kind of sign."""
    assert heatmap(destinations=["東京", "\x96", "🎬"]).png


# --- errors -------------------------------------------------------------------------------------


def test_shapes_that_disagree():
    with pytest.raises(ValueError, match=r"\(2, 2\) map each, got 1 titles and maps of \[\(3, 3\)"):
        heatmap(destinations=list("ab"))
    with pytest.raises(ValueError, match=r"\(3, 2\) map"):
        heatmap(sources=list("ab"))
    with pytest.raises(ValueError, match="got 1 titles and maps of"):
        maps(titles=["one"])
    with pytest.raises(ValueError, match="need one title and one"):
        maps(weights=[], titles=[])
    assert plt.get_fignums() == []


def test_a_figure_that_cannot_be_read_is_refused() -> None:
    def drawn(width: float, *places: tuple[float, float], **look: Any) -> Any:
        fig, axes = plt.subplots(figsize=(width, 3))
        axes.set(xticks=[0.4, 0.41] if look.pop("ticks", False) else [], yticks=[])
        for x, y in places:
            axes.text(x, y, "a word", **look)
        return fig

    told = "'a word' and 'a word' cover each other"
    with pytest.raises(AssertionError, match=r"'a word' is .* pixels high"):
        plots.show(drawn(12, (0.5, 0.5)), "a figure that is far too wide")
    with pytest.raises(AssertionError, match=r"'a word' is .* pixels high"):
        plots.show(drawn(5, (0.5, 0.5), fontsize=6), "a figure with small text")
    with pytest.raises(AssertionError, match=told):
        plots.show(drawn(5, (0.5, 0.5), (0.52, 0.5)), "a figure with one text on another")
    with pytest.raises(AssertionError, match="cover each other"):
        plots.show(drawn(5, ticks=True), "a figure whose labels run into each other")
    plots.show(drawn(5, (0.2, 0.5), (0.6, 0.5)), "a figure that can be read")
    plt.close("all")
