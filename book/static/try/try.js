// The page "Try your own sentence": boxes, sliders, bars and views. The models run in worker.js.
import { draw, nextDistribution } from "./sampling.js";

const ROWS = 10; // tokens that have a bar
const KEPT = [1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, null]; // of top-k; null: all
const PACE = 160; // milliseconds that a written token can be seen before the next
const SMALL = "This model takes about a gigabyte and a half of memory, which may be more than this device can give. "
  + "reviews-gpt, at the top of this page, runs anywhere.";
const MB = (bytes) => (bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0);
const percent = (p) => (p > 0 && p < 0.001 ? "< 0.1 %" : `${(100 * p).toFixed(1)} %`);

// ---------------------------------------------------------------- the worker
const cannot = typeof WebAssembly === "undefined" || typeof Worker === "undefined"
  ? "This browser has no WebAssembly (or it is switched off), and the models need it to run. The views "
    + "below show a stored sentence; for one of your own, open this page in a current Firefox, Chrome, Edge or Safari."
  : null;
const worker = cannot ? null : new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
const waiting = new Map();
let questions = 0;
function ask(question, progress = () => {}) {
  return new Promise((done, failed) => {
    waiting.set(++questions, { done, failed, progress });
    worker.postMessage({ ...question, asked: questions });
  });
}
worker?.addEventListener("message", ({ data }) => {
  const { done, failed, progress } = waiting.get(data.asked);
  if (data.progress !== undefined) return progress(data.progress);
  waiting.delete(data.asked);
  if (data.error) failed(new Error(data.error)); else done(data);
});
worker?.addEventListener("error", (event) => {
  const error = new Error(`The models could not be started: ${event.message || "live/worker.js did not load"}.`);
  for (const { failed } of waiting.values()) failed(error);
});

// ---------------------------------------------------------------- one model on the page
class Place {
  constructor(root) {
    this.root = root;
    this.model = root.dataset.model;
    this.box = root.querySelector("textarea");
    this.view = root.querySelector(".attn-live");
    this.ready = false;
    this.running = false;
    this.next = null;
    this.box.addEventListener("input", () => this.typed());
    this.loader = root.querySelector("[data-do=load]"); // of a model that comes only when it is asked for
    this.loader?.addEventListener("click", async () => {
      this.loader.disabled = true;
      this.loader.hidden = await this.load();
      this.loader.disabled = false;
      if (this.ready) this.box.focus();
    });
    const needs = Number(root.dataset.memory ?? 0), has = navigator.deviceMemory ?? (matchMedia("(pointer: coarse)").matches ? 0 : needs);
    if (has < needs) this.tell(SMALL);
    if (!needs) window.attnLoad(this.view); // that of a large model waits until it comes near the screen
  }

  // A sentence is read out at once, a note is only there to be seen.
  tell(sentence, note = "") {
    this.root.querySelector(".try-told [role=status]").textContent = sentence;
    this.root.querySelector(".try-told small").textContent = note;
  }

  async load() {
    window.attnLoad(this.view);
    const size = Number(this.root.dataset.bytes);
    this.root.classList.add("try-loading");
    this.tell("", `Loading the model, ${MB(size)} MB …`);
    try {
      this.about = await ask({ kind: "load", model: this.model }, (loaded) => {
        this.root.style.setProperty("--loaded", loaded / size);
        this.tell("", `Loading the model: ${MB(loaded)} of ${MB(size)} MB`);
      });
      this.ready = true;
      this.tell("");
    } catch (error) {
      this.tell(`${error.message} The view below still shows a stored sentence.`);
    }
    this.root.classList.remove("try-loading");
    if (this.ready) await this.follow({ text: this.box.value });
    return this.ready;
  }

  typed() {
    if (!this.ready && this.loader) return this.tell("", "The model is not loaded yet: press the button above, and the maps follow your text.");
    return this.follow({ text: this.box.value });
  }

  // Runs the newest text. While one runs, only the last of those that come meanwhile waits.
  async follow(input) {
    this.next = input;
    if (this.running || !this.ready) return;
    this.running = true;
    while (this.next) {
      const now = this.next;
      this.next = null;
      try {
        this.show(await ask({ kind: "read", model: this.model, ...now }), now);
      } catch (error) {
        this.writing = null;
        this.tell(`${error.message} The maps are still those of the text before.`);
      }
    }
    this.running = false;
  }

  sentence() { return ""; }

  show(answer) {
    const { unit, blob, seen, shown, ms } = answer;
    const cut = shown < seen ? ` (the maps show the last ${shown})` : "";
    this.tell(this.sentence(answer), `${seen} token${seen === 1 ? "" : "s"}${cut}, computed on this device in ${Math.round(ms)} ms`);
    const view = this.view.model;
    if (!view) return;
    this.view.style.minHeight = `${this.view.offsetHeight}px`; // nothing jumps while it is drawn anew
    view.set("_blob", new DataView(blob));
    view.set("_spec", { ...view.get("_spec"), units: [unit], packed: false });
    this.view.style.minHeight = "";
    this.root.dispatchEvent(new CustomEvent("try-shown"));
  }
}

// ---------------------------------------------------------------- the encoder, which only reads
class Reader extends Place {
  typed() {
    if (this.box.value.trim()) return super.typed();
    this.next = null;
    return this.tell("The box is empty: type a few words. The maps are still those of the text before.");
  }
}

// ---------------------------------------------------------------- the language model, which writes
class Writer extends Place {
  constructor(root) {
    super(root);
    this.first = this.box.value;
    this.before = []; // the ids before each token that was written
    this.writing = null; // while it writes on, what tells this run from another
    this.off = []; // the numbers of heads that are removed
    this.bars = root.querySelector(".try-bars");
    this.rows = Array.from({ length: ROWS }, () => this.row());
    this.button = Object.fromEntries([...root.querySelectorAll("[data-do]")].map((b) => [b.dataset.do, b]));
    const act = {
      one: () => this.write(this.drawn()), on: () => this.writeOn(), undo: () => this.undo(),
      again: () => { this.box.value = this.first; this.typed(); },
    };
    for (const [name, does] of Object.entries(act))
      this.button[name].addEventListener("click", () => { if (name !== "on") this.writing = null; does(); });
    if (this.button.ask) this.chats();
    if (this.button.remove) this.gates();
    this.sliders = Object.fromEntries([...root.querySelectorAll("input[type=range]")].map((s) => [s.name, s]));
    for (const slider of Object.values(this.sliders)) slider.addEventListener("input", () => this.weigh());
    this.settle();
  }

  row() {
    const part = (name) => Object.assign(document.createElement("span"), { className: name });
    const [token, bar, value] = ["try-token", "try-bar", "try-percent"].map(part), button = document.createElement("button");
    button.type = "button";
    button.append(token, bar, value);
    button.addEventListener("click", () => { this.writing = null; this.write(Number(button.value)); });
    const item = document.createElement("li");
    item.append(button);
    this.bars.append(item);
    return { button, token, bar, value };
  }

  // A question opens a conversation, or goes on with it; the model writes until its answer ends.
  chats() {
    const line = this.button.ask.querySelector("input");
    this.button.ask.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (!this.ready || this.running || !line.value.trim()) return;
      this.writing = null;
      this.before.push(this.ids);
      const question = line.value, mine = this.before;
      line.value = "";
      await this.follow({ question, ids: this.ids });
      if (this.before === mine) await this.writeOn(); // else something has been typed
    });
  }

  // The head that the view shows can be removed: what it writes is multiplied by nought.
  gates() {
    const heads = () => this.view.model.get("_spec").axes[1].labels.length;
    const here = () => { const [layer, head] = this.view.model.get("index"); return layer * heads() + head; };
    const name = (n) => `${Math.floor(n / heads())}.${n % heads()}`;
    const settle = () => {
      const off = this.off.includes(here());
      this.button.remove.textContent = `${off ? "Put head" : "Remove head"} ${name(here())}${off ? " back" : ""}`;
      this.button.restore.disabled = !this.off.length;
    };
    this.tellHeads = (change = ".") => {
      const those = this.off.length ? `Without ${this.off.map(name).join(", ")}` : "With all heads";
      this.root.querySelector(".try-off").textContent = this.off.length || change !== "." ? those + change : "";
    };
    const change = async (off) => {
      if (!this.ready || this.running) return;
      const [best] = this.all, before = this.plain[best], text = this.box.value;
      this.off = off;
      settle();
      await this.follow({ ids: this.ids });
      if (this.box.value === text)
        this.tellHeads(`: “${this.about.names[best]}” goes from ${percent(before)} to ${percent(this.plain[best])}.`);
    };
    this.button.remove.addEventListener("click", () =>
      change(this.off.includes(here()) ? this.off.filter((n) => n !== here()) : [...this.off, here()]));
    this.button.restore.addEventListener("click", () => change([]));
    const alive = () => { this.view.model.on("change:index", settle); settle(); };
    if (this.view.model) alive(); else this.view.addEventListener("attn-live", alive);
  }

  settings() {
    const { temperature, topK, topP } = this.sliders;
    return [Number(temperature.value), KEPT[topK.value], Number(topP.value)];
  }

  settle() { // what the sliders say
    const [temperature, topK, topP] = this.settings();
    const told = { temperature: temperature.toFixed(1), topK: topK === null ? "all" : String(topK),
      topP: topP === 1 ? "all" : topP.toFixed(2) };
    for (const [name, slider] of Object.entries(this.sliders)) {
      slider.setAttribute("aria-valuetext", told[name]);
      slider.parentElement.querySelector("output").textContent = told[name];
    }
  }

  typed() {
    this.before = [];
    this.writing = null;
    return super.typed();
  }

  follow(input) { return super.follow({ ...input, off: this.off }); }

  show(answer, asked) {
    Object.assign(this, { ids: answer.ids, logits: answer.logits, all: answer.order });
    super.show(answer);
    if (asked.text === undefined && !this.next) { // else something newer has been typed
      this.box.value = answer.text;
      this.box.scrollTop = this.box.scrollHeight;
    }
    this.order = [...this.all.slice(0, ROWS)];
    this.plain = nextDistribution(this.logits, 1, null, null, this.all);
    this.tellHeads?.();
    this.weigh();
  }

  sentence({ ids, seen }) {
    if (this.ended()) return "The model has ended its text here.";
    if (ids.length > seen) return `The model reads at most ${seen} tokens: the first ${ids.length - seen} of these ${ids.length} are out of its sight.`;
    return ids.length === 1 && ids[0] === this.about.end ? "The box is empty, so the model begins a new text." : "";
  }

  weigh() { // the distribution under the settings, as bars
    this.settle();
    if (!this.logits) return;
    this.p = nextDistribution(this.logits, ...this.settings(), this.all);
    const left = this.p.filter((p) => p > 0).length, longest = Math.max(...this.order.map((id) => Math.max(this.p[id], this.plain[id])));
    this.rows.forEach(({ button, token, bar, value }, i) => {
      const id = this.order[i];
      button.value = id;
      button.classList.toggle("try-cut", this.p[id] === 0);
      token.textContent = this.about.names[id];
      bar.style.setProperty("--now", this.p[id] / longest);
      bar.style.setProperty("--plain", this.plain[id] / longest);
      value.textContent = this.p[id] === 0 ? "cut off" : percent(this.p[id]);
    });
    const shown = this.order.reduce((sum, id) => sum + this.p[id], 0), others = left - this.order.filter((id) => this.p[id] > 0).length;
    this.root.querySelector(".try-rest").textContent = `Left to draw from: ${left.toLocaleString("en")} of ${this.p.length.toLocaleString("en")} tokens`
      + (others ? `; the ${others.toLocaleString("en")} that have no bar share ${percent(Math.max(0, 1 - shown))}.` : ".");
    this.button.undo.disabled = !this.before.length;
    this.button.on.textContent = this.writing ? "Stop" : "Write on";
    this.button.one.disabled = this.button.on.disabled = this.ended();
  }

  drawn() { return draw(this.p); }
  ended() { return this.before.length > 0 && [this.about.end, this.about.chat?.stop].includes(this.ids.at(-1)); }

  async write(id) {
    if (!this.logits || this.running) return;
    this.before.push(this.ids);
    await this.follow({ ids: [...this.ids, id] });
  }

  async writeOn() {
    const mine = this.writing = this.writing ? null : {};
    while (mine && this.writing === mine && !this.ended()) {
      await Promise.all([this.write(this.drawn()), new Promise((done) => setTimeout(done, PACE))]);
    }
    if (this.writing === mine) this.writing = null;
    this.weigh();
  }

  undo() {
    if (this.running || !this.before.length) return;
    this.follow({ ids: this.before.pop() });
  }
}

// ---------------------------------------------------------------- the page
const places = {};
for (const root of document.querySelectorAll(".try"))
  places[root.dataset.model] = new (root.dataset.writes === "" ? Writer : Reader)(root);

// try.html#minilm=a%20text, as the chapters link to it
function fromAddress() {
  for (const [model, text] of new URLSearchParams(location.hash.slice(1))) {
    const place = places[model];
    if (!place) continue;
    if (text) { place.box.value = text; place.typed(); }
    place.root.scrollIntoView();
  }
}
addEventListener("hashchange", fromAddress);
fromAddress();
if (cannot) {
  for (const place of Object.values(places)) {
    place.tell(cannot);
    for (const control of place.root.querySelectorAll("textarea, .try-buttons :is(input, button), .try-next :is(input, button)")) control.disabled = true;
  }
} else places["reviews-gpt"].load();
