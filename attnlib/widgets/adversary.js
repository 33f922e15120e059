// Be the adversary: a reader moves attention from word to word. A needle shows what the model then
// says, which must stay within ε of what it said. The best maps were computed beforehand.

import {
  clamp,
  isTouched,
  listen,
  make,
  makeButton,
  makeChoice,
  makeRoot,
} from "./elements.js";
import { makeDial } from "./dial.js";

const TINY = 1e-9;
const KEYS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };

const dotted = (x, y) => x.reduce((sum, number, place) => sum + number * y[place], 0);
// A number without the 0 before its point: .43.
const pointed = (text) => text.replace(/^0\./, ".");
const short = (x, digits) => pointed(x.toFixed(digits));

// The Jensen–Shannon divergence of two maps, in nats.
function divergence(p, q) {
  const part = (x, y) => (x > 0 ? (x * Math.log((2 * x) / (x + y))) / 2 : 0);
  return p.reduce((sum, x, place) => sum + part(x, q[place]) + part(q[place], x), 0);
}

// A word is given a weight; the others keep their proportions, and share equally if all are 0.
function spread(map, word, weight) {
  const rest = 1 - map[word];
  return map.map((old, place) => {
    if (place === word) return weight;
    return (1 - weight) * (rest > TINY ? old / rest : 1 / (map.length - 1));
  });
}

// A row without its parts along orthonormal rows.
function perpendicular(row, others) {
  return others.reduce((left, other) => {
    const share = dotted(left, other);
    return left.map((x, place) => x - share * other[place]);
  }, row);
}

// A word is brought as near to a weight as the free directions allow, each step along the direction
// that moves the word most for the length of the step. A weight that comes to 0 stays there, and
// the map slides on without it. `free` has a row for each word.
function slide(map, free, word, weight) {
  const sign = weight < map[word] ? -1 : 1;
  const atZero = new Set();
  const closed = []; // orthonormal: the directions that would move a word which is at 0
  let now = map;
  while (true) {
    const along = perpendicular(free[word], closed);
    const speed = dotted(along, along); // of the word
    if (speed < TINY) return now;
    const direction = free.map((row) => (sign * dotted(row, along)) / speed);
    let step = Math.abs(weight - now[word]);
    let stopper = -1;
    direction.forEach((pace, place) => {
      if (place === word || atZero.has(place) || pace > -TINY) return;
      if (now[place] / -pace < step) [step, stopper] = [now[place] / -pace, place];
    });
    now = now.map((old, place) => (atZero.has(place) ? old : Math.max(0, old + step * direction[place])));
    if (stopper < 0) return now;
    atZero.add(stopper);
    const row = perpendicular(free[stopper], closed);
    const size = Math.sqrt(dotted(row, row));
    if (size > 1e-6) closed.push(row.map((x) => x / size));
  }
}

export class AdversaryFace {
  constructor(model, el, spec) {
    this.model = model;
    this.spec = spec;
    this.word = spec.lower === null ? "" : `“${spec.tokens[spec.lower]}”`;
    this.before = this.said(spec.own);
    this.map = this.start = spec.own; // `start`: where the drag began
    this.records = {}; // ε -> the best map of the reader's own
    this.hasTried = false;
    this.isShown = false;

    this.surface = makeRoot(model, el, "Be the adversary", () => {});
    this.surface.root.classList.add("adversary", ...(spec.isAnswer ? ["voted"] : []));
    this.dial = makeDial();
    this.read = make("p", { class: "attn-said", "aria-live": "polite" });
    this.note = make("p", { class: "attn-note" });
    const look = { class: "attn-rest" };
    this.show = makeButton("Show the best map", () => this.compare(), look);
    this.again = makeButton("Back to the model's map", () => this.put(spec.own), look);
    const buttons = make("p", { class: "buttons" }, this.show, this.again);
    const words = make("div", {}, this.read, this.note, buttons);
    const meter = make("div", { class: "attn-meter" }, this.dial.picture, words);

    const budgets = Object.keys(spec.best).sort((a, b) => b - a);
    const labels = (names, write) => Object.fromEntries(names.map((name) => [name, write(name)]));
    this.choices = [
      [budgets, makeChoice(model, "budget", "ε", labels(budgets, pointed))],
      [spec.moves, makeChoice(model, "move", "weight moves", labels(spec.moves, String))],
    ].filter(([names]) => names.length > 1);
    const bar = make("div", { class: "attn-bar attn-wrap" });
    bar.append(...this.choices.map(([, choice]) => choice.element));
    bar.hidden = !this.choices.length;
    this.legend = make("p", { class: "legend" });
    this.rows = spec.tokens.map((token, word) => this.makeRow(token, word));
    const list = make("div", { class: "words" }, ...this.rows.map((row) => row.element));
    this.surface.root.append(bar, meter, this.legend, list);

    this.unlisten = listen(model, {
      budget: () => this.update(),
      move: () => this.update(),
      font: this.surface.style,
    });
    this.surface.style();
    this.update();
  }

  stop() {
    this.unlisten();
    this.surface.stop();
  }

  // A word, its vote, and its weight as a bar that is a slider.
  makeRow(token, word) {
    const { own, top, values, isAnswer, bias } = this.spec;
    const attributes = { type: "range", min: 0, max: top, step: 0.001 };
    const input = make("input", attributes);
    input.addEventListener("input", () => this.move(word, Number(input.value)));
    input.addEventListener("change", () => this.settle());
    input.addEventListener("keydown", (event) => {
      if (!KEYS[event.key]) return;
      event.preventDefault();
      const step = KEYS[event.key] * (event.shiftKey ? 0.001 : 0.01);
      this.move(word, clamp(this.map[word] + step, 0, top));
      this.settle();
    });
    const mark = make("i", { class: "own" });
    const best = make("i", { class: "best" });
    mark.style.setProperty("--at", own[word] / top);
    const bar = make("span", { class: "bar" }, input, mark, best);
    const logit = values[word][0] + bias;
    const vote = make("small", {}, `${logit < 0 ? "−" : "+"}${Math.abs(logit).toFixed(1)}`);
    const weight = make("output");
    const name = make("span", { class: "word", "aria-hidden": "true" }, token);
    const parts = isAnswer ? [name, vote, bar, weight] : [name, bar, weight];
    return { element: make("div", { class: "attn-row" }, ...parts), input, best, weight };
  }

  // What the model says with these weights: its answer, or its output.
  said(map) {
    const { values, isAnswer, bias } = this.spec;
    const sums = values[0].map((_, place) => dotted(map, values.map((row) => row[place])));
    return isAnswer ? [1 / (1 + Math.exp(-sums[0] - bias))] : sums;
  }

  // How far what is said has moved; an answer with its sign.
  moved(map) {
    const moves = this.said(map).map((x, place) => x - this.before[place]);
    return this.spec.isAnswer ? moves[0] : Math.max(...moves.map(Math.abs));
  }

  isWithin(map) {
    return Math.abs(this.moved(map)) <= Number(this.model.get("budget")) + 1e-6;
  }

  // The larger, the better.
  score(map) {
    const { lower, own } = this.spec;
    return lower === null ? divergence(own, map) : -map[lower];
  }

  get record() {
    return this.records[this.model.get("budget")] ?? this.spec.own;
  }

  move(word, weight) {
    const isFree = this.spec.free && this.model.get("move") === this.spec.moves[0];
    this.map = isFree
      ? slide(this.start, this.spec.free, word, weight)
      : spread(this.start, word, weight);
    if (this.isWithin(this.map) && this.score(this.map) > this.score(this.record))
      this.records[this.model.get("budget")] = this.map;
    this.hasTried = true;
    this.update();
  }

  settle() {
    this.start = this.map;
  }

  put(map) {
    this.map = this.start = map;
    this.update();
  }

  // The reader's best map and the best there is, side by side.
  compare() {
    this.isShown = true;
    this.put(this.record);
    this.rows[0].input.focus({ preventScroll: true });
  }

  update() {
    const { isAnswer, own, lower, tokens, top } = this.spec;
    const budget = this.model.get("budget");
    const epsilon = Number(budget);
    const digits = epsilon < 0.01 ? 4 : epsilon < 0.05 ? 3 : 2;
    const best = this.spec.best[budget];
    for (const [, choice] of this.choices) choice.update();

    const moved = this.moved(this.map);
    this.dial.turn(isAnswer ? (moved / epsilon + 1) / 2 : moved / epsilon);
    const [low, high] = isAnswer ? [this.before[0] - epsilon, this.before[0] + epsilon] : [0, epsilon];
    this.dial.label(short(Math.max(0, low), digits), short(Math.min(1, high), digits));

    const isWithin = this.isWithin(this.map);
    const allowed = pointed(budget);
    const where = isWithin ? `within ${allowed}` : `not within ${allowed}`;
    const answer = isAnswer
      ? `ŷ ${short(this.before[0] + moved, digits)}, ${where} of the model's ${short(this.before[0], digits)}`
      : `The output moved by ${short(moved, digits)}, ${where}`;
    this.read.textContent = `${answer}; ${this.inWords(this.map)}.`;
    this.surface.root.classList.toggle("outside", !isWithin);
    const tried = `Your best so far within ${allowed}: ${this.inWords(this.record)}.`;
    const both = `Within ${allowed}, your best is ${this.inWords(this.record)}; the best there is, ${this.inWords(best)}.`;
    this.note.textContent = this.isShown ? both : this.hasTried ? tried : this.asked();
    this.show.hidden = this.isShown;
    this.show.classList.toggle("attn-ready", this.hasTried);
    this.again.hidden = !this.hasTried;
    this.legend.replaceChildren(
      ...(isAnswer ? ["Beside each word stands its vote. "] : []),
      make("i", { class: "own" }), " the model's own weight ",
      ...(this.isShown ? [make("i", { class: "best" }), " the best map"] : []),
    );
    this.surface.root.classList.toggle("compared", this.isShown);
    this.rows.forEach((row, word) => {
      const share = this.map[word];
      row.input.value = share;
      row.input.style.setProperty("--share", Math.min(1, share / top));
      row.weight.textContent = short(share, 2);
      row.best.style.setProperty("--at", Math.min(1, best[word] / top));
      const known = this.isShown ? `, in the best map ${short(best[word], 2)}` : "";
      const place = `word ${word + 1} of ${tokens.length}`;
      const label = `${tokens[word]}, ${place}, the model's own ${short(own[word], 2)}${known}`;
      row.input.setAttribute("aria-label", label);
      row.input.setAttribute("aria-valuetext", short(share, 3));
      row.element.classList.toggle("goal", word === lower);
    });
  }

  asked() {
    const keys = isTouched() ? "" : ", or use the arrow keys (with Shift in smaller steps)";
    const how = `Drag the bars${keys}.`;
    if (this.word) return `How low can ${this.word} go while the needle stays in the band? ${how}`;
    return `How far from its own map can you get while the needle stays in the band? ${how}`;
  }

  inWords(map) {
    const { lower, own } = this.spec;
    if (lower !== null) return `${this.word} ${short(map[lower], 3)}`;
    return `distance ${short(divergence(own, map), 2)}`;
  }
}
