// Pointer, touch and keyboard, on the map and the links, and on the small maps.

import { clamp, put } from "./elements.js";

const STEPS = {
  ArrowLeft: { down: 0, right: -1 },
  ArrowRight: { down: 0, right: 1 },
  ArrowUp: { down: -1, right: 0 },
  ArrowDown: { down: 1, right: 0 },
};

const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// Point at what is under the pointer: a token of the links, or a cell of the map.
function point(face, event) {
  const { left, top } = face.canvas.getBoundingClientRect();
  const hit = face.scene?.at(event.clientX - left, event.clientY - top) ?? null;
  const name = face.mode === "links" ? "focus" : "cursor";
  if (isSame(hit, face[name])) return;
  face[name] = hit;
  face.redraw();
}

function pointAtNothing(face) {
  face.cursor = null;
  face.focus = null;
}

// Show the numbers behind the cell pointed at, or, if they are shown, close them.
function openNumbersOfCell(face, event) {
  if (!face.numbersOf || !face.cursor) return;
  if (face.mode !== "map" || face.model.get("unit") !== "tokens") return;
  event.preventDefault();
  face.opened = isSame(face.opened, face.cursor) ? null : face.cursor;
  face.redraw();
  if (face.opened) face.panel.scrollIntoView({ block: "nearest" });
}

// Escape closes the numbers first, and then leaves the view.
function leave(face) {
  if (!face.opened) {
    pointAtNothing(face);
    face.canvas.blur();
  }
  face.opened = null;
  face.redraw();
}

// Up and down move along one side of the links; left and right go to the other side.
function moveFocus({ map, focus }, { down, right }) {
  const sides = { [-1]: "query", 0: focus?.side ?? "query", 1: "key" };
  const side = sides[right];
  const tokens = side === "query" ? map.queries : map.keys;
  return { side, at: focus ? clamp(focus.at + down, 0, tokens.length - 1) : 0 };
}

function moveCursor({ map, cursor }, { down, right }) {
  if (!cursor) return [0, 0];
  const row = clamp(cursor[0] + down, 0, map.queries.length - 1);
  const column = clamp(cursor[1] + right, 0, map.keys.length - 1);
  return [row, column];
}

export function listenToMap(face) {
  const { canvas } = face;
  canvas.addEventListener("pointermove", (event) => point(face, event));
  canvas.addEventListener("pointerdown", (event) => point(face, event));
  canvas.addEventListener("click", (event) => {
    point(face, event); // a finger has left the canvas by now
    openNumbersOfCell(face, event);
  });
  canvas.addEventListener("pointerleave", () => {
    pointAtNothing(face);
    face.redraw();
  });
  canvas.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (event.key === "Enter") openNumbersOfCell(face, event);
    if (event.key === "Escape") leave(face);
    if (!step) return;
    event.preventDefault();
    if (face.mode === "links") face.focus = moveFocus(face, step);
    else face.cursor = moveCursor(face, step);
    face.redraw();
  });
}

// The small map that is a step from the chosen one, or null where there is none.
function nextSmallMap({ chosen, columns, smallMaps }, { down, right }) {
  const row = Math.floor(chosen / columns) + down;
  const column = (chosen % columns) + right;
  const next = row * columns + column;
  const exists = row >= 0 && column >= 0 && column < columns && next < smallMaps;
  return exists ? next : null;
}

export function listenToSmallMaps(face) {
  const { grid, atlas, model } = face;
  const choose = (number) => {
    if (number !== null) put(model, "index", atlas.indexOfSmall(number));
  };
  const openMap = () => {
    if (face.mode === "heads") put(model, "mode", "map");
  };
  const pointed = (event) => face.overview.at(event.offsetX, event.offsetY);

  grid.addEventListener("pointermove", (event) => {
    const number = pointed(event);
    grid.title = number === null ? "" : atlas.where(atlas.indexOfSmall(number));
    grid.style.cursor = number === null ? "" : "pointer";
  });
  grid.addEventListener("click", (event) => {
    const number = pointed(event);
    if (number === null) return;
    choose(number);
    openMap();
  });
  grid.addEventListener("keydown", (event) => {
    if (event.key === "Enter") openMap();
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    choose(nextSmallMap(atlas, step));
  });
}
