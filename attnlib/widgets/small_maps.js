// The small pictures of all maps of the last two axes, to choose one from.

import { clamp, make } from "./elements.js";
import { fitted, imageItem, rectItem, textItem, widthOf } from "./drawing.js";
import { mapPicture } from "./colours.js";

// All small maps in one picture, drawn anew when anything but the choice among them changes.
export class Sheet {
  constructor(atlas) {
    this.atlas = atlas;
    this.drawn = ""; // what the picture was drawn of
    this.picture = null;
  }

  // The picture; each map has a square of so many pixels.
  of(size, look) {
    const { atlas } = this;
    const side = Math.round(size * look.dots);
    const chosen = ["unit", "sink"].map((name) => atlas.model.get(name));
    const place = [atlas.indexOfSmall(0), atlas.isTurned, ...chosen];
    const drawn = JSON.stringify([place, look.upToOne, look.dark, side]);
    if (drawn !== this.drawn) {
      this.drawn = drawn;
      this.picture = this.draw(side, look);
    }
    return this.picture;
  }

  draw(side, look) {
    const { columns, rows, smallMaps } = this.atlas;
    const picture = make("canvas", { width: columns * side, height: rows * side });
    const context = picture.getContext("2d");
    context.imageSmoothingEnabled = false;
    const inner = side - (side > 40 ? 4 : 2);
    for (let number = 0; number < smallMaps; number++) {
      const x = (number % columns) * side;
      const y = Math.floor(number / columns) * side;
      const map = this.atlas.at(this.atlas.indexOfSmall(number));
      context.fillStyle = look.line;
      context.fillRect(x, y, inner + 2, inner + 2);
      context.drawImage(mapPicture(map, look, inner), x + 1, y + 1, inner, inner);
    }
    return picture;
  }
}

// The names of the rows and of the columns, each a list of labels; of a single axis there are none.
function namesOf({ isSingle, axes, across, down }) {
  if (isSingle) return { corner: axes[0].name, rowNames: [], columnNames: [] };
  return {
    corner: `${axes[across].name} →  ${axes[down].name} ↓`,
    rowNames: axes[down].labels,
    columnNames: axes[across].labels,
  };
}

// Sizes in pixels, with the axes as the atlas has them now; `size` is that of one small map.
function layOutSmall(atlas, { font }, { width, height, largest }) {
  const { corner, rowNames, columnNames } = namesOf(atlas);
  const small = 0.8 * font;
  const rowLabels = fitted(rowNames, small, 7 * font);
  const left = atlas.isSingle ? 4 : Math.ceil(rowLabels.width + font);
  const top = (atlas.isSingle ? 1.4 : 2.6) * font;
  const room = Math.min((width - left - 6) / atlas.columns, (height - top - 3) / atlas.rows);
  const size = Math.floor(clamp(room, 0.5 * font, largest));
  return { corner, columnNames, small, rowLabels, left, top, size, room };
}

// Let the longer axis run across, unless the small maps are much larger in this room if it runs
// down.
export function fitSmall(atlas, look, room) {
  const isLonger = !atlas.isSingle && atlas.sizes.at(-2) > atlas.sizes.at(-1);
  const layouts = [isLonger, ...(atlas.isSingle ? [] : [!isLonger])].map((isTurned) => {
    atlas.turn(isTurned);
    return { isTurned, ...layOutSmall(atlas, look, room) };
  });
  const best = layouts.reduce((one, other) => (other.size > 1.5 * one.size ? other : one));
  atlas.turn(best.isTurned);
  return best;
}

// Every how many labels one is written, so that none meets the next.
const everyOf = (room, size) => [1, 2, 5, 10, 20].find((every) => every * size >= room) ?? 50;

function frameItem(column, row, { left, top, size }, stroke) {
  const x = left + column * size - 1;
  const y = top + row * size - 1;
  return rectItem(x, y, size, size, { stroke, strokeWidth: 3 });
}

// The scene of all small maps as `fitSmall` laid them out, the chosen one framed, and those of
// `overlay`, positions on the last axis, too. The scene's `at` finds the small map at a place.
export function smallScene(atlas, sheet, look, overlay, layout) {
  const { columns, rows, smallMaps, chosen, index } = atlas;
  const { font, muted, mark, hues, background } = look;
  const { corner, columnNames, small, rowLabels, left, top, size } = layout;

  const items = [textItem(corner, 2, 0.7 * font, small, muted)];
  const names = fitted(columnNames, small, 4 * font);
  const everyColumn = everyOf(names.width + 4, size);
  names.texts.forEach((text, column) => {
    if (column % everyColumn) return;
    const x = left + (column + 0.5) * size;
    items.push(textItem(text, x, 2 * font, small, muted, { anchor: "middle" }));
  });
  const everyRow = everyOf(small, size);
  rowLabels.texts.forEach((text, row) => {
    if (row % everyRow) return;
    const y = top + (row + 0.5) * size;
    items.push(textItem(text, left - 5, y, small, muted, { anchor: "end" }));
  });
  items.push(imageItem(sheet.of(size, look), left, top, columns * size, rows * size));
  const frame = (number, colour) => {
    items.push(frameItem(number % columns, Math.floor(number / columns), layout, colour));
  };
  frame(chosen, overlay.length ? hues[0] : mark);
  overlay.forEach((position, number) => {
    frame(atlas.numberOf([...index.slice(0, -1), position]), hues[number + 1]);
  });

  function at(x, y) {
    const column = Math.floor((x - left) / size);
    const line = Math.floor((y - top) / size);
    const number = line * columns + column;
    const inside = column >= 0 && line >= 0 && column < columns && number < smallMaps;
    return inside ? number : null;
  }
  const width = left + Math.max(columns * size, widthOf(corner, small)) + 6;
  return { items, width, height: top + rows * size + 3, background, at };
}
