// A map as a scene: cells with their weights, labels, the colour bar, and the cell pointed at.

import { clamp } from "./elements.js";
import {
  fitted,
  imageItem,
  labelling,
  lineItem,
  numbered,
  rectItem,
  textItem,
  widthOf,
} from "./drawing.js";
import { colourOf, css, mapPicture, palettePicture, senseOf } from "./colours.js";

const WORDS = 8.8; // where those of a lying scale begin, in the size of the text
const SLANT = Math.PI / 3; // of the labels above the columns
const MOST_RECTANGLES = 4096; // cells that an SVG draws one by one

// Sizes in pixels: `cell` of a cell, margins for labels of these sizes and steps.
function layOutMap(map, look, width) {
  const { font, dots, tall } = look;
  const rows = map.queries.length;
  const columns = map.keys.length;
  const narrow = width < 34 * font;
  const limit = (narrow ? 4.5 : 9) * font; // of the width of a label

  const longest = (tokens, { size, step }) =>
    fitted(tokens, Math.max(size, 0.87 * font), limit).width + (step > 2 ? 2.2 * font : 0);

  function margins(rowLabels, columnLabels, upright) {
    const besides = longest(map.queries, rowLabels);
    const above = longest(map.keys, columnLabels);
    const slanted = above * Math.sin(SLANT) + 0.4 * font;
    // the colour bar, its numbers, and below it the words that say what the colours mean
    const bar = narrow ? 0 : 0.6 * font + widthOf(senseOf(look), 0.8 * font);
    return {
      left: Math.ceil(1.9 * font + besides + 8),
      right: Math.ceil(Math.max(above * Math.cos(SLANT), bar) + 8),
      top: Math.ceil(1.9 * font + (upright ? font : slanted)),
    };
  }

  // A cell of whole dots; where dots are few, all cells of a side take a whole number together.
  function wholeDots(room) {
    const together = room * dots < 4 ? Math.max(rows, columns) : 1;
    return Math.floor(room * together * dots) / (together * dots);
  }

  let rowLabels = { size: font, step: 1 };
  let columnLabels = rowLabels;
  let upright = false; // short labels stand upright
  let margin = margins(rowLabels, columnLabels, upright);
  let cell = 0;
  for (let round = 0; round < 2; round++) {
    // The cells leave room for the labels, and the labels go by the cells.
    const least = clamp(0.8 * rows, 38, 48) * font;
    const height = Math.min(least, tall - margin.top - (narrow ? 2 : 0.6) * font);
    const across = (width - margin.left - margin.right) / columns;
    cell = wholeDots(Math.min(across, height / rows, 4 * font));
    rowLabels = labelling(cell, font);
    columnLabels = labelling(cell * Math.sin(SLANT) * 1.12, font);
    upright = fitted(map.keys, font, limit).width <= cell - 6;
    margin = margins(rowLabels, columnLabels, upright);
  }
  return { ...margin, rows, columns, cell, rowLabels, columnLabels, upright, narrow, limit };
}

function rowLabel(map, look, layout, row, size, fill, bold = false) {
  const { left, top, cell, limit, rowLabels } = layout;
  const text = numbered(fitted(map.queries, size, limit).texts[row], row, rowLabels.step);
  return textItem(text, left - 6, top + (row + 0.5) * cell, size, fill, { anchor: "end", bold });
}

function columnLabel(map, look, layout, column, size, fill, bold = false) {
  const { left, top, cell, limit, columnLabels, upright } = layout;
  const text = numbered(fitted(map.keys, size, limit).texts[column], column, columnLabels.step);
  const x = left + (column + 0.5) * cell;
  if (upright) {
    const above = top - 0.7 * look.font;
    return textItem(text, x, above, size, fill, { anchor: "middle", bold });
  }
  return textItem(text, x, top - 6, size, fill, { turn: -SLANT, bold });
}

// The labels that fit, but none where that of the cell pointed at will stand.
function labelItems(map, look, layout, cursor) {
  const { cell, rows, columns, rowLabels, columnLabels } = layout;
  const { font, ink } = look;
  const isFree = (place, pointed) => {
    if (pointed === undefined) return true;
    const distance = Math.abs(place - pointed) * cell;
    return place !== pointed && distance >= 0.9 * Math.min(font, 11);
  };
  const items = [];
  for (let row = 0; row < rows; row += rowLabels.step)
    if (isFree(row, cursor?.[0])) items.push(rowLabel(map, look, layout, row, rowLabels.size, ink));
  for (let column = 0; column < columns; column += columnLabels.step)
    if (isFree(column, cursor?.[1]))
      items.push(columnLabel(map, look, layout, column, columnLabels.size, ink));
  return items;
}

function axisNameItems(layout, { font, muted }) {
  const { left, top, rows, columns, cell } = layout;
  const turned = { anchor: "middle", turn: -Math.PI / 2 };
  const down = top + (rows * cell) / 2;
  const across = left + (columns * cell) / 2;
  return [
    textItem("destination (query)", 0.8 * font, down, font, muted, turned),
    textItem("source (key)", across, 0.9 * font, font, muted, { anchor: "middle" }),
  ];
}

// The cells: one picture on the screen; in an SVG of a small map, one rectangle each.
function cellItems(map, look, { left, top, rows, columns, cell }) {
  if (look.vector && rows * columns <= MOST_RECTANGLES) {
    const items = [];
    for (let row = 0; row < rows; row++)
      for (let column = 0; column < columns; column++) {
        const fill = css(colourOf(map, map.step(row, column), look));
        items.push(rectItem(left + column * cell, top + row * cell, cell, cell, { fill }));
      }
    return items;
  }
  const dots = Math.round(Math.max(rows, columns) * cell * look.dots);
  const picture = mapPicture(map, look, look.vector ? Infinity : dots);
  return [imageItem(picture, left, top, columns * cell, rows * cell)];
}

// Lines of the background between cells.
function gridItems({ background }, { left, top, rows, columns, cell }) {
  const look = { stroke: background, strokeWidth: 1 };
  const right = left + columns * cell;
  const bottom = top + rows * cell;
  const items = [];
  for (let row = 1; row < rows; row++)
    items.push(lineItem(left, top + row * cell, right, top + row * cell, look));
  for (let column = 1; column < columns; column++)
    items.push(lineItem(left + column * cell, top, left + column * cell, bottom, look));
  return items;
}

// The weights, written in their cells where these are large, in black or white.
function weightItems(map, look, { left, top, rows, columns, cell }) {
  const size = Math.min(0.85 * look.font, 0.36 * cell);
  const items = [];
  for (let row = 0; row < rows; row++)
    for (let column = map.skip; column < columns; column++) {
      const weight = map.weight(row, column);
      if (weight < 0.005) continue;
      const [red, green, blue] = colourOf(map, map.step(row, column), look);
      const isLight = 0.3 * red + 0.59 * green + 0.11 * blue > 128;
      const fill = isLight ? "#14171c" : "#ffffff";
      const x = left + (column + 0.5) * cell;
      const y = top + (row + 0.5) * cell;
      items.push(textItem(weight.toFixed(2), x, y, size, fill, { anchor: "middle" }));
    }
  return items;
}

// What the colours mean, beside the map: from 0 at the bottom to where they end.
function barItems(map, look, layout) {
  const { colours, upToOne, font, ink, muted, line } = look;
  const { left, top, rows, columns, cell } = layout;
  const x = left + columns * cell + font;
  const hasWords = rows * cell > 6 * font;
  const height = clamp(rows * cell - (hasWords ? 1.8 * font : 0), 2 * font, 10 * font);
  const end = String(Number(map.end(upToOne).toPrecision(2)));
  const label = (text, y) => textItem(text, x + 1.4 * font, y, 0.9 * font, ink);
  const items = [
    imageItem(palettePicture(colours), x, top, font, height),
    rectItem(x, top, font, height, { stroke: line, strokeWidth: 1 }),
    label(end, top + 0.5 * font),
    label("0", top + height - 0.4 * font),
  ];
  const size = 0.8 * font;
  const below = top + height + font;
  if (hasWords) items.push(textItem(senseOf(look), x - 0.4 * font, below, size, muted));
  return items;
}

// The same below the map, where it is narrow.
function lyingBarItems(map, look, { left, top, rows, cell }) {
  const { colours, upToOne, font, ink, muted, line } = look;
  const y = top + rows * cell + 0.7 * font;
  const end = String(Number(map.end(upToOne).toPrecision(2)));
  const [x, width, size] = [left + font, 5 * font, 0.85 * font];
  const middle = y + font / 2;
  return [
    imageItem(palettePicture(colours, true), x, y, width, font),
    rectItem(x, y, width, font, { stroke: line, strokeWidth: 1 }),
    textItem("0", x - 0.3 * font, middle, size, ink, { anchor: "end" }),
    textItem(end, x + width + 0.4 * font, middle, size, ink),
    textItem(senseOf(look), left + WORDS * font, middle, size, muted),
  ];
}

// A band over the column of the first token, where it is left out.
function bandItems({ soft, muted, font }, { left, top, rows, cell }) {
  const height = rows * cell;
  const items = [rectItem(left, top, cell, height, { fill: soft })];
  if (cell < font || height < 6 * font) return items;
  const turned = { anchor: "middle", turn: -Math.PI / 2 };
  const [x, y] = [left + cell / 2, top + height / 2];
  return [...items, textItem("left out", x, y, 0.85 * font, muted, turned)];
}

// Marks on the row and the column of the cell pointed at, on the cell, and on both labels.
function cursorItems(map, look, layout, [row, column]) {
  const { left, top, rows, columns, cell, rowLabels, columnLabels } = layout;
  const { font, mark } = look;
  const x = left + column * cell;
  const y = top + row * cell;
  const width = columns * cell;
  const height = rows * cell;
  const labels = [
    rowLabel(map, look, layout, row, Math.max(rowLabels.size, 0.87 * font), mark, true),
    columnLabel(map, look, layout, column, Math.max(columnLabels.size, 0.87 * font), mark, true),
  ];
  if (cell < 5) {
    const thin = { stroke: mark, strokeWidth: 1, alpha: 0.5 };
    return [
      lineItem(left, y + cell / 2, left + width, y + cell / 2, thin),
      lineItem(x + cell / 2, top, x + cell / 2, top + height, thin),
      rectItem(x - 3, y - 3, cell + 6, cell + 6, { stroke: mark, strokeWidth: 2 }),
      ...labels,
    ];
  }
  const thin = { stroke: mark, strokeWidth: 1, alpha: 0.55 };
  return [
    rectItem(left, y, width, cell, thin),
    rectItem(x, top, cell, height, thin),
    rectItem(x - 1, y - 1, cell + 2, cell + 2, { stroke: mark, strokeWidth: 2.5 }),
    ...labels,
  ];
}

// A frame around the cell whose numbers are shown.
function openedItem({ mark }, { left, top, cell }, [row, column]) {
  const x = left + column * cell - 2;
  const y = top + row * cell - 2;
  return rectItem(x, y, cell + 4, cell + 4, { stroke: mark, strokeWidth: 4 });
}

// The scene of a map; `cursor` and `opened` are the cells pointed at and opened, or null.
// The scene's `at` finds the cell at a place.
export function mapScene(map, look, width, cursor, opened) {
  const layout = layOutMap(map, look, width);
  const { left, right, top, rows, columns, cell, narrow } = layout;
  const w = columns * cell;
  const h = rows * cell;
  const items = [
    ...axisNameItems(layout, look),
    ...labelItems(map, look, layout, cursor),
    ...cellItems(map, look, layout),
  ];
  if (cell >= 9) items.push(...gridItems(look, layout));
  if (cell >= 2 * look.font) items.push(...weightItems(map, look, layout));
  if (map.skip) items.push(...bandItems(look, layout));
  items.push(rectItem(left - 0.5, top - 0.5, w + 1, h + 1, { stroke: look.line, strokeWidth: 1 }));
  items.push(...(narrow ? lyingBarItems : barItems)(map, look, layout));
  if (cursor) items.push(...cursorItems(map, look, layout, cursor));
  if (opened) items.push(openedItem(look, layout, opened));

  function at(x, y) {
    const row = Math.floor((y - top) / cell);
    const column = Math.floor((x - left) / cell);
    const inside = row >= 0 && column >= 0 && row < rows && column < columns;
    return inside ? [row, column] : null;
  }
  const height = top + h + Math.ceil((narrow ? 2 : 0.6) * look.font);
  const words = WORDS * look.font + widthOf(senseOf(look), 0.85 * look.font) + 2;
  const total = left + (narrow ? Math.max(w + right, words) : w + right);
  return { items, width: total, height, background: look.background, at };
}
