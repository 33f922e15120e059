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
    const place = [atlas.indexOfSmall(0), atlas.model.get("unit")];
    const drawn = JSON.stringify([place, look.upToOne, look.dark, side]);
    if (drawn !== this.drawn) {
      this.drawn = drawn;
      this.picture = this.draw(side, look);
    }
    return this.picture;
  }

  draw(side, look) {
    const { columns, smallMaps } = this.atlas;
    const height = Math.ceil(smallMaps / columns) * side;
    const picture = make("canvas", { width: columns * side, height });
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

// How large one small map is, in pixels: beside the map, or alone and larger.
function sizeOfSmall(atlas, look, { rows, left, top, stageWidth, besideWidth }) {
  const { font, tall } = look;
  const isAlone = besideWidth === 0;
  const whole = stageWidth - left - font;
  const beside = isAlone ? whole : whole - besideWidth - 2 * font;
  const room = (beside >= atlas.columns * font ? beside : whole) / atlas.columns;
  const fit = Math.min(room, (tall - top) / rows);
  const wished = isAlone ? Math.min(room, Math.max(fit, 3.2 * font)) : fit;
  return Math.floor(clamp(wished, font, (isAlone ? 6 : 1.8) * font));
}

// The names of the rows and of the columns, each a list of labels; of a single axis there are none.
function namesOf({ isSingle, axes, across, down }) {
  if (isSingle) return { corner: axes[0].name, rowNames: [], columnNames: [] };
  return {
    corner: `${axes[down].name} ↓  ${axes[across].name} →`,
    rowNames: axes[down].labels,
    columnNames: axes[across].labels,
  };
}

function frameItem(column, row, size, { left, top }, stroke) {
  const x = left + column * size - 1;
  const y = top + row * size - 1;
  return rectItem(x, y, size, size, { stroke, strokeWidth: 3 });
}

// The scene of all small maps, the chosen one framed, and those of `overlay`, positions on the last
// axis, too. The map that they stand beside takes `besideWidth` pixels, 0 if there is none.
// The scene's `at` finds the number of the small map at a place.
export function smallScene(atlas, sheet, look, overlay, stageWidth, besideWidth) {
  const { columns, smallMaps, chosen } = atlas;
  const { font, muted, mark, hues, background } = look;
  const { corner, rowNames, columnNames } = namesOf(atlas);
  const small = 0.8 * font;
  const rows = Math.ceil(smallMaps / columns);
  const rowLabels = fitted(rowNames, small, 7 * font);
  const left = atlas.isSingle ? 4 : Math.ceil(rowLabels.width + font);
  const top = (atlas.isSingle ? 1.4 : 2.6) * font;
  const layout = { rows, left, top, stageWidth, besideWidth };
  const size = sizeOfSmall(atlas, look, layout);

  const items = [textItem(corner, 2, 0.7 * font, small, muted)];
  fitted(columnNames, small, size).texts.forEach((text, column) => {
    const x = left + (column + 0.5) * size;
    items.push(textItem(text, x, 2 * font, small, muted, { anchor: "middle" }));
  });
  rowLabels.texts.forEach((text, row) => {
    const y = top + (row + 0.5) * size;
    items.push(textItem(text, left - 5, y, small, muted, { anchor: "end" }));
  });
  items.push(imageItem(sheet.of(size, look), left, top, columns * size, rows * size));
  const row = Math.floor(chosen / columns);
  const colour = overlay.length ? hues[0] : mark;
  items.push(frameItem(chosen % columns, row, size, layout, colour));
  overlay.forEach((position, number) => {
    const place = atlas.isSingle ? position : row * columns + position;
    const [x, y] = [place % columns, Math.floor(place / columns)];
    items.push(frameItem(x, y, size, layout, hues[number + 1]));
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
