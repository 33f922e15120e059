"""What students answer in the exercises of chapter 10: wrong, with the message due, and right."""

from bank import changed

RELATION = """
def relation_accuracy(maps, arcs):
    found, offsets = [], []
    for A, pairs in zip(maps, arcs):
        for t, s in pairs:
            found.append(A[:, t].argmax(-1) == s)
            offsets.append(s - t)
    accuracy = torch.stack(found).float().mean(0)
    baseline = max(offsets.count(o) for o in offsets) / len(offsets)
    return accuracy, baseline
"""

USUAL = """
def usual_offset(A):
    steps = A.argmax(-1) - torch.arange(A.shape[-1])
    steps = steps.transpose(0, 1).flatten(1)
    offset = steps.mode(-1).values
    share = (steps == offset[:, None]).float().mean(-1)
    return offset, share
"""

GATE = """
def gate_chances(log_a, beta, low, high):
    o = torch.sigmoid(log_a - beta * math.log(-low / high))
    i = torch.sigmoid(log_a - beta * math.log((1 - low) / (high - 1)))
    return torch.stack([1 - o, o - i, i], -1)
"""

Z_RULE = """
def z_rule(x, W, b, R, eps):
    z = x @ W + b
    pushed = torch.where(z < 0, z - eps, z + eps)
    return x * ((R / pushed) @ W.mT)
"""

HALVES = """
def z_rule(x, W, b, R, eps):
    small = 1e-30
    plus, minus, up, down = x.clamp(min=0), x.clamp(max=0), W.clamp(min=0), W.clamp(max=0)
    positive = plus @ up + minus @ down + b.clamp(min=0)
    negative = plus @ down + minus @ up + b.clamp(max=0)
    both = 0.5 + 0.5 * ((positive == 0) | (negative == 0)).to(x)
    p, n = both * R / (positive + small), both * R / (negative - small)
    return plus * (p @ up.mT + n @ down.mT) + minus * (p @ down.mT + n @ up.mT)
"""

ORDER = """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    order = size.flatten().argsort(stable=True)
    gates = torch.ones(steps + 1, len(order))
    for k in range(steps):
        gates[k + 1 :, order[k]] = 0
    return gates.reshape(-1, *size.shape)
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "relation_accuracy": [
        (changed(RELATION, "[:,", "[...,"), "you look along the wrong axis"),
        (
            changed(RELATION, " t]", " s]", " s)", " t)"),
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
            changed(RELATION, "[:, t].argmax(-1) == s", "[:, t, s]"),
            "this is the mean weight on the source",
        ),
        (
            changed(
                RELATION,
                "mean(0)",
                "sum(0) / sum(A.shape[-1] for A in maps)",
                "(offsets.count(o) for o in offsets) / len(offsets)",
                "(map(offsets.count, offsets)) / sum(A.shape[-1] for A in maps)",
            ),
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
        (changed(RELATION, "s - t", "abs(s - t)"), "the commonest distance"),
        (
            changed(RELATION, "max(offsets.count(o) for o in offsets)", "offsets.count(-1)"),
            "your baseline is the offset −1",
        ),
        (
            changed(RELATION, "max(offsets.count(o) for o in offsets)", "offsets.count(1)"),
            "your baseline is the offset +1",
        ),
        (
            changed(
                RELATION,
                "max(offsets.count(o) for o in offsets) / len(offsets)",
                "float(max(set(offsets), key=offsets.count))",
            ),
            "your baseline is the offset itself",
        ),
        (
            changed(
                RELATION,
                "max(offsets.count(o) for o in offsets) / len(offsets)",
                "float(max(map(offsets.count, offsets)))",
            ),
            "your baseline is a number of pairs",
        ),
        (changed(RELATION, "accuracy,", "accuracy - baseline,"), "subtracted from the accuracy"),
        (changed(RELATION, ", baseline", ""), "expected a tuple of 2"),
        (changed(RELATION, "float().", ""), "raised runtimeerror"),
        (changed(RELATION, "float", "double"), "expected float32"),
        (
            changed(
                RELATION,
                "max(offsets.count(o) for o in offsets) / len(offsets)",
                "torch.tensor(max(map(offsets.count, offsets)) / len(offsets))",
            ),
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
            "a destination with several pairs counts once",
        ),
        (
            changed(RELATION, "in pairs:", "in dict(pairs).items():"),
            "a destination with several pairs counts once",
        ),
        (
            changed(RELATION, "mean(0)", "sum(0) / sum(A.shape[-1] for A in maps)"),
            "your accuracy is divided by all words",
        ),
        (
            changed(RELATION, "/ len(offsets)", "/ sum(A.shape[-1] for A in maps)"),
            "your baseline is divided by all words",
        ),
    ],
    "usual_offset": [
        (
            changed(USUAL, "A.argmax(-1) - ", "", "(A.shape[-1])", "(A.shape[-1]) - A.argmax(-1)"),
            "your sign is the other way round",
        ),
        (changed(USUAL, "(-1) ", "(-2) "), "rows and columns have changed places"),
        (changed(USUAL, "(-1) - torch.arange(A.shape[-1])", "(-1)"), "the commonest source"),
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
        (changed(USUAL, "= A", "= (A", "1])", "1])).abs()"), "the commonest distance"),
        (
            changed(
                USUAL,
                "A.argmax(-1) - ",
                "",
                "(A.shape[-1])",
                "(A.shape[-1]) - A.argmax(-1)",
                "return offset",
                "return -offset",
            ),
            "you take the larger one",
        ),
        (changed(USUAL, " A.", " A[:1]."), "you count in the first text only"),
        (changed(USUAL, "mean", "sum"), "your share is a number of destinations"),
        (changed(USUAL, "mean(-1)", "sum(-1) / A.shape[-1]"), "the destinations of one text"),
        (changed(USUAL, "mode(-1).values", "float().mean(-1).round().long()"), "that of the mean"),
        (
            changed(
                USUAL, "transpose(0, 1).flatten(1)", "flatten()[None]", ", share", "[0], share[0]"
            ),
            "one answer for all heads",
        ),
        (
            changed(USUAL, "transpose(0, 1).flatten(1)", "reshape(A.shape[1], -1)"),
            "heads and texts are mixed",
        ),
        (changed(USUAL, ".transpose(0, 1)", ""), "each of your rows is a text"),
        (changed(USUAL, "offset, share", "share, offset"), "dtype float32, expected int64"),
        (changed(USUAL, "offset,", "offset.float(),"), "dtype float32, expected int64"),
        (changed(USUAL, "float", "double"), "expected float32"),
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
        (
            """
from collections import Counter

def usual_offset(A):
    steps = (A.argmax(-1) - torch.arange(A.shape[-1])).transpose(0, 1).flatten(1)
    best = [Counter(row).most_common(1)[0] for row in steps.tolist()]
    share = [times / steps.shape[1] for _, times in best]
    return torch.tensor([o for o, _ in best]), torch.tensor(share)
""",
            "you take the one that comes first",
        ),
        (
            """
from collections import Counter

def usual_offset(A):
    steps = (A.argmax(-1) - torch.arange(A.shape[-1])).transpose(0, 1).flatten(1)
    counts = [Counter(row) for row in steps.tolist()]
    best = [min(c, key=lambda o: (-c[o], abs(o), o)) for c in counts]
    share = [c[o] / steps.shape[1] for c, o in zip(counts, best)]
    return torch.tensor(best), torch.tensor(share)
""",
            "you take the nearer one",
        ),
        (
            changed(USUAL, "= steps.transpose", "= steps[..., 1:].transpose"),
            "you leave out the first destination",
        ),
        (
            """
def usual_offset(A):
    steps = A.argmax(-1) - torch.arange(A.shape[-1])
    offset = steps.mode(-1).values.mode(0).values
    return offset, (steps == offset[:, None]).float().mean((0, 2))
""",
            "you take the commonest offset of every text",
        ),
        (
            """
def usual_offset(A):
    steps = A.argmax(-1) - torch.arange(A.shape[-1])
    modes = steps.mode(-1).values
    return modes.mode(0).values, (steps == modes[..., None]).float().mean((0, 2))
""",
            "every text's own commonest offset",
        ),
    ],
    "gate_chances": [
        (
            changed(
                GATE,
                "(log_a - beta * math.log(-low / high))",
                "(log_a - math.log(-low / high))",
                ".sigmoid(log_a - beta * math.log((",
                ".sigmoid(log_a - math.log((",
            ),
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
        (changed(GATE, " - beta * math.log(-low / high)", ""), "with the probability σ(log a)"),
        (changed(GATE, " - beta * math.log((1 - low) / (high - 1))", ""), "that of σ(s) above ½"),
        (changed(GATE, "(1 - low) / (high - 1)", "-low / high"), "the border of 0"),
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
        (changed(GATE, "1 - o, o - i, i", "i, o - i, 1 - o"), "0 and 1 have changed places"),
        (changed(GATE, " - i", ""), "your second number is p(g > 0)"),
        (changed(GATE, ", -1", ""), "the three stand in front"),
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
        (changed(GATE, "torch.stack([1 - o, o - i, i], -1)", "o"), "the answer has the shape"),
        (changed(GATE, "(-low", "(low"), "raised valueerror"),
        (
            changed(GATE, "-low / high", "0.1 / 1.1", "(1 - low) / (high - 1)", "1.1 / 0.1"),
            "your low and high are always",
        ),
        (changed(GATE, "-1)", "-1).double()"), "expected float32"),
        (
            """
def gate_chances(log_a, beta, low, high):
    a = log_a.exp()
    o = a / (a + (-low / high) ** beta)
    i = a / (a + ((1 - low) / (high - 1)) ** beta)
    return torch.stack([1 - o, o - i, i], -1)
""",
            "exp of a large log a is infinite",
        ),
        (changed(GATE, "(1 - low) / (high - 1)", "high / -low"), "as often 1 at log a"),
        (
            """
def gate_chances(log_a, beta, low, high):
    o = torch.sigmoid(log_a - 0.33 * math.log(0.1 / 1.1))
    i = torch.sigmoid(log_a - 0.33 * math.log(1.1 / 0.1))
    return torch.stack([1 - o, o - i, i], -1)
""",
            "whatever is given",
        ),
        (changed(GATE, "high):\n", "high):\n    beta = 0.33\n"), "your β is always 0.33"),
        (changed(GATE, "high):\n", "high):\n    high = 1 - low\n"), "you take 1 − low for high"),
        (changed(GATE, "high):\n", "high):\n    log_a = -log_a\n"), "log a has the wrong sign"),
        (
            changed(
                GATE,
                "math.log(-low / high)",
                "(-low / (high - low))",
                "math.log((1 - low) / (high - 1))",
                "(1 - low) / (high - low)",
            ),
            "your border is the value of σ(s)",
        ),
        (changed(GATE, "i], -1)", "i], -1).float()"), "expected float64"),
    ],
    "z_rule": [
        (changed(Z_RULE, "torch.where(z < 0, z - eps, z + eps)", "z + eps"), "ε always has a plus"),
        (changed(Z_RULE, "- eps, z +", "+ eps, z -"), "ε has the wrong sign"),
        (changed(Z_RULE, "torch.where(z < 0, z - eps, z + eps)", "z"), "ε is missing"),
        (
            changed(Z_RULE, "torch.where(z < 0, z - eps, z + eps)", "z + eps * z.sign()"),
            "a z of 0 gets no ε",
        ),
        (changed(Z_RULE, " < ", " <= "), "a z of 0 counts as negative"),
        (changed(Z_RULE, " + b", ""), "b is missing in z"),
        (
            changed(
                Z_RULE,
                "return x * ((R / pushed) @ W.mT)",
                "parts = x[..., :, None] * W + b / x.shape[-1]\n"
                "    return (parts * (R / pushed)[..., None, :]).sum(-1)",
            ),
            "you share the bias among the inputs",
        ),
        (
            changed(
                Z_RULE,
                "return x * ((R / pushed) @ W.mT)",
                "out = x * ((R / pushed) @ W.mT)\n"
                "    return out * (R.sum(-1) / out.sum(-1))[..., None]",
            ),
            "you stretch the result",
        ),
        (changed(Z_RULE, "x * (", "", "mT)", "mT"), "x is missing"),
        (
            changed(Z_RULE, "((R / pushed) @ W.mT)", "(R / pushed).sum(-1, keepdim=True)"),
            "w is missing",
        ),
        (changed(Z_RULE, "(R / pushed)", "R"), "the gradient times the input"),
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
            changed(Z_RULE, "x * ((R / pushed) @ W.mT)", "R * (x @ W) / pushed"),
            "these are the shares of the outputs",
        ),
        (changed(Z_RULE, "torch.where(z < 0, z - eps, z + eps)", "z.clamp(min=eps)"), "differ"),
        (
            changed(
                Z_RULE, "x * ((R / pushed) @ W.mT)", 'torch.einsum("i,ij,j->i", x, W, R / pushed)'
            ),
            "raised runtimeerror",
        ),
        (changed(Z_RULE, "mT)", "mT).sum(0)"), "differ"),
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
        (changed(Z_RULE, "return x", "return (x", "mT)", "mT)).float()"), "expected float64"),
        (changed(Z_RULE, "R / pushed", "1 / pushed"), "r does not occur"),
        (
            changed(
                Z_RULE,
                "torch.where(z < 0, z - eps, z + eps)",
                "torch.where(z < 0, -1.0, 1.0) * z.abs().clamp(min=eps)",
            ),
            "you raise |z| to ε",
        ),
        (changed(Z_RULE, " + b", "", "z + eps)", "z + eps) + b"), "ε comes before b"),
        (HALVES, "this is the rule of the two halves: "),
        (
            changed(HALVES, "small = 1e-30", "small = eps"),
            "this is the rule of the two halves, with ε",
        ),
    ],
    "pruning_order": [
        (changed(ORDER, "abs().mean(0)", "mean(0).abs()"), "you take the mean first"),
        (changed(ORDER, ".abs()", ""), "the sign counts in your ranking"),
        (
            changed(ORDER, "(stable=True)", "(descending=True, stable=True)"),
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
            changed(ORDER, "flatten()", "shape.numel() - 1 - size.flatten().flip(0)"),
            "the later one goes first",
        ),
        (changed(ORDER, "return gates", "return 1 - gates"), "0 and 1 have changed places"),
        (changed(ORDER, "shape)", "shape)[1:]"), "the first row is missing"),
        (changed(ORDER, "shape)", "shape)[-1]"), "this is the last row alone"),
        (changed(ORDER, "1 :", "1"), "each row removes one head only"),
        (changed(ORDER, "mean", "amax"), "the largest relevance of a sentence"),
        (changed(ORDER, ".abs().mean(0)", "[0].abs()"), "you rank by one sentence"),
        (
            changed(ORDER, "(-1, *size.shape)", "(-1, *size.shape).flip(0)"),
            "your rows count backwards",
        ),
        (changed(ORDER, " + 1 ", ""), "your row 0 has lost a head already"),
        (changed(ORDER, ".reshape(-1, *size.shape)", ""), "the answer has the shape"),
        (
            changed(ORDER, "(-1, *size.shape)", "(-1, *size.shape).bool()"),
            "dtype bool, expected float32",
        ),
        (changed(ORDER, "abs", "square"), "you rank by squares"),
        (changed(ORDER, ".reshape", ".to(relevance.dtype).reshape"), "expected float32"),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    order = size.flatten().sort().values
    return torch.stack([(size >= order[k]).float() for k in range(steps + 1)])
""",
            "stay together in your rows",
        ),
        (changed(ORDER, "mean(0)", "median(0).values"), "the median of the sentences"),
        (changed(ORDER, "abs().mean(0)", "square().mean(0).sqrt()"), "you rank by squares"),
        (changed(ORDER, "(stable=True)", "()"), "differ"),
        (
            changed(
                ORDER,
                "size.flatten().argsort(stable=True)",
                "torch.cat([i * size.shape[1] + row.argsort() for i, row in enumerate(size)])",
            ),
            "you go layer by layer",
        ),
        (
            changed(
                ORDER,
                "size.flatten().argsort(stable=True)",
                "size.T.flatten().argsort(stable=True)"
                "\n    order = order % len(size) * size.shape[1] + order // len(size)",
            ),
            "yours go by their number",
        ),
        (
            """
def pruning_order(relevance, steps):
    size, k = relevance.abs().mean(0), 0
    gates = torch.ones(steps + 1, *size.shape)
    for place in size.flatten().argsort(stable=True).tolist():
        a, h = divmod(place, size.shape[1])
        if k < steps and gates[-1, a].sum() > 1:
            k += 1
            gates[k:, a, h] = 0
    return gates
""",
            "the last head of a layer stays",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    border = [-1.0, *sorted(size.flatten().tolist())]
    return torch.stack([(size > border[k]).float() for k in range(steps + 1)])
""",
            "go together in your rows",
        ),
        (
            """
def pruning_order(relevance, steps):
    size = relevance.abs().mean(0)
    border = [*sorted(size.flatten().tolist()), math.inf]
    return torch.stack([(size >= border[k]).float() for k in range(steps + 1)])
""",
            "stay together in your rows",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "relation_accuracy": [
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
    size = relevance.abs().mean(dim=0)
    rank = torch.empty(size.numel(), dtype=torch.int64)
    rank[torch.sort(size.flatten(), stable=True).indices] = torch.arange(size.numel())
    return (rank.reshape(size.shape) >= torch.arange(steps + 1)[:, None, None]).float()
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
