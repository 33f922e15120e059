"""What students answer in the exercises of chapter 10: wrong, with the message due, and right."""

WRONG: dict[str, list[tuple[str, str]]] = {
    "relation_accuracy": [
        (
            """
def relation_accuracy(maps, arcs):
    found, offsets = [], []
    for A, pairs in zip(maps, arcs):
        for t, s in pairs:
            found.append(A[..., t].argmax(-1) == s)
            offsets.append(s - t)
    accuracy = torch.stack(found).float().mean(0)
    baseline = max(offsets.count(o) for o in offsets) / len(offsets)
    return accuracy, baseline
""",
            "you look along the wrong axis",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    found, offsets = [], []
    for A, pairs in zip(maps, arcs):
        for t, s in pairs:
            found.append(A[:, s].argmax(-1) == t)
            offsets.append(s - t)
    accuracy = torch.stack(found).float().mean(0)
    baseline = max(offsets.count(o) for o in offsets) / len(offsets)
    return accuracy, baseline
""",
            "destination and source have changed places",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    means, offsets = [], []
    for A, pairs in zip(maps, arcs):
        offsets += [s - t for t, s in pairs]
        found = [(A[:, t].argmax(-1) == s).float() for t, s in pairs]
        if found:
            means.append(torch.stack(found).mean(0))
    return torch.stack(means).mean(0), max(map(offsets.count, offsets)) / len(offsets)
""",
            "the mean of the sentences' means",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    found, offsets = [], []
    for A, pairs in zip(maps, arcs):
        for t, s in pairs:
            found.append(A[:, t, s])
            offsets.append(s - t)
    accuracy = torch.stack(found).float().mean(0)
    baseline = max(offsets.count(o) for o in offsets) / len(offsets)
    return accuracy, baseline
""",
            "this is the mean weight on the source",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    found, offsets = [], []
    for A, pairs in zip(maps, arcs):
        for t, s in pairs:
            found.append(A[:, t].argmax(-1) == s)
            offsets.append(s - t)
    accuracy = torch.stack(found).float().sum(0) / sum(A.shape[-1] for A in maps)
    baseline = max(map(offsets.count, offsets)) / sum(A.shape[-1] for A in maps)
    return accuracy, baseline
""",
            "you divide by all words",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    found, best, count = [], 0, 0
    for A, pairs in zip(maps, arcs):
        found += [A[:, t].argmax(-1) == s for t, s in pairs]
        offsets = [s - t for t, s in pairs]
        best += max(map(offsets.count, offsets), default=0)
        count += len(offsets)
    return torch.stack(found).float().mean(0), best / count
""",
            "the commonest offset of every sentence by itself",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    found, offsets = [], []
    for A, pairs in zip(maps, arcs):
        for t, s in pairs:
            found.append(A[:, t].argmax(-1) == s)
            offsets.append(abs(s - t))
    accuracy = torch.stack(found).float().mean(0)
    baseline = max(offsets.count(o) for o in offsets) / len(offsets)
    return accuracy, baseline
""",
            "the commonest distance",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    found, offsets = [], []
    for A, pairs in zip(maps, arcs):
        for t, s in pairs:
            found.append(A[:, t].argmax(-1) == s)
            offsets.append(s - t)
    accuracy = torch.stack(found).float().mean(0)
    baseline = offsets.count(-1) / len(offsets)
    return accuracy, baseline
""",
            "your baseline is the offset −1",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    found, offsets = [], []
    for A, pairs in zip(maps, arcs):
        for t, s in pairs:
            found.append(A[:, t].argmax(-1) == s)
            offsets.append(s - t)
    accuracy = torch.stack(found).float().mean(0)
    baseline = offsets.count(1) / len(offsets)
    return accuracy, baseline
""",
            "your baseline is the offset +1",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    found, offsets = [], []
    for A, pairs in zip(maps, arcs):
        for t, s in pairs:
            found.append(A[:, t].argmax(-1) == s)
            offsets.append(s - t)
    accuracy = torch.stack(found).float().mean(0)
    baseline = float(max(set(offsets), key=offsets.count))
    return accuracy, baseline
""",
            "your baseline is the offset itself",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    found, offsets = [], []
    for A, pairs in zip(maps, arcs):
        for t, s in pairs:
            found.append(A[:, t].argmax(-1) == s)
            offsets.append(s - t)
    accuracy = torch.stack(found).float().mean(0)
    baseline = float(max(map(offsets.count, offsets)))
    return accuracy, baseline
""",
            "your baseline is a number of pairs",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    found, offsets = [], []
    for A, pairs in zip(maps, arcs):
        for t, s in pairs:
            found.append(A[:, t].argmax(-1) == s)
            offsets.append(s - t)
    accuracy = torch.stack(found).float().mean(0)
    baseline = max(offsets.count(o) for o in offsets) / len(offsets)
    return accuracy - baseline, baseline
""",
            "subtracted from the accuracy",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    found, offsets = [], []
    for A, pairs in zip(maps, arcs):
        for t, s in pairs:
            found.append(A[:, t].argmax(-1) == s)
            offsets.append(s - t)
    accuracy = torch.stack(found).float().mean(0)
    baseline = max(offsets.count(o) for o in offsets) / len(offsets)
    return accuracy
""",
            "expected a tuple of 2",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    found, offsets = [], []
    for A, pairs in zip(maps, arcs):
        for t, s in pairs:
            found.append(A[:, t].argmax(-1) == s)
            offsets.append(s - t)
    accuracy = torch.stack(found).mean(0)
    baseline = max(offsets.count(o) for o in offsets) / len(offsets)
    return accuracy, baseline
""",
            "raised runtimeerror",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    found, offsets = [], []
    for A, pairs in zip(maps, arcs):
        for t, s in pairs:
            found.append(A[:, t].argmax(-1) == s)
            offsets.append(s - t)
    accuracy = torch.stack(found).double().mean(0)
    baseline = max(offsets.count(o) for o in offsets) / len(offsets)
    return accuracy, baseline
""",
            "expected float32",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    found, offsets = [], []
    for A, pairs in zip(maps, arcs):
        for t, s in pairs:
            found.append(A[:, t].argmax(-1) == s)
            offsets.append(s - t)
    accuracy = torch.stack(found).float().mean(0)
    baseline = torch.tensor(max(map(offsets.count, offsets)) / len(offsets))
    return accuracy, baseline
""",
            ".item() makes a number",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    means, offsets = [], []
    for A, pairs in zip(maps, arcs):
        offsets += [s - t for t, s in pairs]
        means.append(torch.stack([A[:, t].argmax(-1) == s for t, s in pairs]).float().mean(0))
    return torch.stack(means).mean(0), max(map(offsets.count, offsets)) / len(offsets)
""",
            "means",
        ),
        (
            """
def relation_accuracy(maps, arcs):
    found, offsets = {}, []
    for A, pairs in zip(maps, arcs):
        for t, s in dict(pairs).items():
            found[len(offsets)] = A[:, t].argmax(-1) == s
            offsets.append(s - t)
    baseline = max(map(offsets.count, offsets)) / len(offsets)
    return torch.stack(list(found.values())).float().mean(0), baseline
""",
            "answer[0]",
        ),
    ],
    "usual_offset": [
        (
            """
def usual_offset(A):
    steps = torch.arange(A.shape[-1]) - A.argmax(-1)
    steps = steps.transpose(0, 1).flatten(1)
    offset = steps.mode(-1).values
    share = (steps == offset[:, None]).float().mean(-1)
    return offset, share
""",
            "your sign is the other way round",
        ),
        (
            """
def usual_offset(A):
    steps = A.argmax(-2) - torch.arange(A.shape[-1])
    steps = steps.transpose(0, 1).flatten(1)
    offset = steps.mode(-1).values
    share = (steps == offset[:, None]).float().mean(-1)
    return offset, share
""",
            "rows and columns have changed places",
        ),
        (
            """
def usual_offset(A):
    steps = A.argmax(-1)
    steps = steps.transpose(0, 1).flatten(1)
    offset = steps.mode(-1).values
    share = (steps == offset[:, None]).float().mean(-1)
    return offset, share
""",
            "the commonest source",
        ),
        (
            """
def usual_offset(A):
    T = A.shape[-1]
    of_offset = [A.diagonal(o, -2, -1).sum(-1).mean(0) / T for o in range(1 - T, T)]
    share, place = torch.stack(of_offset, -1).max(-1)
    return place + 1 - T, share
""",
            "the largest mean weight",
        ),
        (
            """
def usual_offset(A):
    T = A.shape[-1]
    steps = (A.argmax(-1) - torch.arange(T)).transpose(0, 1).flatten(1)
    offset = steps.mode(-1).values
    hits = (steps == offset[:, None]).float().sum(-1)
    return offset, hits / (len(A) * (T - offset.abs()))
""",
            "you leave out the destinations",
        ),
        (
            """
def usual_offset(A):
    steps = (A.argmax(-1) - torch.arange(A.shape[-1])).abs()
    steps = steps.transpose(0, 1).flatten(1)
    offset = steps.mode(-1).values
    share = (steps == offset[:, None]).float().mean(-1)
    return offset, share
""",
            "the commonest distance",
        ),
        (
            """
def usual_offset(A):
    steps = torch.arange(A.shape[-1]) - A.argmax(-1)
    steps = steps.transpose(0, 1).flatten(1)
    offset = steps.mode(-1).values
    share = (steps == offset[:, None]).float().mean(-1)
    return -offset, share
""",
            "you take the larger one",
        ),
        (
            """
def usual_offset(A):
    steps = A[:1].argmax(-1) - torch.arange(A.shape[-1])
    steps = steps.transpose(0, 1).flatten(1)
    offset = steps.mode(-1).values
    share = (steps == offset[:, None]).float().mean(-1)
    return offset, share
""",
            "you count in the first text only",
        ),
        (
            """
def usual_offset(A):
    steps = A.argmax(-1) - torch.arange(A.shape[-1])
    steps = steps.transpose(0, 1).flatten(1)
    offset = steps.mode(-1).values
    share = (steps == offset[:, None]).float().sum(-1)
    return offset, share
""",
            "your share is a number of destinations",
        ),
        (
            """
def usual_offset(A):
    steps = A.argmax(-1) - torch.arange(A.shape[-1])
    steps = steps.transpose(0, 1).flatten(1)
    offset = steps.mode(-1).values
    share = (steps == offset[:, None]).float().sum(-1) / A.shape[-1]
    return offset, share
""",
            "the destinations of one text",
        ),
        (
            """
def usual_offset(A):
    steps = A.argmax(-1) - torch.arange(A.shape[-1])
    steps = steps.transpose(0, 1).flatten(1)
    offset = steps.float().mean(-1).round().long()
    share = (steps == offset[:, None]).float().mean(-1)
    return offset, share
""",
            "differ",
        ),
        (
            """
def usual_offset(A):
    steps = A.argmax(-1) - torch.arange(A.shape[-1])
    steps = steps.flatten()[None]
    offset = steps.mode(-1).values
    share = (steps == offset[:, None]).float().mean(-1)
    return offset[0], share[0]
""",
            "one answer for all heads",
        ),
        (
            """
def usual_offset(A):
    steps = A.argmax(-1) - torch.arange(A.shape[-1])
    steps = steps.reshape(A.shape[1], -1)
    offset = steps.mode(-1).values
    share = (steps == offset[:, None]).float().mean(-1)
    return offset, share
""",
            "differ",
        ),
        (
            """
def usual_offset(A):
    steps = A.argmax(-1) - torch.arange(A.shape[-1])
    steps = steps.flatten(1)
    offset = steps.mode(-1).values
    share = (steps == offset[:, None]).float().mean(-1)
    return offset, share
""",
            "answer[0] has the shape",
        ),
        (
            """
def usual_offset(A):
    steps = A.argmax(-1) - torch.arange(A.shape[-1])
    steps = steps.transpose(0, 1).flatten(1)
    offset = steps.mode(-1).values
    share = (steps == offset[:, None]).float().mean(-1)
    return share, offset
""",
            "dtype float32, expected int64",
        ),
        (
            """
def usual_offset(A):
    steps = A.argmax(-1) - torch.arange(A.shape[-1])
    steps = steps.transpose(0, 1).flatten(1)
    offset = steps.mode(-1).values
    share = (steps == offset[:, None]).float().mean(-1)
    return offset.float(), share
""",
            "dtype float32, expected int64",
        ),
        (
            """
def usual_offset(A):
    steps = A.argmax(-1) - torch.arange(A.shape[-1])
    steps = steps.transpose(0, 1).flatten(1)
    offset = steps.mode(-1).values
    share = (steps == offset[:, None]).double().mean(-1)
    return offset, share
""",
            "expected float32",
        ),
        (
            """
def usual_offset(A):
    steps = A.argmax(-1) - torch.arange(A.shape[-1])
    offset = steps.transpose(0, 1).flatten(1).mode(-1).values
    share = [A.diagonal(int(o), -2, -1)[:, h].mean() for h, o in enumerate(offset)]
    return offset, torch.stack(share)
""",
            "differ",
        ),
        (
            """
def usual_offset(A):
    steps = (A.argmax(-1) - torch.arange(A.shape[-1])).clamp(-2, 2)
    steps = steps.transpose(0, 1).flatten(1)
    offset = steps.mode(-1).values
    return offset, (steps == offset[:, None]).float().mean(-1)
""",
            "differ",
        ),
    ],
    "gate_chances": [
        (
            """
def gate_chances(log_a, beta, low, high):
    o = torch.sigmoid(log_a - math.log(-low / high))
    i = torch.sigmoid(log_a - math.log((1 - low) / (high - 1)))
    return torch.stack([1 - o, o - i, i], -1)
""",
            "β is missing at the border",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    o = torch.sigmoid(log_a + beta * math.log(-low / high))
    i = torch.sigmoid(log_a + beta * math.log((1 - low) / (high - 1)))
    return torch.stack([1 - o, o - i, i], -1)
""",
            "your borders have the wrong sign",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    o = torch.sigmoid(log_a / beta - math.log(-low / high))
    i = torch.sigmoid(log_a / beta - math.log((1 - low) / (high - 1)))
    return torch.stack([1 - o, o - i, i], -1)
""",
            "you divide log a by β as well",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    o = torch.sigmoid(log_a)
    i = torch.sigmoid(log_a - beta * math.log((1 - low) / (high - 1)))
    return torch.stack([1 - o, o - i, i], -1)
""",
            "with the probability σ(log a)",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    o = torch.sigmoid(log_a - beta * math.log(-low / high))
    i = torch.sigmoid(log_a)
    return torch.stack([1 - o, o - i, i], -1)
""",
            "that of σ(s) above ½",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    o = torch.sigmoid(log_a - beta * math.log(-low / high))
    i = torch.sigmoid(log_a - beta * math.log(-low / high))
    return torch.stack([1 - o, o - i, i], -1)
""",
            "the border of 0",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    def above(log_a):
        return torch.sigmoid(log_a - beta * math.log(-low / high))

    o, i = above(log_a), 1 - above(-log_a)
    return torch.stack([1 - o, o - i, i], -1)
""",
            "as often 1 at log a",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    o = torch.sigmoid(log_a - beta * math.log(-low / high))
    i = torch.sigmoid(log_a - beta * math.log((1 - low) / (high - 1)))
    return torch.stack([i, o - i, 1 - o], -1)
""",
            "0 and 1 have changed places",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    o = torch.sigmoid(log_a - beta * math.log(-low / high))
    i = torch.sigmoid(log_a - beta * math.log((1 - low) / (high - 1)))
    return torch.stack([1 - o, o, i], -1)
""",
            "your second number is p(g > 0)",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    o = torch.sigmoid(log_a - beta * math.log(-low / high))
    i = torch.sigmoid(log_a - beta * math.log((1 - low) / (high - 1)))
    return torch.stack([1 - o, o - i, i])
""",
            "the three stand in front",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    g = ((high - low) * torch.sigmoid(log_a / beta) + low).clamp(0, 1)
    return torch.stack([g == 0, (g > 0) & (g < 1), g == 1], -1).to(log_a.dtype)
""",
            "answer",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    u = torch.rand(20_000, *log_a.shape)
    s = (u.log() - (1 - u).log() + log_a) / beta
    g = ((high - low) * s.sigmoid() + low).clamp(0, 1)
    parts = [(g == 0), (g > 0) & (g < 1), (g == 1)]
    return torch.stack([part.to(log_a.dtype).mean(0) for part in parts], -1)
""",
            "differ",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    o = torch.sigmoid(log_a - beta * math.log(-low / high))
    i = torch.sigmoid(log_a - beta * math.log((1 - low) / (high - 1)))
    return o
""",
            "the answer has the shape",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    o = torch.sigmoid(log_a - beta * math.log(low / high))
    i = torch.sigmoid(log_a - beta * math.log((1 - low) / (high - 1)))
    return torch.stack([1 - o, o - i, i], -1)
""",
            "raised valueerror",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    o = torch.sigmoid(log_a - beta * math.log(0.1 / 1.1))
    i = torch.sigmoid(log_a - beta * math.log(1.1 / 0.1))
    return torch.stack([1 - o, o - i, i], -1)
""",
            "differ",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    o = torch.sigmoid(log_a - beta * math.log(-low / high))
    i = torch.sigmoid(log_a - beta * math.log((1 - low) / (high - 1)))
    return torch.stack([1 - o, o - i, i], -1).double()
""",
            "expected float32",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    border = beta * math.log(-low / high)
    o = log_a.exp() / (log_a.exp() + math.exp(border))
    border = beta * math.log((1 - low) / (high - 1))
    i = log_a.exp() / (log_a.exp() + math.exp(border))
    return torch.stack([1 - o, o - i, i], -1)
""",
            "differ",
        ),
        (
            """
def gate_chances(log_a, beta, low, high):
    o = torch.sigmoid(log_a - beta * math.log(-low / high))
    i = torch.sigmoid(log_a - beta * math.log(high / -low))
    return torch.stack([1 - o, o - i, i], -1)
""",
            "as often 1 at log a",
        ),
    ],
    "z_rule": [
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W + b
    pushed = z + eps
    return x * ((R / pushed) @ W.mT)
""",
            "ε always has a plus",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W + b
    pushed = torch.where(z < 0, z + eps, z - eps)
    return x * ((R / pushed) @ W.mT)
""",
            "ε has the wrong sign",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W + b
    pushed = z
    return x * ((R / pushed) @ W.mT)
""",
            "ε is missing",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W + b
    pushed = z + eps * z.sign()
    return x * ((R / pushed) @ W.mT)
""",
            "a z of 0 gets no ε",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W + b
    pushed = torch.where(z <= 0, z - eps, z + eps)
    return x * ((R / pushed) @ W.mT)
""",
            "differ",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W
    pushed = torch.where(z < 0, z - eps, z + eps)
    return x * ((R / pushed) @ W.mT)
""",
            "b is missing in z",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W + b
    pushed = torch.where(z < 0, z - eps, z + eps)
    parts = x[..., :, None] * W + b / x.shape[-1]
    return (parts * (R / pushed)[..., None, :]).sum(-1)
""",
            "you share the bias among the inputs",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W + b
    pushed = torch.where(z < 0, z - eps, z + eps)
    return x * ((R / pushed) @ W.mT) * (R.sum(-1) / (x * ((R / pushed) @ W.mT)).sum(-1))[..., None]
""",
            "you stretch the result",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W + b
    pushed = torch.where(z < 0, z - eps, z + eps)
    return (R / pushed) @ W.mT
""",
            "x is missing",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W + b
    pushed = torch.where(z < 0, z - eps, z + eps)
    return x * (R / pushed).sum(-1, keepdim=True)
""",
            "w is missing",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W + b
    pushed = torch.where(z < 0, z - eps, z + eps)
    return x * (R @ W.mT)
""",
            "the gradient times the input",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    parts = (x[..., :, None] * W).abs()
    return (parts / parts.sum(-2, keepdim=True) * R[..., None, :]).sum(-1)
""",
            "you share by absolute values",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    parts = (x[..., :, None] * W).clamp(min=0)
    return (parts / (parts.sum(-2, keepdim=True) + eps) * R[..., None, :]).sum(-1)
""",
            "only positive parts",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W + b
    pushed = torch.where(z < 0, z - eps, z + eps)
    return R * (x @ W) / pushed
""",
            "these are the shares of the outputs",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W + b
    pushed = z.clamp(min=eps)
    return x * ((R / pushed) @ W.mT)
""",
            "differ",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W + b
    pushed = torch.where(z < 0, z - eps, z + eps)
    return torch.einsum("i,ij,j->i", x, W, R / pushed)
""",
            "raised runtimeerror",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W + b
    pushed = torch.where(z < 0, z - eps, z + eps)
    return x * ((R / pushed) @ W.mT).sum(0)
""",
            "differ",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W
    z += b
    z += torch.where(z < 0, -eps, eps)
    R /= z
    return x * (R @ W.mT)
""",
            "in place",
        ),
        (
            """
def z_rule(x, W, b, R, eps):
    z = x @ W + b
    pushed = torch.where(z < 0, z - eps, z + eps)
    return (x * ((R / pushed) @ W.mT)).float()
""",
            "expected float64",
        ),
    ],
    "pruning_order": [
        (
            """
def pruning_order(relevance, steps):
    size = relevance.mean(0).abs()
    order = size.flatten().argsort(stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k + 1 :, order[k]] = 0
    return gates.reshape(-1, *size.shape)
""",
            "you take the mean first",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.mean(0)
    order = size.flatten().argsort(stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k + 1 :, order[k]] = 0
    return gates.reshape(-1, *size.shape)
""",
            "the sign counts in your ranking",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    order = size.flatten().argsort(descending=True, stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k + 1 :, order[k]] = 0
    return gates.reshape(-1, *size.shape)
""",
            "the most relevant heads go first",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    rank = size.argsort(-1).argsort(-1)
    return (rank >= torch.arange(steps + 1)[:, None, None]).float()
""",
            "in each layer",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    now, rows = torch.ones_like(size), []
    rows.append(now.clone())
    for place in size.flatten().argsort(stable=True).tolist():
        a, h = divmod(place, size.shape[1])
        if now[a].sum() > 1:
            now[a, h] = 0
            rows.append(now.clone())
    return torch.stack(rows[: steps + 1]).float()
""",
            "you spare the last head",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    order = size.shape.numel() - 1 - size.flatten().flip(0).argsort(stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k + 1 :, order[k]] = 0
    return gates.reshape(-1, *size.shape)
""",
            "the later one goes first",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    order = size.flatten().argsort(stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k + 1 :, order[k]] = 0
    return 1 - gates.reshape(-1, *size.shape)
""",
            "0 and 1 have changed places",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    order = size.flatten().argsort(stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k + 1 :, order[k]] = 0
    return gates.reshape(-1, *size.shape)[1:]
""",
            "the first row is missing",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    order = size.flatten().argsort(stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k + 1 :, order[k]] = 0
    return gates.reshape(-1, *size.shape)[-1]
""",
            "this is the last row alone",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    order = size.flatten().argsort(stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k + 1, order[k]] = 0
    return gates.reshape(-1, *size.shape)
""",
            "each row removes one head only",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().amax(0)
    order = size.flatten().argsort(stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k + 1 :, order[k]] = 0
    return gates.reshape(-1, *size.shape)
""",
            "the largest relevance of a sentence",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance[0].abs()
    order = size.flatten().argsort(stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k + 1 :, order[k]] = 0
    return gates.reshape(-1, *size.shape)
""",
            "you rank by one sentence",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    order = size.flatten().argsort(stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k + 1 :, order[k]] = 0
    return gates.reshape(-1, *size.shape).flip(0)
""",
            "your rows count backwards",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    order = size.flatten().argsort(stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k:, order[k]] = 0
    return gates.reshape(-1, *size.shape)
""",
            "differ",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    order = size.flatten().argsort(stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k + 1 :, order[k]] = 0
    return gates
""",
            "the answer has the shape",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    order = size.flatten().argsort(stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k + 1 :, order[k]] = 0
    return gates.reshape(-1, *size.shape).bool()
""",
            "dtype bool, expected float32",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.square().mean(0)
    order = size.flatten().argsort(stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k + 1 :, order[k]] = 0
    return gates.reshape(-1, *size.shape)
""",
            "differ",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    order = size.flatten().argsort(stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k + 1 :, order[k]] = 0
    return gates.to(relevance.dtype).reshape(-1, *size.shape)
""",
            "expected float32",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    order = size.flatten().sort().values
    return torch.stack([(size >= order[k]).float() for k in range(steps + 1)])
""",
            "raised indexerror",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "relation_accuracy": [
        """
from collections import Counter

def relation_accuracy(maps, arcs):
    found = torch.cat(
        [
            torch.stack([A.argmax(-1)[:, t] == s for t, s in pairs])
            for A, pairs in zip(maps, arcs)
            if len(pairs) > 0
        ]
    )
    counter = Counter(source - destination for pairs in arcs for destination, source in pairs)
    return found.to(torch.float32).mean(dim=0), counter.most_common(1)[0][1] / counter.total()
""",
        """
import numpy as np

def relation_accuracy(maps, arcs):
    right, offsets = np.zeros(maps[0].shape[0]), []
    for A, pairs in zip(maps, arcs):
        most = A.numpy().argmax(axis=2)
        for t, s in pairs:
            right += most[:, t] == s
            offsets.append(s - t)
    values, times = np.unique(offsets, return_counts=True)
    return torch.tensor(right / len(offsets)).float(), float(times.max() / len(offsets))
""",
        """
class Tally:
    def __init__(self, heads):
        self.right, self.offsets = [0] * heads, {}

    def add(self, A, t, s):
        for head, row in enumerate(A[:, t].tolist()):
            self.right[head] += row.index(max(row)) == s
        self.offsets[s - t] = self.offsets.get(s - t, 0) + 1

def relation_accuracy(maps, arcs):
    tally = Tally(len(maps[0]))
    for A, pairs in zip(maps, arcs):
        for pair in pairs:
            tally.add(A, *pair)
    count = sum(tally.offsets.values())
    return torch.tensor(tally.right) / count, max(tally.offsets.values()) / count
""",
        """
def relation_accuracy(maps, arcs):
    jacobian, grad = [], []
    for one in range(len(maps)):
        if not arcs[one]:
            continue
        t, s = torch.tensor(arcs[one]).T
        jacobian.append((maps[one].argmax(2)[:, t] == s).float())
        grad.append(s - t)
    offsets = torch.cat(grad)
    baseline = (offsets[:, None] == offsets).sum(1).max().item() / len(offsets)
    return torch.cat(jacobian, dim=1).mean(1), baseline
""",
    ],
    "usual_offset": [
        """
def usual_offset(A):
    N, H, T, _ = A.shape
    offset, share = torch.zeros(H, dtype=torch.int64), torch.zeros(H)
    for h in range(H):
        count = {}
        for n in range(N):
            for t in range(T):
                step = int(A[n, h, t].argmax()) - t
                count[step] = count.get(step, 0) + 1
        best = min(count, key=lambda step: (-count[step], step))
        offset[h], share[h] = best, count[best] / (N * T)
    return offset, share
""",
        """
def usual_offset(A):
    T = A.shape[-1]
    offsets = torch.arange(1 - T, T)
    steps = A.argmax(-1) - torch.arange(T)
    counts = (steps[..., None] == offsets).sum(dim=(0, 2))
    first = (counts == counts.amax(-1, keepdim=True)).int().argmax(-1)
    return offsets[first], counts.amax(-1) / (len(A) * T)
""",
        """
import numpy as np

def usual_offset(A):
    weights = A.numpy()
    T = weights.shape[-1]
    steps = weights.argmax(-1) - np.arange(T)
    found = []
    for head in range(weights.shape[1]):
        counts = np.bincount((steps[:, head] + T).ravel())
        found.append((counts.argmax() - T, counts.max() / steps[:, head].size))
    offsets, shares = zip(*found)
    return torch.tensor(np.array(offsets)), torch.tensor(shares, dtype=torch.float32)
""",
        """
class Head:
    def __init__(self, maps):
        self.steps = maps.max(dim=2).indices - torch.arange(maps.shape[1])[None]

    def mode(self):
        values, counts = self.steps.unique(return_counts=True)
        best = values[counts == counts.max()].min()
        return best, (self.steps == best).to(torch.float32).mean()

def usual_offset(A):
    modes = [Head(A[:, hessian]).mode() for hessian in range(A.shape[1])]
    return torch.stack([best for best, _ in modes]), torch.stack([share for _, share in modes])
""",
    ],
    "gate_chances": [
        """
import math

def gate_chances(log_a, beta, low, high):
    borders = []
    for value in (0.0, 1.0):
        p = (value - low) / (high - low)
        borders.append(torch.sigmoid(beta * (math.log(p) - math.log(1 - p)) - log_a))
    shut, not_one = borders
    return torch.stack((shut, not_one - shut, 1 - not_one), dim=-1)
""",
        """
import math

def gate_chances(log_a, beta, low, high):
    out = torch.zeros(log_a.numel(), 3, dtype=log_a.dtype)
    for i, a in enumerate(log_a.flatten().tolist()):
        grad = [a - beta * math.log(-low / high), a - beta * math.log((1 - low) / (high - 1))]
        is_open, is_one = (0.5 + 0.5 * math.tanh(g / 2) for g in grad)
        out[i] = torch.tensor([1 - is_open, is_open - is_one, is_one])
    return out.reshape(*log_a.shape, 3)
""",
        """
import numpy as np

def gate_chances(log_a, beta, low, high):
    a = log_a.double().numpy()[..., None]
    cuts = beta * np.log(np.array([-low / high, (1 - low) / (high - 1)]))
    below = 0.5 * (1 + np.tanh((cuts - a) / 2))
    edges = np.concatenate([np.zeros_like(a), below, np.ones_like(a)], axis=-1)
    return torch.from_numpy(np.diff(edges, axis=-1)).to(log_a.dtype)
""",
        """
class Logistic:
    def __init__(self, mean):
        self.mean = mean

    def below(self, y):
        return 1 / (1 + torch.exp(torch.clamp(self.mean - y, max=80)))

def gate_chances(log_a, beta, low, high):
    noise = Logistic(log_a)
    ratio = torch.tensor([-low / high, (1 - low) / (high - 1)], dtype=log_a.dtype)
    zero, one = (noise.below(beta * cut) for cut in ratio.log())
    jacobian = torch.zeros(*log_a.shape, 3, dtype=log_a.dtype)
    jacobian[..., 0], jacobian[..., 1], jacobian[..., 2] = zero, one - zero, 1 - one
    return jacobian
""",
    ],
    "z_rule": [
        """
def z_rule(x, W, b, R, eps):
    parts = x[..., :, None] * W
    z = parts.sum(-2) + b
    sign = torch.where(z >= 0, 1.0, -1.0).to(z.dtype)
    return (parts / (z + eps * sign)[..., None, :] * R[..., None, :]).sum(-1)
""",
        """
def z_rule(x, W, b, R, eps):
    rows, outs = x.reshape(-1, x.shape[-1]), R.reshape(-1, R.shape[-1])
    found = torch.zeros_like(rows)
    for k in range(len(rows)):
        for j in range(W.shape[1]):
            z = b[j] + sum(rows[k, i] * W[i, j] for i in range(W.shape[0]))
            z = z + eps if z >= 0 else z - eps
            for i in range(W.shape[0]):
                found[k, i] += rows[k, i] * W[i, j] / z * outs[k, j]
    return found.reshape(x.shape)
""",
        """
import numpy as np

def z_rule(x, W, b, R, eps):
    inputs, weights = x.double().numpy(), W.double().numpy()
    z = inputs @ weights + b.double().numpy()
    s = R.double().numpy() / (z + np.copysign(eps, z + 0.0))
    return torch.from_numpy(inputs * (s @ weights.T)).to(x.dtype)
""",
        """
class Linear:
    def __init__(self, W, b):
        self.W, self.b = W, b

    def __call__(self, x):
        return torch.einsum("...i,ij->...j", x, self.W) + self.b

    def back(self, grad):
        return torch.einsum("...j,ij->...i", grad, self.W)

def z_rule(x, W, b, R, eps):
    layer = Linear(W, b)
    z = layer(x)
    negative = (z < 0).to(z.dtype)
    return x.mul(layer.back(R.div(z + eps - 2 * eps * negative)))
""",
    ],
    "pruning_order": [
        """
def pruning_order(relevance, steps):
    N, A, H = relevance.shape
    size = relevance.abs().sum(0) / N
    places = sorted((size[a, h].item(), a, h) for a in range(A) for h in range(H))
    rows = [torch.ones(A, H)]
    for _, a, h in places[:steps]:
        row = rows[-1].clone()
        row[a, h] = 0
        rows.append(row)
    return torch.stack(rows)
""",
        """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(dim=0)
    rank = torch.empty(size.numel(), dtype=torch.int64)
    rank[torch.sort(size.flatten(), stable=True).indices] = torch.arange(size.numel())
    return (rank.reshape(size.shape) >= torch.arange(steps + 1)[:, None, None]).float()
""",
        """
import numpy as np

def pruning_order(relevance, steps):
    size = np.abs(relevance.numpy()).mean(axis=0)
    order = np.argsort(size, axis=None, kind="stable")
    gates = np.ones((steps + 1, size.size), dtype=np.float32)
    for k, head in enumerate(order[:steps], start=1):
        gates[k:, head] = 0
    return torch.from_numpy(gates.reshape(steps + 1, *size.shape))
""",
        """
class Heads:
    def __init__(self, relevance):
        self.grad = relevance.abs().mean(0)
        self.gates = torch.ones(self.grad.shape)

    def prune(self):
        left = self.grad.masked_fill(self.gates == 0, torch.inf).tolist()
        least = min(min(row) for row in left)
        layer = next(a for a, row in enumerate(left) if least in row)
        self.gates[layer, left[layer].index(least)] = 0
        return self.gates.clone()

def pruning_order(relevance, steps):
    heads = Heads(relevance)
    return torch.stack([heads.gates.clone()] + [heads.prune() for _ in range(steps)])
""",
    ],
}

EQUIVALENT: dict[str, dict[str, str]] = {
    "relation_accuracy": {
        "baseline = max((offsets.count(o) for o in offsets)) / len(found)": (
            "one of each for every pair"
        ),
        "offsets.append(destination - source)": "an offset and its mirror image are as common",
        "found.append(A[:, destination].argmax(1) == source)": "the last of two axes",
    },
    "usual_offset": {
        "offset = steps.mode().values": "the last axis is the default",
        "steps = steps.transpose(1, 0).flatten(1)": "the same two axes",
        "offset = steps.mode(1).values": "the last of two axes",
        "return (offset, (steps == offset[:, None]).float().mean(1))": "the last of two axes",
        "steps = A.argmax(-1) - torch.arange(A.shape[-2])": "a map is square",
    },
    "z_rule": {"return x * (R / pushed @ W.T)": "W has two axes"},
    "pruning_order": {
        "size = relevance.abs().sum(0)": "N times the mean ranks alike",
        "flat = size.flatten()": "tensors of one value compare as numbers do",
        "gates = torch.ones(steps + 1, len(flat))": "as many places as values",
    },
}
