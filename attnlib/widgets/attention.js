// The attention view: the map, the links or all maps at the place where the sliders stand.
// `redraw` draws all of it from the model's state and from what the reader points at.

import {
  listen,
  make,
  makeButtons,
  makeChoice,
  makeFontButtons,
  makeRoot,
  makeSliders,
  put,
} from "./elements.js";
import { Atlas, openNumbers } from "./data.js";
import { paint } from "./drawing.js";
import { ramp } from "./colours.js";
import { mapScene } from "./map_scene.js";
import { linkScene } from "./link_scene.js";
import { Sheet, smallScene } from "./small_maps.js";
import { mapLabel, readout, smallLabel } from "./readout.js";
import { numbersTable } from "./numbers_table.js";
import { listenToMap, listenToSmallMaps } from "./input.js";
import { downloadPng, downloadSvg } from "./download.js";

const BESIDE = 12; // more small maps than these stand beside the one shown
const MOST_OVERLAID = 16; // positions on an axis whose links may lie over one another

export class AttentionFace {
  constructor(model, el, spec, blob) {
    this.model = model;
    this.spec = spec;
    this.atlas = new Atlas(spec, blob, model);
    this.sheet = new Sheet(this.atlas);
    this.special = new RegExp(spec.special ?? "^$");
    this.numbersOf = spec.numbers ? openNumbers(spec.numbers, spec.units[0], blob) : null;
    this.palettes = { light: ramp(spec.palette.light), dark: ramp(spec.palette.dark) };
    this.look = null; // sizes and colours, as the page has them now
    this.cursor = null; // the cell of the map that is pointed at, [row, column]
    this.focus = null; // the token of the links that is pointed at, { side, at }
    this.opened = null; // the cell whose numbers are shown
    this.reserved = { of: "", height: 0 }; // the most room that the read-out has taken

    this.surface = makeRoot(model, el, spec.title || spec.alt, () => {
      this.look = this.readLook();
      this.redraw();
    });
    this.root = this.surface.root;
    this.build();
    listenToMap(this);
    listenToSmallMaps(this);
    const redraw = () => this.redraw();
    const names = ["index", "overlay", "mode", "scale", "unit", "_shown"];
    const handlers = Object.fromEntries(names.map((name) => [name, redraw]));
    this.unlisten = listen(model, { ...handlers, font: this.surface.style });
    this.surface.style();
  }

  stop() {
    this.unlisten();
    this.surface.stop();
  }

  // ---- the parts of the page
  build() {
    const { model, spec, atlas } = this;
    this.sliders = makeSliders(model, atlas.axes);
    this.choices = this.makeChoices();
    this.tiles = this.canOverlay ? this.makeTiles() : null;
    const downloads = [
      ["SVG", "download as SVG", () => downloadSvg(this)],
      ["PNG", "download as PNG", () => downloadPng(this)],
    ];
    const bar = make(
      "div",
      { class: "attn-bar" },
      ...this.choices.map((choice) => choice.element),
      makeButtons("download", downloads, "attn-push"),
      makeFontButtons(model),
    );
    this.read = make("div", { class: "attn-read", "aria-live": "polite" });
    this.canvas = make("canvas", { role: "img", tabindex: 0 });
    this.grid = make("canvas", { class: "attn-heads", role: "img", tabindex: 0 });
    this.panel = make("div", { class: "attn-numbers", "aria-live": "polite", hidden: "" });
    const beside = make("div", {}, this.panel, this.grid);
    this.stage = make("div", { class: "attn-stage" }, this.canvas, beside);
    if (spec.title) this.root.append(make("div", { class: "attn-title" }, spec.title));
    if (atlas.axes.length) this.root.append(this.sliders.element);
    this.root.append(bar);
    if (this.tiles) this.root.append(this.tiles.element);
    this.root.append(this.read, this.stage);
  }

  makeChoices() {
    const { model, spec, atlas } = this;
    const modes = { map: "map", links: "links" };
    if (atlas.axes.length) modes.heads = atlas.last.name === "head" ? "heads" : "all maps";
    const choices = [
      makeChoice(model, "mode", "view", modes),
      makeChoice(model, "scale", "colours up to", { max: "this map’s max", one: "1" }),
    ];
    if (spec.units.length > 1)
      choices.push(makeChoice(model, "unit", "between", { tokens: "tokens", words: "words" }));
    return choices;
  }

  // A button for every position of the last axis. Links of those that are pressed lie over one
  // another, at most four; the one under the slider is always among them.
  makeTiles() {
    const { model, atlas } = this;
    const { name, labels } = atlas.last;
    const toggle = (position) => {
      if (position === atlas.index[atlas.across]) return;
      const others = this.overlay.filter((other) => other !== position);
      const wasPressed = others.length < this.overlay.length;
      put(model, "overlay", wasPressed ? others : [...others, position].slice(-3));
    };
    const actions = labels.map((label, position) => {
      return [label, `${name} ${label}`, () => toggle(position)];
    });
    const group = makeButtons(`links together with those of ${name}`, actions);
    const buttons = [...group.children];
    group.prepend(make("span", {}, `together with ${name}`));
    const element = make("div", { class: "attn-bar attn-tiles" }, group);
    const update = () => {
      const shown = [atlas.index[atlas.across], ...this.overlay];
      element.hidden = this.mode !== "links";
      buttons.forEach((button, position) => {
        const colour = this.look.hues[shown.indexOf(position)] ?? "transparent";
        button.setAttribute("aria-pressed", shown.includes(position));
        button.style.setProperty("--attn-tile", colour);
      });
    };
    return { element, update };
  }

  // ---- what is shown
  get mode() {
    const mode = this.model.get("mode");
    return mode === "heads" && !this.atlas.axes.length ? "map" : mode;
  }

  get canOverlay() {
    const { last } = this.atlas;
    return last !== undefined && last.labels.length > 1 && last.labels.length <= MOST_OVERLAID;
  }

  // The positions on the last axis whose links lie over those of the map under the sliders.
  get overlay() {
    if (this.mode !== "links" || !this.canOverlay) return [];
    const chosen = this.atlas.index[this.atlas.across];
    return (this.model.get("overlay") ?? []).filter((position) => position !== chosen);
  }

  get showsNumbers() {
    const { mode, numbersOf, opened } = this;
    return numbersOf && opened && mode === "map" && this.model.get("unit") === "tokens";
  }

  // Sizes and colours: `dots` are those of the screen in a pixel, `tall` is the most that a map is.
  readLook() {
    const style = getComputedStyle(this.root);
    const colour = (name) => style.getPropertyValue(`--attn-${name}`).trim();
    const dark = this.root.classList.contains("attn-dark");
    const font = this.model.get("font");
    return {
      dark,
      font,
      dots: window.devicePixelRatio || 1,
      tall: Math.max(0.6 * innerHeight, 24 * font),
      colours: dark ? this.palettes.dark : this.palettes.light,
      background: colour("bg") || "#fff",
      ink: colour("ink"),
      muted: colour("muted"),
      line: colour("line"),
      mark: colour("mark"),
      hues: ["accent", "second", "third", "fourth"].map(colour), // of maps over one another
    };
  }

  // The look with the end of the colours that the reader has chosen, and what else is asked for.
  lookNow(more = {}) {
    return { ...this.look, upToOne: this.model.get("scale") === "one", ...more };
  }

  // The map or the links as a scene.
  mainScene(more = {}) {
    const look = this.lookNow(more);
    const width = Math.max(this.stage.clientWidth, 20 * look.font);
    if (this.mode === "links") return linkScene(this.maps, look, width, this.focus);
    return mapScene(this.map, look, width, this.cursor, this.opened);
  }

  // All maps as a scene, beside the map or the links, or alone.
  overviewScene(besideWidth) {
    const { atlas, sheet, overlay, stage } = this;
    return smallScene(atlas, sheet, this.lookNow(), overlay, stage.clientWidth, besideWidth);
  }

  redraw() {
    if (!this.look) return;
    const { atlas } = this;
    const above = this.overlay.map((position) => [...atlas.index.slice(0, -1), position]);
    this.map = atlas.at(atlas.index);
    this.maps = [this.map, ...above.map((index) => atlas.at(index))];
    this.forgetWhatIsGone();
    this.sliders.update();
    for (const choice of this.choices) choice.update();
    this.tiles?.update();
    this.redrawNumbers();

    const isAlone = this.mode === "heads";
    const besideToo = atlas.smallMaps > BESIDE && !atlas.isSingle;
    this.canvas.hidden = isAlone;
    this.grid.hidden = !this.panel.hidden || !(isAlone || besideToo);
    if (!isAlone) {
      this.scene = this.mainScene();
      paint(this.canvas, this.scene, this.look.dots);
    }
    if (!this.grid.hidden) {
      this.overview = this.overviewScene(isAlone ? 0 : this.scene.width);
      paint(this.grid, this.overview, this.look.dots);
    }
    this.redrawReadout();
  }

  // A shorter text may not have the cell or the token that was pointed at.
  forgetWhatIsGone() {
    const { map, focus } = this;
    const isGone = (cell) => cell && (cell[0] >= map.queries.length || cell[1] >= map.keys.length);
    if (isGone(this.opened)) this.opened = null;
    if (isGone(this.cursor)) this.cursor = null;
    const tokens = focus?.side === "query" ? map.queries : map.keys;
    if (focus && focus.at >= tokens.length) this.focus = null;
  }

  redrawNumbers() {
    this.panel.hidden = !this.showsNumbers;
    if (!this.showsNumbers) {
      this.panel.replaceChildren();
      return;
    }
    const close = make("button", { type: "button", "aria-label": "close the numbers" }, "×");
    close.addEventListener("click", () => {
      this.opened = null;
      this.redraw();
      this.canvas.focus();
    });
    const numbers = this.numbersOf(this.atlas.place(this.atlas.index), ...this.opened);
    this.panel.replaceChildren(close, numbersTable(this.map, this.opened, numbers));
  }

  // The read-out never shrinks, so that it does not move the map while one points.
  redrawReadout() {
    const { read, reserved, look, mode, maps } = this;
    read.replaceChildren(...readout(this));
    const of = [this.root.clientWidth, look.font, mode, maps.length].join();
    if (of !== reserved.of) {
      this.reserved = { of, height: 0 };
      read.style.minHeight = "";
    }
    if (read.offsetHeight > this.reserved.height) {
      this.reserved.height = read.offsetHeight;
      read.style.minHeight = `${read.offsetHeight}px`;
    }
    this.canvas.setAttribute("aria-label", mapLabel(this));
    this.grid.setAttribute("aria-label", smallLabel(this));
  }
}
