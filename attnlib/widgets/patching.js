// Drag the patch: boxes of a clean run are pulled into a corrupted one, a needle shows how much of
// the difference comes back, and the corrupted run becomes a heat map of what was tried.

import { isTouched, listen, make, makeButton, makeChoice, makeRoot } from "./elements.js";
import { makeBoxButtons, makeBoxes, nameBoxes } from "./boxes.js";
import { makeDial } from "./dial.js";
import { makeTextBox } from "./typed.js";

const PULLS = 10; // after so many the button that fills in the rest is no longer quiet
const DRAGGED = 6; // pixels: a pointer that moves less has clicked

const hundredths = (x) => (Math.abs(x) < 0.005 ? 0 : x).toFixed(2).replace("-", "−");

// Blue for what comes back, brown for what is taken away, as in the figures.
function colourBox(box, share) {
  box.style.setProperty("--share", `${Math.round(100 * Math.min(1, Math.abs(share)))}%`);
  box.classList.toggle("attn-below", share < 0);
  box.classList.add("attn-known");
}

export class PatchingFace {
  constructor(model, el, spec) {
    this.model = model;
    this.spec = spec;
    this.tried = new Map(spec.maps.map(({ name }) => [name, new Set()]));
    this.filled = new Set(); // names of maps that are shown whole
    this.surface = makeRoot(model, el, spec.title, () => {});

    this.dial = makeDial("corrupted 0", "clean 1");
    this.read = make("p", { class: "attn-said", "aria-live": "polite" });
    this.logits = make("p", { class: "attn-note" });
    this.rest = makeButton("Fill in the rest", () => this.fill(), { class: "attn-rest" });
    const words = make("div", {}, this.read, this.logits, this.rest);
    const meter = make("div", { class: "attn-meter" }, this.dial.picture, words);

    const labels = Object.fromEntries(spec.maps.map(({ name }) => [name, name]));
    this.choice = makeChoice(model, "what", "put back", labels);
    const bar = make("div", { class: "attn-bar attn-wrap" }, this.choice.element);
    bar.hidden = spec.maps.length < 2;
    this.runs = make("div", { class: "attn-runs" });
    this.typed = makeTextBox(model);
    const parts = [this.typed?.element, bar, meter, this.runs].filter(Boolean);
    this.surface.root.append(...parts);

    this.unlisten = listen(model, { what: () => this.choose(), font: this.surface.style });
    this.surface.style();
    this.choose();
  }

  stop() {
    this.unlisten();
    this.typed?.stop();
    this.surface.stop();
  }

  // The two runs of the map that is chosen.
  choose() {
    this.choice.update();
    this.map = this.spec.maps.find(({ name }) => name === this.model.get("what"));
    const { layers, places } = this.map;
    const size = [layers, places.length];
    this.clean = makeBoxButtons("boxes of the clean run", ...size, (at) => this.called(at), {
      looked: (at) => this.look(at),
      picked: (at) => this.pull(at),
    });
    this.corrupted = makeBoxes("div", "", ...size, () => ({}));
    this.corrupted.element.setAttribute("role", "img");
    this.listenToDrags();
    const [clean, corrupted] = this.spec.runs;
    nameBoxes(this.clean, places);
    nameBoxes(this.corrupted, places);
    this.runs.replaceChildren(
      make("div", {}, make("p", {}, make("b", {}, "clean run"), ` ${clean}`), this.clean.element),
      make(
        "div",
        {},
        make("p", {}, make("b", {}, "corrupted run"), ` ${corrupted}`),
        this.corrupted.element,
      ),
    );
    for (const number of this.known()) this.show(number);
    this.update(null);
  }

  known() {
    const all = this.map.shares.keys();
    return this.filled.has(this.map.name) ? [...all] : [...this.tried.get(this.map.name)];
  }

  // A box in words: "layer 23 · head 3", or "before layer 22, at “to”".
  called([layer, place]) {
    const { isStream, layers, places } = this.map;
    if (!isStream) return `layer ${layer} · ${places[place]}`;
    const when = layer === layers - 1 ? "after the last layer" : `before layer ${layer}`;
    return `${when}, at “${places[place]}”`;
  }

  // What is pointed at stands out in both runs; a share that is known is shown again.
  look(at) {
    this.corrupted.element.querySelector(".attn-here")?.classList.remove("attn-here");
    this.corrupted.at(at).classList.add("attn-here");
    if (this.known().includes(this.clean.numberOf(at))) this.update(at);
  }

  pull(at) {
    const number = this.clean.numberOf(at);
    this.tried.get(this.map.name).add(number);
    this.show(number);
    this.fly(at);
    this.update(at);
  }

  show(number) {
    colourBox(this.corrupted.boxes[number], this.map.shares[number]);
    const isTried = this.tried.get(this.map.name).has(number);
    this.corrupted.boxes[number].classList.toggle("attn-tried", isTried);
  }

  fill() {
    this.filled.add(this.map.name);
    for (const number of this.known()) this.show(number);
    this.update(null);
    this.clean.element.querySelector('[tabindex="0"]').focus({ preventScroll: true });
  }

  // The box is seen on its way from one run to the other.
  fly(at) {
    const target = this.corrupted.at(at);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const [from, to] = [this.clean.at(at), target].map((box) => box.getBoundingClientRect());
    const start = `translate(${from.left - to.left}px, ${from.top - to.top}px)`;
    target.animate([{ transform: start, zIndex: 2 }, { transform: "none", zIndex: 2 }], 300);
  }

  // A box follows the pointer; let go beyond the clean run it is pulled, else it goes back.
  listenToDrags() {
    const { element } = this.clean;
    let drag = null;
    const end = () => {
      if (!drag) return;
      drag.box.style.transform = "";
      drag.box.classList.remove("attn-dragged");
      drag = null;
    };
    element.addEventListener("pointerdown", (event) => {
      const box = event.target.closest("button");
      if (box) drag = { box, x: event.clientX, y: event.clientY, moved: false };
    });
    element.addEventListener("pointermove", (event) => {
      if (!drag) return;
      const [right, down] = [event.clientX - drag.x, event.clientY - drag.y];
      if (!drag.moved && Math.hypot(right, down) < DRAGGED) return;
      if (!drag.moved) element.setPointerCapture(event.pointerId);
      drag.moved = true;
      drag.box.classList.add("attn-dragged");
      drag.box.style.transform = `translate(${right}px, ${down}px)`;
    });
    element.addEventListener("pointerup", (event) => {
      if (!drag?.moved) return;
      const { clientX: x, clientY: y } = event;
      const { left, right, top, bottom } = this.corrupted.element.getBoundingClientRect();
      const isInside = x > left && x < right && y > top && y < bottom;
      if (isInside) this.pull(this.clean.placeOf(this.clean.boxes.indexOf(drag.box)));
    });
    for (const name of ["pointerup", "pointercancel"]) element.addEventListener(name, end);
  }

  // The needle, and what is said: of one box, or of none.
  update(at) {
    const { difference, answers } = this.spec;
    const [clean, corrupted] = difference;
    const share = at ? this.map.shares[this.clean.numberOf(at)] : 0;
    this.dial.turn(share);
    const now = corrupted + share * (clean - corrupted);
    const effect = share <= -0.005 ? ", the patch made it worse." : " of the difference came back.";
    const how = isTouched() ? "drag it, or tap it" : "drag it, click it, or press Enter";
    this.read.textContent = at
      ? `${this.called(at)}: ${hundredths(share)}${effect}`
      : `Pull a box of the clean run into the corrupted run: ${how}.`;
    const [right, wrong] = answers;
    this.logits.textContent =
      `The logit of ${right} minus that of ${wrong} is ${hundredths(now)}; it is ` +
      `${hundredths(corrupted)} in the corrupted run and ${hundredths(clean)} in the clean run.`;
    const known = this.known();
    const all = this.map.shares.length;
    let pulls = 0;
    for (const tried of this.tried.values()) pulls += tried.size;
    this.rest.classList.toggle("attn-gone", known.length === all);
    this.rest.classList.toggle("attn-ready", pulls >= PULLS);
    const said = known.map((number) => {
      const called = this.called(this.clean.placeOf(number));
      return `${called} ${hundredths(this.map.shares[number])}`;
    });
    const tried = this.tried.get(this.map.name).size;
    const list = known.length <= 20 && known.length ? `: ${said.join("; ")}` : "";
    this.corrupted.element.setAttribute(
      "aria-label",
      `the corrupted run, ${tried} of ${all} boxes tried, ${known.length} shown${list}`,
    );
  }
}
