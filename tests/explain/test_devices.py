"""Every measure on every device and in every float: the numbers are those of the CPU."""

import copy
from itertools import product

import pytest
import torch
from devices import DEVICES, nothing_made_elsewhere
from tiny import config_of, ids_of

from attnlib.explain import (
    adversary,
    aggregation,
    circuits,
    faithfulness,
    geometry,
    heads,
    identifiability,
    patching,
    probing,
    saliency,
)
from attnlib.models import AttentionClassifier, HistogramModel, Transformer

DRAW = torch.Generator().manual_seed(0)
MASK = torch.arange(9) < torch.tensor([9, 6, 4, 2, 1])[:, None]


def drawn(*shape):
    return torch.randn(shape, generator=DRAW)


def built(make):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make().eval()


INPUTS = {
    "mask": MASK,
    "ids": torch.randint(1, 13, (5, 9), generator=DRAW) * MASK,
    "weights": drawn(5, 9).masked_fill(~MASK, -torch.inf).softmax(-1),
    "votes": 3 * drawn(5, 9),
    "maps": drawn(2, 3, 9, 9).softmax(-1),
    "vectors": drawn(9, 4),
    "labels": torch.arange(9) % 3,
    "states": drawn(300, 2, 8),
    "classes": torch.randint(3, (300,), generator=DRAW),
    "clean": ids_of(0, 6),
    "corrupted": ids_of(1, 6),
    "classifier": built(lambda: AttentionClassifier(20, 6, 5, "average")),
    "reader": built(lambda: AttentionClassifier(20, 6, 5, "lstm")),
    "counter": built(lambda: HistogramModel(vocab_size=13, d_model=16, d_hidden=20)),
    "gpt": built(lambda: Transformer(config_of(d_ff=10))),
    "gemma": built(lambda: Transformer(config_of(d_ff=10, norm="both", norm_kind="rms"))),
}


def summed(x):
    return 0.75 * x.sum((-2, -1))


MEASURES = {
    "exact_adversary": lambda i: (
        adversary.exact_adversary(i["votes"], 0.1, i["weights"], i["mask"]).weights
    ),
    "rollout": lambda i: aggregation.rollout(i["maps"]),
    "product_eigenvalues": lambda i: circuits.copying_score(
        circuits.product_eigenvalues(i["vectors"], i["vectors"].T)
    ),
    "composition": lambda i: circuits.composition(i["maps"], i["maps"].mT),
    "offset_score": lambda i: circuits.offset_score(i["maps"], 2),
    "jensen_shannon": lambda i: faithfulness.jensen_shannon(i["weights"], i["weights"].roll(1, 0)),
    "kendall": lambda i: faithfulness.kendall(i["weights"], i["votes"], i["mask"]),
    "permute": lambda i: faithfulness.permute(
        i["weights"], i["mask"], torch.Generator(device="cpu").manual_seed(0)
    ),
    "random_scores": lambda i: faithfulness.random_scores(i["mask"]),
    "select": lambda i: faithfulness.select(i["ids"], i["mask"], i["ids"] % 2 == 0)[0],
    "mean_cosine": lambda i: geometry.mean_cosine(i["states"], i["classes"][:, None] > 0),
    "row_entropy": lambda i: geometry.row_entropy(i["maps"]),
    "class_cosines": lambda i: torch.stack(geometry.class_cosines(i["vectors"], i["labels"])),
    "at_offset": lambda i: heads.pooled([heads.at_offset(heads.pointed_at(i["maps"]), -1)]),
    "interval": lambda i: torch.tensor(heads.interval(i["weights"]), device="cpu"),
    "null_space": lambda i: identifiability.null_space(i["vectors"]).square().sum(1),
    "effective_attention": lambda i: identifiability.effective_attention(i["maps"], i["vectors"]),
    "extreme_weights": lambda i: identifiability.extreme_weights(
        i["maps"][0, 0, 0], identifiability.null_space(i["vectors"]), -i["maps"][0, 0, 0]
    ),
    "log_singular_values": lambda i: identifiability.log_singular_values(i["maps"]),
    "gradient_times_input of a sum": lambda i: saliency.gradient_times_input(summed, i["states"]),
    "integrated_gradients of a sum": lambda i: saliency.integrated_gradients(
        summed, i["states"], steps=50
    ),
    "control_labels": lambda i: probing.control_labels(i["labels"], i["labels"]),
    "train_probe": lambda i: probing.train_probe(i["states"], i["classes"], 3, 4)(i["states"]),
    "online_code": lambda i: probing.online_code(i["states"], i["classes"], 3, ends=(0.3, 1.0)),
}


def scored(i, method, **options):
    score = i["classifier"].scorer(i["mask"])
    return method(score, i["classifier"].embed(i["ids"]), mask=i["mask"], **options)


def left_out(i, model):
    return saliency.leave_one_out(
        lambda ids, mask: model.classify(ids, mask).probability, i["ids"], i["mask"]
    )


OF_MODELS = {
    "gradient_times_input": lambda i: scored(i, saliency.gradient_times_input),
    "integrated_gradients": lambda i: scored(i, saliency.integrated_gradients, steps=5),
    "leave_one_out": lambda i: left_out(i, i["classifier"]),
    "leave_one_out, LSTM": lambda i: left_out(i, i["reader"]),
    "logit_lens": lambda i: patching.logit_lens(i["gpt"], i["clean"]),
    "direct_logit_attribution": lambda i: (
        patching.direct_logit_attribution(i["gemma"], i["clean"], 3, 5).heads
    ),
    "trace of a classifier": lambda i: i["classifier"].trace(i["ids"][0], keep="all").final,
    "trace of a counter": lambda i: i["counter"].trace(i["ids"][0], keep="all").logits,
}
# effects are shares of a difference, and the difference of a small random model is small
IN_FLOAT32 = {
    "path_patching": lambda i: patching.path_patching(
        i["gpt"], i["clean"], i["corrupted"], patching.logit_difference(3, 5), (1, 1), "k"
    )
}


# All but the first, single precision on the CPU: it is what the others are compared with.
ELSEWHERE = [*product(DEVICES, (torch.float32, torch.bfloat16))][1:]


def moved(inputs, device, dtype):
    """The inputs on a device; models and real numbers in a dtype."""
    on = {}
    for name, x in inputs.items():
        x = copy.deepcopy(x) if isinstance(x, torch.nn.Module) else x
        real = isinstance(x, torch.nn.Module) or x.is_floating_point()
        on[name] = x.to(device, dtype) if real else x.to(device)
    return on


def assert_as_on_the_cpu(call, device, dtype, atol):
    expected = call(moved(moved(INPUTS, "cpu", dtype), "cpu", torch.float32))
    found = call(moved(INPUTS, device, dtype))
    torch.testing.assert_close(
        found.detach().cpu().to(expected.dtype),
        expected.detach(),
        atol=atol,
        rtol=0,
        equal_nan=True,
    )


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize(("device", "dtype"), ELSEWHERE)
def test_a_measure_loses_no_digit(name, device, dtype):
    """Numbers in half precision are rounded, and what is made of them is not."""
    atol = 1e-2 if name == "extreme_weights" and dtype == torch.bfloat16 else 1e-4
    assert_as_on_the_cpu(MEASURES[name], device, dtype, atol)


@pytest.mark.parametrize("name", OF_MODELS)
@pytest.mark.parametrize(("device", "dtype"), ELSEWHERE)
def test_a_model_is_explained_where_it_is(name, device, dtype):
    atol = 0.05 if dtype == torch.bfloat16 else 1e-4
    assert_as_on_the_cpu(OF_MODELS[name], device, dtype, atol)


@pytest.mark.parametrize("name", IN_FLOAT32)
@pytest.mark.parametrize("device", DEVICES)
def test_a_path_is_patched_where_the_model_is(name, device):
    assert_as_on_the_cpu(IN_FLOAT32[name], device, torch.float32, 1e-3)


EVERY = MEASURES | OF_MODELS | IN_FLOAT32


@pytest.mark.parametrize("name", EVERY)
def test_no_tensor_is_made_without_the_device_of_its_input(name):
    expected = EVERY[name](INPUTS)
    with nothing_made_elsewhere():
        found = EVERY[name](INPUTS)
    torch.testing.assert_close(found, expected, atol=0, rtol=0, equal_nan=True)


@pytest.mark.parametrize("device", DEVICES)
def test_ids_may_lie_elsewhere_than_the_model(device):
    gpt = copy.deepcopy(INPUTS["gpt"]).to(device)
    lens = patching.logit_lens(gpt, INPUTS["clean"])
    torch.testing.assert_close(lens.cpu(), patching.logit_lens(INPUTS["gpt"], INPUTS["clean"]))
