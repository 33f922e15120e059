// Which head decided? A visitor accuses heads of a model, guesses what the removal of each does to
// the next word, and sees them among all others. Removals were measured, or a kernel measures them.

import { drawn, isTouched, listen, make, makeButton, makeRoot, put } from "./elements.js";
import { makeBoxButtons, nameBoxes } from "./boxes.js";
import { makeTextBox } from "./typed.js";

const LEAST = 0.005; // a smaller change of the probability counts as none
const ACCUSATIONS = 3;
const GUESSES = ["less likely", "no different", "more likely"];

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const points = (change) => (change > 0 ? "+" : "") + (100 * change).toFixed(0).replace("-", "−");
const headCalled = ([layer, head]) => `layer ${layer} · head ${head}`;

function verdict(change) {
  if (Math.abs(change) < LEAST) return "no different";
  return change < 0 ? "less likely" : "more likely";
}

export class SuspectsFace {
  constructor(model, el, spec) {
    this.model = model;
    this.spec = spec;
    this.accused = [];
    this.waiting = null; // a head and a guess, until the kernel has answered
    this.ways = Object.keys(spec.removed);
    this.way = this.ways[0];
    this.word = spec.words[0].trim();
    this.answer = spec.tokens.indexOf(spec.words[0]);
    const layers = spec.weights.length;
    const heads = spec.weights[0].length;

    this.surface = makeRoot(model, el, `Which head decided on ${this.word}?`, () => {});
    this.surface.root.classList.add("suspects");
    const sentence = make("p", { class: "sentence" });
    let word = null; // a line breaks only before a token that begins with a blank
    this.bars = spec.tokens.map((token) => {
      const text = token.trimStart();
      if (!word || text !== token) {
        word = make("span", { class: "whole" });
        sentence.append(" ", word);
      }
      const bar = make("i");
      word.append(make("span", { class: "token" }, text, bar));
      return bar;
    });
    word.append(make("b", {}, " …"));
    this.reads = make("p", { class: "reads" });
    this.reads.textContent = isTouched()
      ? "Tap a head: the bars show where it looks from the last word, and it stands accused."
      : "Point at a head: the bars show where it looks from the last word. Click it to accuse it.";
    const label = (at) =>
      `${headCalled(at)}: ${(100 * this.weight(at)).toFixed(0)} percent on ${this.word}`;
    this.grid = makeBoxButtons(`${layers} layers of ${heads} heads`, layers, heads, label, {
      looked: (at) => this.look(at),
      picked: (at) => this.accuse(at),
    });
    this.every = this.grid.boxes.map((_, number) => this.grid.placeOf(number));
    for (const at of this.every) {
      const share = `${(100 * Math.sqrt(this.weight(at))).toFixed(0)}%`;
      this.grid.at(at).style.setProperty("--share", share);
    }
    const axes = make("p", { class: "axes" });
    axes.textContent =
      `Each square is a head, and the numbers are layers. ` +
      `The stronger its colour, the harder the head looks at ${this.word}.`;
    nameBoxes(this.grid, []);
    this.trial = make("div", { class: "trial", "aria-live": "polite" });
    this.plot = make("div", { class: "scatter" });
    this.typed = makeTextBox(model);
    const parts = [sentence, this.reads, this.grid.element, axes, this.trial, this.plot];
    this.surface.root.append(...(this.typed ? [this.typed.element] : []), ...parts);

    this.unlisten = listen(model, {
      _answers: () => this.answered(),
      font: this.surface.style,
    });
    this.surface.style();
  }

  stop() {
    this.unlisten();
    this.typed?.stop();
    this.surface.stop();
  }

  weight([layer, head]) {
    return this.spec.weights[layer][head][this.answer];
  }

  // Probabilities of the words without a head; undefined while the kernel measures them.
  without([layer, head]) {
    if (this.way === undefined) return this.model.get("_answers")[`${layer},${head}`];
    return this.spec.removed[this.way][layer][head];
  }

  change(at) {
    return this.without(at)[0] - this.spec.before[0];
  }

  look(at) {
    const [layer, head] = at;
    this.spec.weights[layer][head].forEach((share, token) => {
      this.bars[token].style.height = `${share * 2.4}em`;
    });
    const share = percent(this.weight(at));
    this.reads.textContent =
      `L${headCalled(at).slice(1)} gives ${this.word} ${share} of its attention.`;
  }

  accuse(at) {
    if (this.accused.some((other) => `${other}` === `${at}`)) return;
    this.look(at);
    this.waiting = null;
    if (this.way === undefined) put(this.model, "accused", at);
    const guesses = GUESSES.map((guess) => makeButton(guess, () => this.remove(at, guess)));
    const asked =
      `You accuse ${headCalled(at)}, which gives ${this.word} ${percent(this.weight(at))} of its ` +
      `attention. If it is removed, ${this.word} is …`;
    this.trial.replaceChildren(make("p", {}, asked), make("p", { class: "guesses" }, ...guesses));
    guesses[0].focus({ preventScroll: true });
    this.trial.scrollIntoView({ block: "nearest" });
  }

  remove(at, guess) {
    if (!this.without(at)) {
      this.waiting = [at, guess];
      const waits = `The model reads the text without ${headCalled(at)} …`;
      this.trial.replaceChildren(make("p", {}, waits));
      return;
    }
    this.accused.push(at);
    this.grid.at(at).classList.add("accused");
    this.show(at, guess);
    if (this.accused.length >= ACCUSATIONS) this.scatter();
    this.grid.at(at).focus({ preventScroll: true });
    this.trial.scrollIntoView({ block: "nearest" });
  }

  answered() {
    if (!this.waiting || !this.without(this.waiting[0])) return;
    const [at, guess] = this.waiting;
    this.waiting = null;
    this.remove(at, guess);
  }

  show(at, guess) {
    const { words, before } = this.spec;
    const after = this.without(at);
    const bar = (share, name) => make("i", { class: name, style: `width: ${100 * share}%` });
    const rows = words.map((word, i) => {
      const name = make("th", { scope: "row" }, word.trim());
      const bars = make("td", {}, bar(before[i], ""), bar(after[i], "after"));
      const shares = make("td", {}, `${percent(before[i])} → ${percent(after[i])}`);
      return make("tr", {}, name, bars, shares);
    });
    const left = ACCUSATIONS - this.accused.length;
    const others = this.way === undefined ? "side by side" : "among all heads";
    const more =
      left > 0
        ? ` Accuse ${left === 1 ? "one more" : `${left} more`}.`
        : ` Below, yours stand ${others}.`;
    const happened = verdict(this.change(at));
    const right = happened === guess ? "as you said" : `you said ${guess}`;
    const said =
      `Without ${headCalled(at)}, ${this.word} is ${happened}: ` +
      `${percent(after[0])} instead of ${percent(before[0])}; ${right}.${more}`;
    const caption = make("caption", {}, "The next word, with the head and without it");
    const table = make("table", { class: "next" }, caption, ...rows);
    this.trial.replaceChildren(make("p", {}, said), table);
  }

  // Weight against effect: the accused heads, among all others where these were measured.
  scatter() {
    const { word } = this;
    const measured = this.way === undefined ? this.accused : this.every;
    const changes = measured.map((at) => this.change(at));
    const [lowest, highest] = [Math.min(-0.01, ...changes), Math.max(0.01, ...changes)];
    const across = (at) => 52 + 520 * this.weight(at);
    const down = (change) => 16 + (200 * (highest - change)) / (highest - lowest);
    const yours = this.accused
      .map((at) => `${headCalled(at)}, ${percent(this.weight(at))}, ${percent(this.change(at))}`)
      .join("; ");
    const picture = drawn("svg", { viewBox: "0 0 576 268", role: "img" });
    const seen = `its weight on ${word} against what its removal does to ${word}`;
    picture.setAttribute("aria-label", `A dot for each head: ${seen}. Yours: ${yours}.`);
    picture.append(drawn("line", { x1: 46, x2: 572, y1: down(0), y2: down(0), class: "zero" }));
    const dot = (at, r, name) => {
      const [cx, cy] = [across(at), down(this.change(at))];
      picture.append(drawn("circle", { cx, cy, r, class: name }));
    };
    if (this.way !== undefined) for (const at of measured) dot(at, 3.5, "other");
    for (const at of this.accused) {
      dot(at, 7, "yours");
      const isRight = this.weight(at) > 0.6;
      const [x, y] = [across(at) + (isRight ? -10 : 10), down(this.change(at)) + 5];
      picture.append(drawn("text", { x, y, class: isRight ? "end" : "" }, at.join("·")));
    }
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const place = { x: 52 + 520 * share, y: 240, class: share < 1 ? "tick" : "end" };
      picture.append(drawn("text", place, `${100 * share} %`));
    }
    for (const change of [lowest, 0, highest])
      picture.append(drawn("text", { x: 42, y: down(change) + 5, class: "end" }, points(change)));
    picture.append(drawn("text", { x: 312, y: 262, class: "tick" }, `weight on ${word}`));
    const [first] = this.accused;
    const title =
      `change of ${word} without the head, in points ` +
      `(${first.join("·")} is ${headCalled(first)})`;
    this.plot.replaceChildren(make("p", {}, title), picture, ...this.conclusions());
  }

  // What stands in place of a removed head, and what all heads together show.
  conclusions() {
    if (this.way === undefined) return [];
    const { word } = this;
    const choose = (way) => {
      this.way = way;
      this.scatter();
      this.plot.querySelector('[aria-pressed="true"]').focus({ preventScroll: true });
    };
    const buttons = this.ways.map((way) =>
      makeButton(way, () => choose(way), { "aria-pressed": this.way === way }),
    );
    const hardest = this.every.reduce((a, b) => (this.weight(b) > this.weight(a) ? b : a));
    const missed = this.every.reduce((a, b) => (this.change(b) < this.change(a) ? b : a));
    const looks =
      `Without the head that looks hardest at ${word}, ${headCalled(hardest)}, ` +
      `${word} is ${verdict(this.change(hardest))}. `;
    const needs =
      `The head whose removal costs ${word} most, ${headCalled(missed)}, ` +
      `gives ${word} ${percent(this.weight(missed))} of its attention.`;
    return [
      make("p", {}, "Put in its place: ", ...buttons),
      make("p", { class: "moral" }, make("b", {}, looks + needs)),
    ];
  }
}
