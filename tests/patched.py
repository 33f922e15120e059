"""Activation patching as one would write it first: one run for each place. The tests' reference."""

import torch


def activation_patching(model, clean, corrupted, metric, site="resid"):
    """Put one part of the clean run into the corrupted one, each in its turn (Meng et al. 2022).

    Normalised effects: (L + 1, T) of the stream ("resid"), (L, T) of "mlp_out", one position at a
    time; (L, H) or (L, H_kv) of "q", "k", "v", "pattern" and "z", one head at a time.
    """
    layers = range(model.config.layers)
    sites = [("resid_pre" if site == "resid" else site, layer) for layer in layers]
    if site == "resid":
        sites.append(("resid_post", layers[-1]))

    def answer(ids, edits=None):
        return metric(model(ids[None], edits=edits)[0, -1])

    def exchanged(part, place):
        def put(x):
            x = x.clone()
            x[:, place] = part[:, place]
            return x

        return put

    with torch.no_grad():
        states = list(model.run(model.embed(clean[None]), need_weights=True))
        restored, nothing = answer(clean), answer(corrupted)
        effects = []
        for name, layer in sites:
            part = getattr(states[layer], name)
            edits = [{(name, layer): exchanged(part, place)} for place in range(part.shape[1])]
            effects.append(torch.stack([answer(corrupted, edit) for edit in edits]))
    return (torch.stack(effects) - nothing) / (restored - nothing)
