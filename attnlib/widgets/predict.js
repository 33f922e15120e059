// Predictions: a question to answer, the truth beside the answer, and all of a notebook together.
// A question and its truth are two views, perhaps far apart: they meet by their label, in
// `window.attnPredictions` and in localStorage, and an event says when something has changed.

import { clamp, listen, make, makeButton, makeRoot } from "./elements.js";
import { axisWords, distanceOf, drawCurve, drawNumber, pointOnCurve, stepped } from "./axes.js";

const KEPT = "attnlib.predictions";
const EVERYTHING = ""; // stands among the labels: whether nothing is to be covered
const inDeck = () => document.querySelector(".reveal") !== null; // answers of a room are not kept

// What localStorage holds; nothing where the reader's browser refuses it.
function kept() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    return {};
  }
}

const page = () => (window.attnPredictions ??= inDeck() ? {} : kept());
const known = (label) => page()[label] ?? null;

// Remember { answer } or { passed } of a label, or null, and tell all views of the page.
function remember(label, value) {
  page()[label] = value;
  try {
    if (!inDeck()) localStorage.setItem(KEPT, JSON.stringify({ ...kept(), [label]: value }));
  } catch {
    // refused: the page remembers it for as long as it is open
  }
  const detail = { label, done: value !== null };
  document.dispatchEvent(new CustomEvent("attn-predict", { detail }));
}

const QUIET = { class: "attn-quiet" }; // a button that is no more than underlined

// ---------------------------------------------------------------- what is answered with
// Each control has an element, the answer so far, and `draw`, which shows it.

// A number line, or axes for a curve: one thing to focus, for pointer, touch and keyboard.
class AxesControl {
  constructor(spec, changed) {
    Object.assign(this, { spec, changed, answer: null, column: 0, last: null });
    this.isCurve = spec.form === "curve";
    const help = this.isCurve
      ? "Draw the curve; or left and right choose a column, up and down move it"
      : "Point at the line, or use the arrow keys";
    this.element = make("div", {
      class: `attn-axes${this.isCurve ? " attn-curve" : ""}`,
      role: "slider",
      tabindex: 0,
      "aria-label": `${spec.label}. ${help}`,
    });
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      this.last = null;
      this.point(event);
    });
    this.element.addEventListener("pointermove", (event) => {
      if (this.element.hasPointerCapture(event.pointerId)) this.point(event);
    });
    this.element.addEventListener("keydown", (event) => this.press(event));
    this.touched = new Map(); // the columns of a curve that were drawn
  }

  point(event) {
    const { left, top } = this.element.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    if (!this.isCurve) return this.set(stepped(this.spec.axis, this.scales.x.of(x)));
    const { column, height } = pointOnCurve(this.spec, this.scales, x, y);
    const before = this.last ?? { column, height };
    const steps = Math.max(1, Math.abs(column - before.column));
    for (let step = 1; step <= steps; step++) {
      const share = step / steps;
      const at = Math.round(before.column + share * (column - before.column));
      this.touched.set(at, before.height + share * (height - before.height));
    }
    this.last = { column, height };
    this.column = column;
    this.setCurve();
  }

  press(event) {
    const across = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const up = { ArrowDown: -1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
    if (across === undefined && up === undefined) return;
    event.preventDefault();
    const { spec } = this;
    if (!this.isCurve) {
      const scale = this.scales.x;
      const step = Math.max(0.01, (spec.axis.step || 0) / (spec.axis.high - spec.axis.low));
      const share = this.answer === null ? 0.5 : scale.share(this.answer) + step * (across ?? up);
      this.set(stepped(spec.axis, scale.at(clamp(share, 0, 1))));
      return;
    }
    if (across) this.column = clamp(this.column + across, 0, spec.columns.length - 1);
    const scale = this.scales.y;
    const share = this.answer ? scale.share(this.answer[this.column]) : 0.5;
    if (up) this.touched.set(this.column, scale.at(clamp(share + 0.02 * up, 0, 1)));
    if (up) this.setCurve();
    else this.draw();
  }

  // Columns that were not drawn are as high as the nearest that was.
  setCurve() {
    const drawn = [...this.touched.keys()];
    this.set(
      this.spec.columns.map((_, column) => {
        const nearest = drawn.reduce((best, other) =>
          Math.abs(other - column) < Math.abs(best - column) ? other : best,
        );
        return Number(this.touched.get(nearest).toPrecision(3));
      }),
    );
  }

  set(answer) {
    this.answer = answer;
    this.draw();
    this.changed();
  }

  draw() {
    const { element, spec, answer, column } = this;
    const options = { answer, column: element === document.activeElement ? column : null };
    this.scales = (this.isCurve ? drawCurve : drawNumber)(element, spec, options);
    const value = this.isCurve ? answer?.[column] : answer;
    const axis = this.isCurve ? spec.y : spec.axis;
    const ends = { "aria-valuemin": axis.low, "aria-valuemax": axis.high };
    const now = { "aria-valuenow": value ?? axis.low, "aria-valuetext": this.words(value, axis) };
    for (const [name, text] of Object.entries({ ...ends, ...now })) element.setAttribute(name, text);
  }

  words(value, axis) {
    const said = value === null || value === undefined ? "no answer yet" : axisWords(value, axis);
    if (!this.isCurve) return said;
    return `${axisWords(this.spec.columns[this.column], this.spec.x)} ${this.spec.x.name}: ${said}`;
  }
}

class ChoiceControl {
  constructor(spec, changed) {
    this.answer = null;
    this.buttons = spec.options.map((option) =>
      makeButton(option, () => {
        this.answer = option;
        this.draw();
        changed();
      }),
    );
    const attributes = { class: "attn-options", role: "group", "aria-label": spec.label };
    this.element = make("div", attributes, ...this.buttons);
  }

  draw() {
    for (const button of this.buttons)
      button.setAttribute("aria-pressed", button.textContent === this.answer);
  }
}

class OrderControl {
  constructor(spec, changed) {
    this.answer = null;
    this.items = [...spec.options];
    this.changed = changed;
    this.element = make("ol", { class: "attn-order", "aria-label": spec.label });
    this.rows = new Map(this.items.map((item) => [item, this.row(item)]));
  }

  row(item) {
    const up = makeButton("▲", () => this.move(item, -1), { "aria-label": `${item}, up` });
    const down = makeButton("▼", () => this.move(item, 1), { "aria-label": `${item}, down` });
    const row = make("li", {}, make("span", {}, item), up, down);
    const name = row.firstChild; // is dragged; a finger elsewhere scrolls the page
    name.addEventListener("pointerdown", (event) => name.setPointerCapture(event.pointerId));
    name.addEventListener("pointermove", (event) => {
      if (!name.hasPointerCapture(event.pointerId)) return;
      const { top, bottom } = row.getBoundingClientRect();
      if (event.clientY < top) this.move(item, -1);
      else if (event.clientY > bottom) this.move(item, 1);
    });
    return row;
  }

  move(item, by) {
    const from = this.items.indexOf(item);
    const to = clamp(from + by, 0, this.items.length - 1);
    this.items.splice(from, 1);
    this.items.splice(to, 0, item);
    this.answer = [...this.items];
    this.draw(item);
    this.changed();
  }

  // An item that is dragged, or whose button has the focus, stays; the others are put around it.
  draw(held = this.items[0]) {
    if (this.answer) this.items = [...this.answer];
    const fixed = this.rows.get(held);
    if (!fixed.parentElement) this.element.append(fixed);
    const place = this.items.indexOf(held);
    for (const item of this.items.slice(0, place)) fixed.before(this.rows.get(item));
    for (const item of this.items.slice(place + 1)) this.element.append(this.rows.get(item));
  }
}

const CONTROLS = { choice: ChoiceControl, order: OrderControl };

// ---------------------------------------------------------------- what follows is covered
// On a page of the book: all up to the end of the section, or to the table of all predictions, in a
// box that a search still finds.
function coverOnPage(cell, label) {
  const box = make("div", { class: "attn-cover" });
  const end = 'section, :has([data-part="so_far"])';
  while (cell.nextElementSibling && !cell.nextElementSibling.matches(end))
    box.append(cell.nextElementSibling);
  cell.after(box);
  box.addEventListener("beforematch", () => remember(label, { passed: true }));
  const isQuoted = performance.getEntriesByType("navigation")[0]?.name.includes(":~:text=");
  const isTarget = () => {
    const name = decodeURIComponent(location.hash.slice(1));
    return isQuoted || (name !== "" && box.contains(document.getElementById(name)));
  };
  window.addEventListener("hashchange", () => {
    if (isTarget()) remember(label, { passed: true });
  });
  return (covered) => {
    if (covered && !isTarget()) box.setAttribute("hidden", "until-found");
    else box.removeAttribute("hidden");
  };
}

// In JupyterLab: from every question that waits up to the next heading, or to this table.
function coverCells(cells) {
  let covered = false;
  for (const cell of cells.children) {
    if (cell.querySelector(".jp-RenderedMarkdown :is(h1, h2, h3, h4), .attn-table")) covered = false;
    cell.classList.toggle("attn-covered", covered);
    if (cell.querySelector(".attn-waits")) covered = true;
  }
}

// What covers and uncovers the rest of the section; null where the surroundings are not known.
function coverOf(el, label) {
  if (inDeck()) return null;
  const cells = el.closest(".jp-Cell")?.parentElement;
  if (cells) return () => coverCells(cells);
  const cell = el.closest("section > .cell, .attn-cover > .cell");
  return cell && coverOnPage(cell, label);
}

// ---------------------------------------------------------------- the three views
class PredictPart {
  constructor(model, el, spec) {
    Object.assign(this, { model, spec });
    this.surface = makeRoot(model, el, spec.label ?? "Your predictions", () => this.draw?.());
    this.root = this.surface.root;
    this.root.classList.add("attn-predict");
    const hear = (event) => this.update(event.detail.label);
    document.addEventListener("attn-predict", hear);
    const unlisten = listen(model, {
      answer: () => this.update(spec.label),
      font: () => {
        this.surface.style();
        this.update(null);
      },
    });
    this.unlisten = [() => document.removeEventListener("attn-predict", hear), unlisten];
  }

  // The answer: what this page knows, or else what the kernel does.
  get answer() {
    const { label } = this.spec;
    return (label in page() ? known(label)?.answer : this.model.get("answer")) ?? null;
  }

  // Share an answer with the kernel, if there is one.
  share(values) {
    for (const [name, value] of Object.entries(values)) this.model.set(name, value);
    this.model.save_changes();
  }

  stop() {
    for (const end of this.unlisten) end();
    this.surface.stop();
  }
}

class PredictAsk extends PredictPart {
  constructor(model, el, spec) {
    super(model, el, spec);
    const Control = CONTROLS[spec.form] ?? AxesControl;
    this.control = new Control(spec, () => this.buttons());
    const answer = () => remember(spec.label, { answer: this.control.answer });
    this.say = makeButton("Answer", answer, { class: "attn-main" });
    this.pass = makeButton("Pass over", () => remember(spec.label, { passed: true }), QUIET);
    this.again = makeButton("Predict again", () => remember(spec.label, null), QUIET);
    this.all = makeButton("", () => remember(EVERYTHING, known(EVERYTHING) ? null : {}), QUIET);
    this.told = make("span", { "aria-live": "polite" });
    const bar = make("div", { class: "attn-say" }, this.say, this.pass, this.again, this.told, this.all);
    const label = make("div", { class: "attn-label attn-note" }, spec.label); // below the question
    this.root.append(label, this.control.element, bar);
    this.draw = () => {
      this.cover ??= coverOf(el, spec.label); // not before the view has its place
      this.update();
    };
    this.update(spec.label);
    this.surface.style();
  }

  // Draw, after something became known about a label. What is kept from an earlier visit, or was
  // forgotten, reaches the kernel, too.
  update(label) {
    const { answer, control } = this;
    if (label === this.spec.label) {
      control.answer = answer;
      if (answer === null) control.touched?.clear();
      this.share({ answer });
    }
    control.draw();
    this.buttons();
  }

  buttons() {
    const { control, cover, answer } = this;
    const { passed, seen: isSeen = false } = known(this.spec.label) ?? {};
    const isDone = answer !== null || passed;
    const isNew = JSON.stringify(control.answer) !== JSON.stringify(answer);
    this.root.classList.toggle("attn-waits", !isDone && !known(EVERYTHING));
    this.root.classList.toggle("attn-locked", isSeen);
    control.element.inert = isSeen;
    this.say.hidden = isSeen || !isNew;
    this.pass.hidden = isDone || Boolean(known(EVERYTHING));
    this.again.hidden = !isSeen;
    this.all.hidden = !cover || (isDone && !known(EVERYTHING));
    this.all.textContent = known(EVERYTHING) ? "Cover results" : "Show everything";
    this.told.textContent = passed ? "Passed over." : isDone ? "Answered." : this.hint();
    cover?.(!isDone && !known(EVERYTHING));
  }

  hint() {
    return this.cover && !known(EVERYTHING) ? "Answer, or pass over, to see what happens." : "";
  }

  stop() {
    super.stop();
    this.root.classList.remove("attn-waits");
    this.cover?.(false);
  }
}

// How an answer compares with the truth: from 0 to 1, and in words.
function compare(spec, answer) {
  const { truth, form } = spec;
  if (form === "choice") return answer === truth ? [1, "right"] : [0, "not so"];
  if (form === "order") {
    const places = answer.map((item) => truth.indexOf(item));
    const pairs = places.flatMap((place, n) => places.slice(n + 1).map((other) => place < other));
    const right = pairs.filter(Boolean).length;
    return [right / pairs.length, `${right} of ${pairs.length} pairs in the right order`];
  }
  const apart = Math.min(1, distanceOf(spec, answer));
  const percent = Math.round(100 * apart);
  const often = form === "curve" ? "on average " : "";
  return [1 - apart, percent ? `${often}${percent} % of the axis apart` : "right"];
}

function inWords(spec, value) {
  if (spec.form === "number") return axisWords(value, spec.axis);
  if (spec.form === "choice") return value;
  if (spec.form === "order") return value.join(", ");
  const heights = value.map((point) => point[1] ?? point);
  return `from ${axisWords(heights[0], spec.y)} to ${axisWords(heights.at(-1), spec.y)}`;
}

class PredictTruth extends PredictPart {
  constructor(model, el, spec) {
    super(model, el, spec);
    this.read = make("div", { class: "attn-read", "aria-live": "polite" });
    this.picture = make("div", { class: "attn-axes", role: "img", hidden: "" });
    this.root.append(make("div", { class: "attn-label" }, spec.label), this.read, this.picture);
    this.draw = () => this.picture.hidden || this.paint();
    this.surface.style();
    this.update();
  }

  update() {
    const { spec, answer } = this;
    const isCurve = spec.form === "curve";
    const yours = (words) => make("b", {}, words);
    const measured = (words) => make("b", { class: "attn-true" }, words);
    const said = answer === null ? [] : ["You said ", yours(inWords(spec, answer)), ". "];
    const result = spec.form === "number" ? "Measured: " : "The result: ";
    const both = [...said, result, measured(inWords(spec, spec.truth)), answer === null ? "" : ". "];
    const legend = [yours("– – your curve"), ", ", measured("● measured"), ". "];
    this.read.replaceChildren(...(isCurve ? legend.slice(answer === null ? 2 : 0) : both));
    this.picture.hidden = !isCurve && (answer === null || spec.form !== "number");
    if (answer !== null) {
      const [close, told] = compare(spec, answer);
      this.read.append(make("small", {}, `${told[0].toUpperCase()}${told.slice(1)}.`));
      this.share({ answer, close: Number(close.toFixed(3)) }); // the kernel notes both
    }
    this.picture.setAttribute("aria-label", `${spec.label}: ${inWords(spec, spec.truth)}`);
    this.draw();
    if (known(spec.label)?.answer !== undefined && !known(spec.label).seen)
      remember(spec.label, { ...known(spec.label), seen: true });
  }

  paint() {
    const { spec, answer } = this;
    const options = { answer, truth: spec.truth };
    (spec.form === "curve" ? drawCurve : drawNumber)(this.picture, spec, options);
  }
}

class PredictSoFar extends PredictPart {
  constructor(model, el, spec) {
    super(model, el, spec);
    this.table = make("table", { class: "attn-table" });
    const labels = spec.items.map((item) => item.label);
    const forget = () => labels.forEach((label) => remember(label, null));
    this.forget = makeButton("Forget these answers", forget, QUIET);
    this.root.append(make("div", { class: "attn-stage" }, this.table), this.forget);
    this.surface.style();
    this.update();
  }

  update() {
    const rows = this.spec.items.map((item) => {
      const page = known(item.label);
      const answer = page ? (page.answer ?? null) : item.answer;
      return { item, answer, compared: answer === null ? null : compare(item, answer) };
    });
    const closes = rows.flatMap(({ compared }) => (compared ? [compared[0]] : []));
    const mean = closes.reduce((sum, close) => sum + close, 0) / closes.length;
    const close = closes.length ? `; on average ${Math.round(100 * mean)} % close` : "";
    const caption = `You answered ${closes.length} of ${rows.length}${close}.`;
    const head = ["prediction", "you said", "measured", "how close"].map((name) => make("th", { scope: "col" }, name));
    const body = rows.map(({ item, answer, compared }) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, item.label),
        make("td", {}, answer === null ? "–" : inWords(item, answer)),
        make("td", {}, inWords(item, item.truth)),
        make("td", {}, compared ? compared[1] : "–"),
      ),
    );
    this.table.replaceChildren(
      make("caption", {}, caption),
      make("thead", {}, make("tr", {}, ...head)),
      make("tbody", {}, ...body),
    );
    this.forget.hidden = !closes.length;
  }
}

export const PREDICT_PARTS = { ask: PredictAsk, truth: PredictTruth, so_far: PredictSoFar };
