// Frames that Python prepared, texts or pictures, under sliders.

import { listen, make, makeFontButtons, makeRoot, makeSliders } from "./elements.js";

export class FramesFace {
  constructor(model, el, spec, blob) {
    this.model = model;
    this.frames = spec.frames;
    this.sizes = spec.axes.map((axis) => axis.labels.length);
    this.blob = blob;
    this.addresses = new Map(); // of the pictures that have been shown, by their place

    const label = spec.axes.map((axis) => axis.name).join(" and ");
    this.surface = makeRoot(model, el, label, () => {});
    this.sliders = makeSliders(model, spec.axes);
    this.text = make("pre", { class: "attn-text" });
    this.image = make("img");
    this.frame = make("div", { class: "attn-frame", "aria-live": "polite" });
    this.image.addEventListener("load", () => { // a picture that moves sideways: by keys, too
      this.frame.tabIndex = this.frame.scrollWidth > this.frame.clientWidth ? 0 : -1;
    });
    this.surface.root.append(this.sliders.element, this.frame);
    if (spec.frames.some((frame) => frame.text !== undefined))
      this.surface.root.append(make("div", { class: "attn-bar" }, makeFontButtons(model)));

    this.unlisten = listen(model, { index: () => this.redraw(), font: this.surface.style });
    this.surface.style();
    this.redraw();
  }

  stop() {
    this.unlisten();
    this.sliders.stop();
    this.surface.stop();
    for (const address of this.addresses.values()) URL.revokeObjectURL(address);
  }

  addressOf(place) {
    if (!this.addresses.has(place)) {
      const [start, length] = this.frames[place].png;
      const picture = new Blob([this.blob.slice(start, start + length)], { type: "image/png" });
      this.addresses.set(place, URL.createObjectURL(picture));
    }
    return this.addresses.get(place);
  }

  redraw() {
    const index = this.model.get("index");
    const place = index.reduce((before, at, axis) => before * this.sizes[axis] + at, 0);
    const { text, alt } = this.frames[place];
    this.sliders.update();
    if (text !== undefined) {
      this.text.textContent = text;
      this.frame.replaceChildren(this.text);
      return;
    }
    this.image.src = this.addressOf(place);
    this.image.alt = alt;
    this.frame.replaceChildren(this.image);
  }
}
