"""Our weights in the layout of the published GPT-2, for the tests that read them back."""

import torch

from attnlib.pretrained.conversion import _renamed


def to_gpt2(model):
    """Copies under the published names, such as "h.0.attn.c_attn.weight" (d_model, 3 · d_model)."""
    config, ours = model.config, model.state_dict()
    theirs = {name: ours[mine] for mine, name in _renamed(config)}
    for layer in range(config.layers):
        there, here = f"h.{layer}.attn.", f"blocks.{layer}.attention."
        matrices = [ours[f"{here}W_{letter}"].transpose(0, 1).flatten(1) for letter in "QKV"]
        theirs[f"{there}c_attn.weight"] = torch.cat(matrices, dim=1)
        biases = [ours[f"{here}b_{letter}"].flatten() for letter in "QKV"]
        theirs[f"{there}c_attn.bias"] = torch.cat(biases)
        theirs[f"{there}c_proj.weight"] = ours[f"{here}W_O"].flatten(0, 1)
    return {name: weight.clone() for name, weight in theirs.items()}
