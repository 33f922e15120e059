// The attention view: the map, the links or all maps at the place where the sliders stand.
// `redraw` draws all of it from the model's state and from what the reader points at.

import {
  clamp,
  isTouched,
  listen,
  make,
  makeButton,
  makeButtons,
  makeChoice,
  makeFontButtons,
  makeRoot,
  makeSliders,
  put,
} from "./elements.js";
import { Atlas, openNumbers, strongest } from "./data.js";
import { paint } from "./drawing.js";
import { ramp } from "./colours.js";
import { mapScene } from "./map_scene.js";
import { linkScene } from "./link_scene.js";
import { Sheet, fitSmall, smallScene } from "./small_maps.js";
import { aboutFirst, mapLabel, readout, smallLabel } from "./readout.js";
import { numbersTable } from "./numbers_table.js";
import { listenToMap, listenToSmallMaps } from "./input.js";
import { downloadPng, downloadSvg } from "./download.js";

const BESIDE = 12; // more small maps than these stand beside the one shown, or below it
const MOST_OVERLAID = 16; // positions on an axis whose links may lie over one another

export class AttentionFace {
  constructor(model, el, spec, blob) {
    this.model = model;
    this.spec = spec;
    this.atlas = new Atlas(spec, blob, model);
    this.sheet = new Sheet(this.atlas);
    this.special = new RegExp(spec.special);
    this.numbersOf = spec.numbers ? openNumbers(spec.numbers, spec.units[0], blob) : null;
    this.palettes = { light: ramp(spec.palette.light), dark: ramp(spec.palette.dark) };
    this.look = null; // sizes and colours, as the page has them now
    this.cursor = null; // the cell of the map that is pointed at, [row, column]
    this.focus = null; // the token of the links that is pointed at, { side, at }
    this.opened = spec.opened; // the cell whose numbers are shown
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
    const names = ["index", "overlay", "mode", "scale", "sink", "unit", "_shown"];
    const handlers = Object.fromEntries(names.map((name) => [name, redraw]));
    this.unlisten = listen(model, { ...handlers, font: this.surface.style });
    this.surface.style();
  }

  stop() {
    this.unlisten();
    this.sliders.stop();
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
    const groups = this.choices.flatMap((choice) => choice.element ?? []);
    const colours = groups.pop();
    const bar = make("div", { class: "attn-bar" }, ...groups);
    const foot = make(
      "div",
      { class: "attn-bar attn-foot" },
      colours,
      makeButtons("download", downloads, "attn-push"),
      makeFontButtons(model),
    );
    this.read = make("div", { class: "attn-read", "aria-live": "polite" });
    this.canvas = make("canvas", { role: "img", tabindex: 0 });
    this.grid = make("canvas", { class: "attn-heads", role: "img", tabindex: 0 });
    this.panel = make("div", { class: "attn-numbers", "aria-live": "polite", hidden: "" });
    this.invitation = this.makeInvitation();
    const beside = make("div", {}, this.panel, this.grid);
    this.stage = make("div", { class: "attn-stage" }, this.canvas, beside);
    if (spec.title) this.root.append(make("div", { class: "attn-title" }, spec.title));
    if (atlas.axes.length) this.root.append(this.sliders.element);
    this.root.append(bar);
    if (this.tiles) this.root.append(this.tiles.element);
    this.root.append(this.read, this.invitation, this.stage, foot);
  }

  makeChoices() {
    const { model, spec, atlas } = this;
    const modes = { map: "map", links: "links" };
    if (atlas.axes.length) modes.heads = atlas.last.name === "head" ? "heads" : "all maps";
    const choices = [makeChoice(model, "mode", "view", modes)];
    if (spec.units.length > 1)
      choices.push(makeChoice(model, "unit", "between", { tokens: "tokens", words: "words" }));
    if (atlas.hasSink) {
      const first = makeChoice(model, "sink", "first token", { out: "left out", shown: "shown" });
      const share = make("span", { class: "attn-share" });
      first.element.append(share);
      choices.push(first, { update: () => (share.textContent = aboutFirst(this)) });
    }
    const ends = { max: "this map’s max", one: "1" };
    choices.push(makeChoice(model, "scale", "colours up to", ends));
    return choices;
  }

  // What a click on a cell shows, offered by a button.
  makeInvitation() {
    const text = "Where does a weight come from? q · k, √d_k, softmax, line by line";
    const button = makeButton(text, () => {
      this.opened = this.cursor ?? strongest(this.map, this.special).cell ?? [0, 0];
      this.redraw();
      this.canvas.focus();
    });
    const advice = isTouched() ? "touch a cell" : "click a cell";
    return make("div", { class: "attn-invitation" }, button, ` (or ${advice})`);
  }

  // A button for every position of the last axis. Links of those that are pressed lie over one
  // another, at most four; the one under the slider is always among them.
  makeTiles() {
    const { model, atlas } = this;
    const { name, labels } = atlas.last;
    const toggle = (position) => {
      if (position === atlas.index.at(-1)) return;
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
      const shown = [atlas.index.at(-1), ...this.overlay];
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
    const chosen = this.atlas.index.at(-1);
    return this.model.get("overlay").filter((position) => position !== chosen);
  }

  get canShowNumbers() {
    return this.numbersOf && this.mode === "map" && this.model.get("unit") === "tokens";
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
      tall: Math.max(0.57 * innerHeight, 24 * font),
      colours: dark ? this.palettes.dark : this.palettes.light,
      background: colour("bg") || "#fff",
      ink: colour("ink"),
      muted: colour("muted"),
      line: colour("line"),
      soft: colour("soft"),
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
    const areBeside = !this.panel.hidden && this.stage.clientWidth >= 38 * look.font;
    const numbers = areBeside ? 22 * look.font : 0;
    const width = Math.max(this.stage.clientWidth - numbers, 20 * look.font);
    if (this.mode === "links") return linkScene(this.maps, look, width, this.focus);
    return mapScene(this.map, look, width, this.cursor, this.opened);
  }

  // All maps as a scene, as large as they are alone, or in the room that the map leaves.
  overviewScene(layout = fitSmall(this.atlas, this.look, this.roomFor("alone"))) {
    return smallScene(this.atlas, this.sheet, this.lookNow(), this.overlay, layout);
  }

  // The room of all small maps: alone, beside the map or the links, or below them.
  roomFor(place) {
    const { font, tall } = this.look;
    const width = this.stage.clientWidth;
    if (place === "alone") return { width, height: tall, largest: 6 * font };
    if (place === "below") return { width, height: 0.45 * tall, largest: 1.8 * font };
    const left = width - this.scene.width - 2 * font;
    return { width: left, height: this.scene.height, largest: 1.8 * font };
  }

  // The map with all small maps beside it; where they would be much smaller there than below it,
  // they stand below, and the map leaves them enough of the window.
  drawBoth() {
    const { atlas, look } = this;
    const { font } = look;
    this.scene = this.mainScene();
    const below = fitSmall(atlas, look, this.roomFor("below"));
    const beside = fitSmall(atlas, look, this.roomFor("beside"));
    if (beside.room >= 0.7 * below.size) {
      this.overview = this.overviewScene(beside);
      return;
    }
    atlas.turn(below.isTurned);
    this.overview = this.overviewScene(below);
    const above = this.read.getBoundingClientRect().top - this.root.getBoundingClientRect().top;
    const left = 0.95 * innerHeight - above - 4 * font - this.overview.height;
    this.scene = this.mainScene({ tall: clamp(left, 16 * font, look.tall) });
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
    const hasRoom = getComputedStyle(this.grid.parentElement).display !== "none"; // not on a slide
    const besideToo = atlas.smallMaps > BESIDE && !atlas.isSingle && hasRoom;
    this.canvas.hidden = isAlone;
    this.grid.hidden = !this.panel.hidden || !(isAlone || besideToo);
    if (isAlone) this.overview = this.overviewScene();
    else if (this.grid.hidden) this.scene = this.mainScene();
    else this.drawBoth();
    if (!isAlone) paint(this.canvas, this.scene, this.look.dots);
    if (!this.grid.hidden) paint(this.grid, this.overview, this.look.dots);
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
    this.panel.hidden = !this.canShowNumbers || !this.opened;
    this.invitation.hidden = !this.canShowNumbers || Boolean(this.opened);
    if (this.panel.hidden) {
      this.panel.replaceChildren();
      return;
    }
    const shut = () => {
      this.opened = null;
      this.redraw();
      this.canvas.focus();
    };
    const close = makeButton("×", shut, { "aria-label": "close the numbers" });
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
