"""What students answer in the exercises of chapter 06: wrong, with the message due, and right."""

JOIN = """
def join(tokens, pair):
    out, i = [], 0
    while i < len(tokens):
        two = tuple(tokens[i : i + 2]) == tuple(pair)
        out.append("".join(pair) if two else tokens[i])
        i += 2 if two else 1
    return out
"""

COUNT = """
from collections import Counter
from itertools import pairwise

def count(words):
    counts = Counter()
    for tokens, times in words:
        for pair in pairwise(tokens):
            counts[pair] += times
    return counts
"""

BYTES = """
def vocabulary(merges):
    tokens = [bytes([i]) for i in range(256)]
    for left, right in merges:
        tokens.append(tokens[left] + tokens[right])
    return tokens
"""

WRONG: dict[str, list[tuple[str, str]]] = {
    "encode_word": [
        (
            """
def encode_word(word, merges):
    ms = set(map(tuple, merges)); out, i = [], 0
    while i < len(word):
        if (word[i:i+1], word[i+1:i+2]) in ms: out.append(word[i:i+2]); i += 2
        else: out.append(word[i]); i += 1
    return out
""",
            "you walk over the letters once",
        ),
        (
            """
def encode_word(word, merges):
    known = {left + right for left, right in merges}
    tokens = []
    while word:
        end = len(word)
        while end > 1 and word[:end] not in known:
            end -= 1
        tokens.append(word[:end])
        word = word[end:]
    return tokens
""",
            "you take the longest token that fits",
        ),
        (
            """
def encode_word(word, merges):
    tokens, i = list(word), 0
    while i + 1 < len(tokens):
        if (tokens[i], tokens[i + 1]) in merges:
            tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]
            i = 0
        else:
            i += 1
    return tokens
""",
            "you join the first pair from the left",
        ),
        (
            """
def encode_word(word, merges):
    tokens = list(word)
    for left, right in merges:
        for i in range(len(tokens) - 1):
            if tokens[i] == left and tokens[i + 1] == right:
                tokens[i : i + 2] = [left + right]
                break
    return tokens
""",
            "you join only the first position",
        ),
        (
            JOIN
            + """
def encode_word(word, merges):
    tokens = list(word)
    for pair in reversed(merges):
        tokens = join(tokens, pair)
    return tokens
""",
            "you apply the newest merge first",
        ),
        (
            """
def encode_word(word, merges):
    tokens = list(word)
    for left, right in merges:
        i = len(tokens) - 2
        while i >= 0:
            if tokens[i] == left and i + 1 < len(tokens) and tokens[i + 1] == right:
                tokens[i : i + 2] = [left + right]
            i -= 1
    return tokens
""",
            "you join from the right",
        ),
        (
            JOIN
            + """
def encode_word(word, merges):
    age = {left + right: i for i, (left, right) in reversed(list(enumerate(merges)))}
    tokens = list(word)
    while True:
        pairs = [p for p in zip(tokens, tokens[1:]) if "".join(p) in age]
        if not pairs:
            return tokens
        tokens = join(tokens, min(pairs, key=lambda p: age["".join(p)]))
""",
            "you join neighbours whenever their text is a token",
        ),
        (
            JOIN
            + """
def encode_word(word, merges):
    tokens = list(word)
    for pair in merges:
        joined = join(tokens, pair)
        if joined != tokens:
            return joined
    return tokens
""",
            "you stop after one merge",
        ),
        (
            """
def encode_word(word, merges):
    tokens = list(word)
    while merges:
        left, right = merges.pop(0)
        i = 0
        while i + 1 < len(tokens):
            if tokens[i] == left and tokens[i + 1] == right:
                tokens[i : i + 2] = [left + right]
            i += 1
    return tokens
""",
            "changes its argument merges in place",
        ),
        (
            JOIN
            + """
def encode_word(word, merges):
    tokens = list(word)
    for pair in merges:
        tokens = join(tokens, pair)
    return tuple(tokens)
""",
            "expected a list of",
        ),
        (
            """
def encode_word(word, merges):
    return list(word)
""",
            "items, expected",
        ),
        (
            """
import re

def encode_word(word, merges):
    text = "\\x00".join(word)
    for left, right in merges:
        pair = left + "\\x00" + right
        text = re.sub(f"(?<![^\\x00]){pair}(?![^\\x00])", lambda found: left + right, text)
    return text.split("\\x00") if word else []
""",
            "raised",
        ),
        (
            JOIN
            + """
def encode_word(word, merges):
    tokens = list(word.lower())
    for left, right in merges:
        tokens = join(tokens, (left.lower(), right.lower()))
    return tokens
""",
            "expected",
        ),
        (
            JOIN
            + """
KNOWN = {}

def encode_word(word, merges):
    if word not in KNOWN:
        tokens = list(word)
        for pair in merges:
            tokens = join(tokens, pair)
        KNOWN[word] = tokens
    return KNOWN[word]
""",
            "items, expected",
        ),
        (
            """
def encode_word(word, merges):
    tokens = list(word)
    for pair in merges:
        i = 0
        while i + 1 < len(tokens):
            if tokens[i : i + 2] == pair:
                tokens[i : i + 2] = ["".join(pair)]
            i += 1
    return tokens
""",
            "items, expected",
        ),
        (
            JOIN
            + """
def encode_word(word, merges):
    tokens = list(word)
    for left, right in merges:
        tokens = join(tokens, left + right)
    return tokens
""",
            "expected",
        ),
        (
            JOIN
            + """
def encode_word(word, merges):
    tokens = list(word)
    for pair in merges:
        tokens = join(tokens, pair)
    return " ".join(tokens)
""",
            "expected a list",
        ),
    ],
    "cut_differently": [
        (
            """
def cut_differently(merges):
    for i, (a, b) in enumerate(merges):
        for c, d in merges[i+1:]:
            if d == a: return c + a + b
    return "".join(merges[0])
""",
            "is cut alike in both ways",
        ),
        (
            """
def cut_differently(merges):
    return "abc"
""",
            "the same answer whatever it is given",
        ),
        (
            """
def cut_differently(merges):
    left, right = merges[0]
    return left + right
""",
            "is cut alike in both ways",
        ),
        (
            """
def cut_differently(merges):
    return max((left + right for left, right in merges), key=len)
""",
            "is cut alike in both ways",
        ),
        (
            """
def cut_differently(merges):
    return list("".join(merges[-1]))
""",
            "return one word, a string, not list",
        ),
        (
            """
def cut_differently(merges):
    for left, right in merges:
        for other, last in merges:
            if right == other and (left, right) != (other, last):
                return left + right + last
""",
            "is cut alike in both ways",
        ),
        (
            """
def cut_differently(merges):
    letters = sorted({letter for pair in merges for token in pair for letter in token})
    for a in letters:
        for b in letters:
            if (a, b) in merges and (b, a) not in merges:
                return a + b + a
    return letters[0]
""",
            "is cut alike in both ways",
        ),
        (
            """
def cut_differently(merges):
    left, right = merges[-1]
    return left + right + "z"
""",
            "is not made of the letters",
        ),
        (
            JOIN
            + """
from itertools import product

def cut_differently(merges):
    letters, known = sorted({c for a, b in merges for c in a + b}), {a + b for a, b in merges}
    for n in range(2, 6):
        for signs in product(letters, repeat=n):
            word, tokens, cut, rest = "".join(signs), list(signs), [], "".join(signs)
            for pair in merges:
                tokens = join(tokens, pair)
            while rest:
                end = next(e for e in range(len(rest), 0, -1) if e == 1 or rest[:e] in known)
                cut, rest = [*cut, rest[:end]], rest[end:]
            if cut != tokens:
                return word
""",
            "not nonetype",
        ),
    ],
    "best_pair": [
        (
            """
from collections import Counter
from itertools import pairwise
def best_pair(words, age):
    c = Counter()
    for toks, n in words:
        for p in pairwise(toks): c[p] += n
    return sorted(c, key=lambda p: (c[p], -age[p[0]], age[p[1]]), reverse=True)[0]
""",
            "you take the *youngest* right one",
        ),
        (
            """
from collections import Counter
from itertools import pairwise
def best_pair(words, age):
    c = Counter()
    for toks, n in words:
        for p in pairwise(toks): c[p] += n
    return max(c, key=lambda p: (c[p], -age[p[0]], age[p[1]]))
""",
            "you take the *youngest* right one",
        ),
        (
            """
from collections import Counter
from itertools import pairwise
def best_pair(words, age):
    c = Counter()
    for toks, n in words:
        for p in pairwise(toks): c[p] += n
    return min(c, key=lambda p: (-c[p], -age[p[0]], age[p[1]]))
""",
            "you take the *youngest* left token",
        ),
        (
            """
from collections import Counter
from itertools import pairwise
def best_pair(words, age):
    c = Counter()
    for toks, n in words:
        for p in pairwise(toks): c[p] += n
    return min(c, key=lambda p: (-c[p], max(age[p[0]], age[p[1]])))
""",
            "you go by the younger token of a pair",
        ),
        (
            """
from collections import Counter
from itertools import pairwise

def best_pair(words, age):
    counts = Counter(pair for tokens, _ in words for pair in pairwise(tokens))
    return min(counts, key=lambda p: (-counts[p], age[p[0]], age[p[1]]))
""",
            "you count each word once",
        ),
        (
            """
from collections import Counter
from itertools import pairwise

def best_pair(words, age):
    counts = Counter()
    for tokens, times in words:
        for pair in set(pairwise(tokens)):
            counts[pair] += times
    return min(counts, key=lambda p: (-counts[p], age[p[0]], age[p[1]]))
""",
            "you count a pair once per word",
        ),
        (
            """
def best_pair(words, age):
    counts = {}
    for tokens, times in words:
        for pair in set(zip(tokens, tokens[1:])):
            i = 0
            while i + 1 < len(tokens):
                hit = (tokens[i], tokens[i + 1]) == pair
                counts[pair] = counts.get(pair, 0) + times * hit
                i += 2 if hit else 1
    return min(counts, key=lambda p: (-counts[p], age[p[0]], age[p[1]]))
""",
            "you count a, a, a as one pair",
        ),
        (
            COUNT
            + """
def best_pair(words, age):
    counts = count(words)
    for (one, _), (other, _) in pairwise(words):
        counts[one[-1], other[0]] += 1
    return min(counts, key=lambda p: (-counts[p], age[p[0]], age[p[1]]))
""",
            "across the border of two words",
        ),
        (
            COUNT
            + """
def best_pair(words, age):
    return count(words).most_common(1)[0][0]
""",
            "the pair that was seen first",
        ),
        (
            COUNT
            + """
def best_pair(words, age):
    counts = count(words)
    return min(counts, key=lambda p: (-counts[p], p))
""",
            "you go by the alphabet",
        ),
        (
            COUNT
            + """
def best_pair(words, age):
    counts = count(words)
    return max(counts, key=lambda p: (counts[p], age[p[0]], age[p[1]]))
""",
            "you take the youngest tokens",
        ),
        (
            COUNT
            + """
def best_pair(words, age):
    counts = count(words)
    return min(counts, key=lambda p: (-counts[p], age[p[1]], age[p[0]]))
""",
            "you look at the right token first",
        ),
        (
            COUNT
            + """
def best_pair(words, age):
    counts = count(words)
    return min(counts, key=lambda p: (-counts[p], min(age[p[0]], age[p[1]])))
""",
            "you go by the older token of a pair",
        ),
        (
            COUNT
            + """
def best_pair(words, age):
    counts = count(words)
    return min(counts, key=lambda p: (age[p[0]], age[p[1]], -counts[p]))
""",
            "you let age come before frequency",
        ),
        (
            COUNT
            + """
def best_pair(words, age):
    counts = count(words)
    return min(counts, key=lambda p: (counts[p], age[p[0]], age[p[1]]))
""",
            "this is the rarest pair",
        ),
        (
            COUNT
            + """
def best_pair(words, age):
    counts = count(words)
    best = min(counts, key=lambda p: (-counts[p], age[p[0]], age[p[1]]))
    return "".join(best)
""",
            "expected a tuple of 2",
        ),
        (
            COUNT
            + """
def best_pair(words, age):
    counts = count(words)
    best = min(counts, key=lambda p: (-counts[p], age[p[0]], age[p[1]]))
    return best, counts[best]
""",
            "answer[0] is a tuple of 2, expected a str",
        ),
        (
            COUNT
            + """
def best_pair(words, age):
    counts = count(words)
    return min(counts, key=lambda p: (-counts[p], age[p[0]]))
""",
            "you look at the left token only",
        ),
        (
            COUNT
            + """
def best_pair(words, age):
    counts = count(words)
    place = {token: i for i, token in enumerate(age)}
    return min(counts, key=lambda p: (-counts[p], place[p[0]], place[p[1]]))
""",
            "expected",
        ),
    ],
    "decode": [
        (
            """
def decode(ids, merges):
    v = [bytes([i]) for i in range(256)]
    for a, b in merges: v.append(v[a] + v[b])
    return b"".join(v[i] for i in ids).decode("ascii", errors="replace")
""",
            "you decode as ascii",
        ),
        (
            """
def decode(ids, merges):
    out = []
    for i in ids:
        if i < 256: out.append(i)
        else:
            for j in merges[i-256]:
                out += [j] if j < 256 else list(merges[j-256])
    return bytes(out).decode("utf-8", errors="replace")
""",
            "raised valueerror",
        ),
        (
            BYTES
            + """
def decode(ids, merges):
    tokens = vocabulary(merges)
    return b"".join(tokens[i] for i in ids).decode("utf-8", errors="replace").strip()
""",
            "you strip the text",
        ),
        (
            BYTES
            + """
def decode(ids, merges):
    tokens = vocabulary(merges)
    return "".join(tokens[i].decode("utf-8", errors="replace") for i in ids)
""",
            "you decode token by token",
        ),
        (
            BYTES
            + """
def decode(ids, merges):
    tokens = vocabulary(merges)
    return b"".join(tokens[i] for i in ids).decode("latin-1")
""",
            "a character of its own",
        ),
        (
            """
def decode(ids, merges):
    text = [chr(i) for i in range(256)]
    for left, right in merges:
        text.append(text[left] + text[right])
    return "".join(text[i] for i in ids)
""",
            "a character of its own",
        ),
        (
            BYTES
            + """
def decode(ids, merges):
    tokens = vocabulary(merges)
    return b"".join(tokens[i] for i in ids).decode("utf-8", errors="ignore")
""",
            "you drop the bytes that are no utf-8",
        ),
        (
            BYTES
            + """
def decode(ids, merges):
    tokens = vocabulary([(right, left) for left, right in merges])
    return b"".join(tokens[i] for i in ids).decode("utf-8", errors="replace")
""",
            "the right part of a merge before the left",
        ),
        (
            BYTES
            + """
def decode(ids, merges):
    tokens = vocabulary(merges)
    return b"".join(tokens[i] for i in ids).decode("utf-8")
""",
            "raised unicodedecodeerror",
        ),
        (
            BYTES
            + """
def decode(ids, merges):
    tokens = vocabulary(merges)
    return b"".join(tokens[i] for i in ids)
""",
            "it returned a bytes",
        ),
        (
            """
def decode(ids, merges):
    out = b""
    for i in ids:
        out += bytes([i]) if i < 256 else bytes(merges[i - 256])
    return out.decode("utf-8", errors="replace")
""",
            "raised valueerror",
        ),
        (
            BYTES
            + """
def decode(ids, merges):
    tokens, out = vocabulary(merges), b""
    while ids:
        out += tokens[ids.pop(0)]
    return out.decode("utf-8", errors="replace")
""",
            "changes its argument ids in place",
        ),
        (
            BYTES
            + """
def decode(ids, merges):
    tokens = vocabulary(merges)
    return b"".join(tokens[i] for i in ids).decode("utf-8-sig", errors="replace")
""",
            "the answer is",
        ),
        (
            BYTES
            + """
def decode(numbers, merges):
    tokens = vocabulary(merges)
    return b"".join(tokens[i] for i in numbers).decode("utf-8", errors="replace")
""",
            "ids",
        ),
    ],
    "bits_per_byte": [
        (
            """
import math
def bits_per_byte(perplexity, tokens, text):
    return math.log2(perplexity ** tokens) / len(text.encode())
""",
            "overflowerror",
        ),
        (
            """
import math

def bits_per_byte(perplexity, tokens, text):
    return math.log2(perplexity) * tokens / len(text)
""",
            "you count characters",
        ),
        (
            """
import math

def bits_per_byte(perplexity, tokens, text):
    return math.log(perplexity) * tokens / len(text.encode())
""",
            "this is in nats per byte",
        ),
        (
            """
import math

def bits_per_byte(perplexity, tokens, text):
    return math.log(perplexity) * math.log(2) * tokens / len(text.encode())
""",
            "you multiply by ln 2",
        ),
        (
            """
import math

def bits_per_byte(perplexity, tokens, text):
    return math.log2(perplexity)
""",
            "these are bits per token",
        ),
        (
            """
import math

def bits_per_byte(perplexity, tokens, text):
    return math.log2(perplexity) * len(text.encode()) / tokens
""",
            "tokens and bytes are exchanged",
        ),
        (
            """
import math

def bits_per_byte(perplexity, tokens, text):
    return perplexity / math.log(2) * tokens / len(text.encode())
""",
            "the logarithm is missing",
        ),
        (
            """
def bits_per_byte(perplexity, tokens, text):
    return perplexity ** (tokens / len(text.encode()))
""",
            "this is the perplexity per byte",
        ),
        (
            """
import math

def bits_per_byte(perplexity, tokens, text):
    return math.log10(perplexity) * tokens / len(text.encode("utf-8"))
""",
            "the logarithm of base 10",
        ),
        (
            """
import math

def bits_per_byte(perplexity, tokens, text):
    return math.log2(perplexity) * tokens
""",
            "the bits of the whole text",
        ),
        (
            """
def bits_per_byte(perplexity, tokens, text):
    return torch.tensor(perplexity).log2() * tokens / len(text.encode())
""",
            ".item() makes a number",
        ),
        (
            """
def bits_per_byte(perplexity, tokens, text):
    return 1.0
""",
            "the same answer whatever it is given",
        ),
        (
            """
import math

def bits_per_byte(perplexity, tokens, text):
    return math.log2(perplexity) * tokens / len(text.strip().encode())
""",
            "you leave the spaces",
        ),
        (
            """
import math

def bits_per_byte(perplexity, tokens, text):
    n = sum(1 if ord(sign) < 128 else 2 if ord(sign) < 2048 else 3 for sign in text)
    return math.log2(perplexity) * tokens / n
""",
            "the answer is",
        ),
        (
            """
import math, unicodedata

def bits_per_byte(perplexity, tokens, text):
    n = len(unicodedata.normalize("NFC", text).encode())
    return math.log2(perplexity) * tokens / n
""",
            "the answer is",
        ),
    ],
}

RIGHT: dict[str, list[str]] = {
    "encode_word": [
        """
class Tokenizer:
    def __init__(self, merges):
        self.rank = {}
        for i, (left, right) in enumerate(merges):
            self.rank.setdefault((left, right), i)

    def oldest(self, tokens):
        known = [p for p in zip(tokens[:-1], tokens[1:]) if p in self.rank]
        return min(known, key=self.rank.get, default=None)

    def encode(self, tokens):
        pair = self.oldest(tokens)
        if pair is None:
            return list(tokens)
        out = []
        for token in tokens:
            if out and (out[-1], token) == pair:
                out[-1:] = ["".join(pair), ""]  # an empty mark: used up
            else:
                out.append(token)
        return self.encode([token for token in out if token])

def encode_word(word, merges):
    return Tokenizer(merges).encode(list(word))
""",
        """
import re

def encode_word(word, merges):
    text = "\\x00".join(word)  # a sign between two tokens
    for left, right in merges:
        pair = re.escape(left + "\\x00" + right)
        text = re.sub(f"(?<![^\\x00]){pair}(?![^\\x00])", lambda found: left + right, text)
    return text.split("\\x00") if word else []
""",
    ],
    "cut_differently": [
        JOIN
        + """
import random

def cut_differently(merges):
    rng, letters = random.Random(0), sorted({c for a, b in merges for c in a + b})
    known = [a + b for a, b in merges]
    while True:
        word = "".join(rng.choice(letters) for _ in range(rng.randint(3, 6)))
        tokens, cut, rest = list(word), [], word
        for pair in merges:
            tokens = join(tokens, pair)
        while rest:
            fits = [token for token in known if rest.startswith(token)]
            cut.append(max(fits, key=len) if fits else rest[0])
            rest = rest[len(cut[-1]) :]
        if cut != tokens:
            return word
""",
        JOIN
        + """
from collections import deque

def replay(word, merges):
    tokens = list(word)
    for pair in merges:
        tokens = join(tokens, pair)
    return tokens

def greedy(word, known):
    cut = []
    while word:
        cut.append(next(word[:n] for n in range(len(word), 0, -1) if n == 1 or word[:n] in known))
        word = word.removeprefix(cut[-1])
    return cut

def cut_differently(merges):
    letters, known = set("".join(map("".join, merges))), set(map("".join, merges))
    queue = deque(letters)
    while queue:
        word = queue.popleft()
        if replay(word, merges) != greedy(word, known):
            return word
        queue.extend(word + letter for letter in letters)
""",
    ],
    "best_pair": [
        """
from collections import defaultdict

class Trainer:
    def __init__(self):
        self.grad = defaultdict(int)

    def add(self, tokens, times):
        for i in range(1, len(tokens)):
            self.grad[tokens[i - 1], tokens[i]] += times

def best_pair(words, age):
    trainer = Trainer()
    for tokens, times in words:
        trainer.add(tokens, times)
    by_right = sorted(trainer.grad, key=lambda pair: age[pair[1]])
    by_left = sorted(by_right, key=lambda pair: age[pair[0]])
    return sorted(by_left, key=lambda pair: trainer.grad[pair], reverse=True)[0]
""",
        """
import numpy as np

def best_pair(words, age):
    oldest = sorted(age, key=age.get)
    table = np.zeros((len(oldest), len(oldest)), dtype=np.int64)
    for tokens, times in words:
        places = np.array([oldest.index(token) for token in tokens], dtype=np.int64)
        np.add.at(table, (places[:-1], places[1:]), times)
    left, right = np.unravel_index(table.argmax(), table.shape)
    return oldest[left], oldest[right]
""",
    ],
    "decode": [
        """
def decode(ids, merges):
    todo, out = list(ids)[::-1], bytearray()
    while todo:
        i = todo.pop()
        if i < 256:
            out.append(i)
        else:
            left, right = merges[i - 256]
            todo += [right, left]
    return out.decode("utf-8", "replace")
""",
        """
import numpy as np

def decode(ids, merges):
    pieces = {i: np.array([i], dtype=np.uint8) for i in range(256)}
    for k, pair in enumerate(merges):
        pieces[256 + k] = np.concatenate([pieces[part] for part in pair])
    empty = np.zeros(0, dtype=np.uint8)
    return np.concatenate([empty, *(pieces[i] for i in ids)]).tobytes().decode(errors="replace")
""",
    ],
    "bits_per_byte": [
        """
import numpy as np

def bits_per_byte(perplexity, tokens, text):
    total = 0.0
    for _ in range(tokens):
        total += np.log2(perplexity)
    return float(total / len(bytes(text, "utf-8")))
""",
        """
import math

class Model:
    def __init__(self, perplexity):
        self.cross_entropy = math.log(perplexity)

    def bits(self, tokens):
        return tokens * self.cross_entropy / math.log(2)

def utf8_bytes(sign):
    code = ord(sign)
    return 1 + (code > 0x7F) + (code > 0x7FF) + (code > 0xFFFF)

def bits_per_byte(perplexity, tokens, text):
    return Model(perplexity).bits(tokens) / sum(map(utf8_bytes, text))
""",
    ],
}

LINE = "letters = sorted({letter for pair in merges for token in merges for letter in token})"
LONG = "words of whole tokens are words of letters, too"
EQUIVALENT: dict[str, dict[str, str]] = {
    "encode_word": {
        "age = {pair: i for i, pair in enumerate(merges)}": "the pairs are tuples",
        "pairs = [pair for pair in zip(tokens, tokens[1:]) if pair in merges]": "slow, but right",
    },
    "cut_differently": {
        "letters = {letter for pair in merges for token in pair for letter in token}": "any order",
        "for length in range(7):": "no word of two letters is cut in two ways",
        "for length in range(3, 7):": "no word of two letters is cut in two ways",
        "for length in range(1, 7):": "no word of two letters is cut in two ways",
        "for length in range(2, 8):": "six letters are enough",
        "tokens = list(signs)": "the same letters",
        "if replayed(signs) != longest_first(word, merges):": "the same letters",
        "if tuple(tokens[i:i + 2]) == pair:": "the same letters",
        "i = -1": "a short slice is no pair",
        "while i < len(tokens):": "a short slice is no pair",
        "while i + 1 <= len(tokens):": "a short slice is no pair",
        "while i - 1 < len(tokens):": "a short slice is no pair",
        "while i + 0 < len(tokens):": "a short slice is no pair",
        "while i + 1 < len(word):": "a short slice is no pair",
        "while i + 1 < len(signs):": "a short slice is no pair",
        "letters = sorted({token for pair in merges for token in pair for letter in token})": LONG,
        LINE: LONG,
        "letters = sorted({letter for pair in merges for token in pair for letter in pair})": LONG,
    },
    "best_pair": {
        "counts[pair] = counts.get(pair, 1) + times": "every count is off by one",
        "counts[pair] = counts.get(pair, -1) + times": "every count is off by one",
    },
    "decode": {
        "return b''.join((vocabulary[i] for i in ids)).decode(errors='replace')": "the default"
    },
}
