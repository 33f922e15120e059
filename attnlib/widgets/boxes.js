// Layers by places, a box for each. Layers run along; in a view as narrow as a phone they run down,
// so that a finger hits a box.

import { clamp, make } from "./elements.js";

const BOX_STEPS = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

// A grid of elements; `attributesOf([layer, place])` are those of each. `at` finds one, `numberOf`
// is its place in `boxes`, and `placeOf` tells where one of them is.
export function makeBoxes(tag, caption, layers, places, attributesOf) {
  const element = make("div", { class: "attn-boxes", "aria-label": caption });
  element.style.setProperty("--layers", layers);
  element.style.setProperty("--places", places);
  const boxes = [];
  for (let layer = 0; layer < layers; layer++) {
    for (let place = 0; place < places; place++) {
      const style = `--layer: ${layer + 1}; --place: ${place + 1}`;
      const box = make(tag, { style, class: "attn-box", ...attributesOf([layer, place]) });
      boxes.push(box);
      element.append(box);
    }
  }
  const numberOf = ([layer, place]) => layer * places + place;
  const placeOf = (number) => [Math.floor(number / places), number % places];
  return { element, boxes, layers, numberOf, placeOf, at: (place) => boxes[numberOf(place)] };
}

// The numbers of layers and the names of places along the edges of a grid.
export function nameBoxes({ element, layers }, names) {
  for (let layer = 0; layer < layers; layer += 5) {
    const style = `--layer: ${layer + 1}`;
    element.append(make("span", { class: "attn-tick", "aria-hidden": "true", style }, `${layer}`));
  }
  names.forEach((name, place) => {
    const style = `--place: ${place + 1}`;
    element.append(make("span", { class: "attn-place", "aria-hidden": "true", style }, name));
  });
}

// A grid whose boxes are buttons: arrow keys move among them, and one of them is reached by Tab.
export function makeBoxButtons(caption, layers, places, labelOf, { looked, picked }) {
  const attributesOf = (place) => ({ type: "button", tabindex: -1, "aria-label": labelOf(place) });
  const grid = makeBoxes("button", caption, layers, places, attributesOf);
  grid.element.setAttribute("role", "group");
  let here = [0, 0];
  let shown = null;
  const look = (place) => {
    grid.at(here).tabIndex = -1;
    here = place;
    shown = grid.at(here);
    grid.at(here).tabIndex = 0;
    looked(here);
  };
  grid.boxes.forEach((box, number) => {
    const place = grid.placeOf(number);
    box.addEventListener("pointermove", () => {
      if (shown !== box) look(place); // not if a box comes under a pointer that rests
    });
    box.addEventListener("focus", () => look(place));
    box.addEventListener("click", () => picked(place));
  });
  grid.element.addEventListener("keydown", (event) => {
    const step = BOX_STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const areDown = grid.element.closest(".attn-phone");
    const [along, across] = areDown ? [step[1], step[0]] : step;
    const next = [clamp(here[0] + along, 0, layers - 1), clamp(here[1] + across, 0, places - 1)];
    grid.at(next).focus();
  });
  grid.at(here).tabIndex = 0;
  return grid;
}
