"""Our weights in the layout of the published GPT-2, for the tests that read them back."""

import pytest
import torch

WHOLE = {"W_E": "wte.weight", "W_P": "wpe.weight"}
NORMS = {"final_norm": "ln_f", "blocks.{}.norm_1": "h.{}.ln_1", "blocks.{}.norm_2": "h.{}.ln_2"}
PLAIN = {"attention.b_O": "attn.c_proj.bias"}
for part, module in (("1", "c_fc"), ("2", "c_proj")):
    PLAIN |= {f"feed_forward.W_{part}": f"mlp.{module}.weight"}
    PLAIN |= {f"feed_forward.b_{part}": f"mlp.{module}.bias"}


def renamed(config):
    """Ours and theirs, of the weights that have the same shape in both layouts."""
    names = dict(WHOLE)
    for layer in range(config.layers):
        names |= {f"blocks.{layer}.{mine}": f"h.{layer}.{name}" for mine, name in PLAIN.items()}
    for mine, name in NORMS.items():
        for layer in range(config.layers if "{}" in mine else 1):
            for part in ("weight", "bias"):
                names[f"{mine.format(layer)}.{part}"] = f"{name.format(layer)}.{part}"
    return names.items()


def to_gpt2(model):
    """Copies under the published names, such as "h.0.attn.c_attn.weight" (d_model, 3 · d_model)."""
    config, ours = model.config, model.state_dict()
    theirs = {name: ours[mine] for mine, name in renamed(config)}
    for layer in range(config.layers):
        there, here = f"h.{layer}.attn.", f"blocks.{layer}.attention."
        matrices = [ours[f"{here}W_{letter}"].transpose(0, 1).flatten(1) for letter in "QKV"]
        theirs[f"{there}c_attn.weight"] = torch.cat(matrices, dim=1)
        biases = [ours[f"{here}b_{letter}"].flatten() for letter in "QKV"]
        theirs[f"{there}c_attn.bias"] = torch.cat(biases)
        theirs[f"{there}c_proj.weight"] = ours[f"{here}W_O"].flatten(0, 1)
    return {name: weight.clone() for name, weight in theirs.items()}


def wrong_weight(good, name, config, read):
    """Missing, one row too many, turned: each is an error that says which weight it is."""
    bad = {key: value for key, value in good.items() if key != name}
    with pytest.raises(ValueError, match=rf"of 2 layers, .* 1 missing: {name}\. Is it"):
        read(bad, config)
    longer = torch.cat([good[name], good[name][:1]])
    wrongs = [longer, good[name][None]]
    if good[name].ndim == 2 and good[name].shape[0] != good[name].shape[1]:
        wrongs.append(good[name].T)
    for wrong in wrongs:
        message = rf"{name} of shape \({len(wrong)},.* does not give"
        with pytest.raises(ValueError, match=message):
            read(good | {name: wrong}, config)
