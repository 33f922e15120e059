// The bytes that Python packed (payload.py) as maps, and the numbers behind their weights.

import { clamp } from "./elements.js";
import { weightInWords } from "./numerals.js";

// A synchronised name of the model as bytes: a DataView with a kernel, an array without.
export function bytesOf(model, name) {
  const view = model.get(name);
  if (!view) return new Uint8Array(0);
  return new Uint8Array(view.buffer ?? view, view.byteOffset ?? 0, view.byteLength);
}

export async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Numbers that start at a byte of any number: they are copied, so that they are aligned.
const cutOut = (bytes, [start, length]) => bytes.slice(start, start + length).buffer;
const floats = (bytes, where) => new Float32Array(cutOut(bytes, where));

// One map of weights, cropped to its tokens. A cell holds its step: 255 is the largest weight.
class AttentionMap {
  constructor(steps, largest, unit, text, readExact) {
    Object.assign(this, { steps, largest, readExact });
    this.stride = unit.cols; // cells from one row to the next
    this.queries = unit.queries[text];
    this.keys = unit.keys[text];
  }

  step(row, column) {
    return this.steps[row * this.stride + column];
  }

  row(row) {
    const start = row * this.stride;
    return this.steps.subarray(start, start + this.keys.length);
  }

  // The exact weights, or null where only steps are known; read when first asked for.
  exact() {
    if (this.known === undefined) this.known = this.readExact();
    return this.known;
  }

  weight(row, column) {
    const exact = this.exact();
    if (exact) return exact[row * this.stride + column];
    return (this.step(row, column) * this.largest) / 255;
  }

  // A weight as it is read out: of a step no more digits than it knows.
  say(row, column) {
    const weight = this.weight(row, column);
    if (this.exact()) return weightInWords(weight);
    const error = this.largest / 510;
    const digits = clamp(Math.ceil(-Math.log10(error)), 0, 20);
    return `≈ ${weightInWords(Number(weight.toFixed(digits)))}`;
  }

  // Where the colours end: at 1, or at this map's largest weight.
  end(upToOne) {
    return (upToOne ? 1 : this.largest) || 1;
  }

  // A step as a share of where the colours end.
  share(step, upToOne) {
    return clamp((step * (upToOne ? this.largest : 1)) / 255, 0, 1);
  }
}

// The exact weights of one map, if it is the one that the kernel last sent.
function sentWeights(model, unitNumber, place) {
  const sent = bytesOf(model, "_shown");
  if (sent.length < 8) return null;
  const head = new DataView(sent.buffer, sent.byteOffset, 8);
  if (head.getInt32(0, true) !== unitNumber || head.getInt32(4, true) !== place) return null;
  return floats(sent, [8, sent.length - 8]);
}

// All maps of one unit, tokens or words; what it returns gives the map at a place, of a text.
function openUnit(unit, unitNumber, blob, model) {
  const largest = floats(blob, unit.scales);
  const size = unit.rows * unit.cols;
  const steps = blob.subarray(unit.maps[0], unit.maps[0] + unit.maps[1]);
  const exact = unit.exact ? floats(blob, unit.exact) : null;
  return (place, text) => {
    const part = (all) => all.subarray(place * size, (place + 1) * size);
    const readExact = () => (exact ? part(exact) : sentWeights(model, unitNumber, place));
    return new AttentionMap(part(steps), largest[place], unit, text, readExact);
  };
}

// All maps of a view, and where each of them is. The last two axes are those of the small maps:
// one row for every position of the first of them. A single axis is broken into rows of twelve.
export class Atlas {
  constructor(spec, blob, model) {
    this.model = model;
    this.axes = spec.axes;
    this.sizes = spec.axes.map((axis) => axis.labels.length);
    this.texts = spec.texts; // the number of the text of every block of maps that share theirs
    this.count = this.sizes.reduce((product, size) => product * size, 1);
    this.units = new Map(
      spec.units.map((unit, number) => [unit.name, openUnit(unit, number, blob, model)]),
    );
    this.across = this.axes.length - 1; // the axes of the small maps
    this.down = this.axes.length - 2;
    this.last = this.axes[this.across];
    this.isSingle = this.axes.length === 1;
    const [rows, columns] = [1, 1, ...this.sizes].slice(-2);
    this.columns = this.isSingle ? Math.min(columns, 12) : columns;
    this.smallMaps = this.axes.length ? rows * columns : 0;
  }

  get index() {
    return this.model.get("index");
  }

  // The number of the map at an index, counted row by row.
  place(index) {
    return index.reduce((place, at, axis) => place * this.sizes[axis] + at, 0);
  }

  at(index) {
    const place = this.place(index);
    const text = this.texts[Math.floor((place * this.texts.length) / this.count)];
    return this.units.get(this.model.get("unit"))(place, text);
  }

  // An index in words, such as "layer 2 · head 5"; `axes`: of how many of the axes.
  where(index, between = " · ", axes = this.axes.length) {
    const shown = this.axes.slice(0, Math.max(axes, 0));
    return shown.map(({ name, labels }, axis) => `${name} ${labels[index[axis]]}`).join(between);
  }

  // The index of a small map, and the number of the one that is chosen.
  indexOfSmall(number) {
    if (this.isSingle) return [number];
    const row = Math.floor(number / this.columns);
    return [...this.index.slice(0, this.down), row, number % this.columns];
  }

  get chosen() {
    const { index } = this;
    return this.isSingle ? index[0] : index[this.down] * this.columns + index[this.across];
  }
}

// A number in half precision, given its sixteen bits.
function half(bits) {
  const sign = bits >> 15 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (!exponent) return sign * 2 ** -24 * fraction;
  return sign * 2 ** (exponent - 15) * (1 + fraction / 1024);
}

// The queries and keys behind the weights between tokens; what it returns gives, for one cell, the
// terms of q·k, the largest first, and all that turns their sum into a weight.
export function openNumbers({ queries, keys, rows, width, bytes }, unit, blob) {
  const vectors = (where) => {
    if (bytes === 4) return floats(blob, where);
    return Float32Array.from(new Uint16Array(cutOut(blob, where)), half);
  };
  let opened; // unpacked when first asked for
  return (place, row, column) => {
    opened ??= { q: vectors(queries), k: vectors(keys), sums: floats(blob, rows) };
    const { q, k, sums } = opened;
    const fromRow = place * unit.rows + row;
    const fromColumn = place * unit.cols + column;
    const terms = Array.from({ length: width }, (_, dimension) => {
      const query = q[fromRow * width + dimension];
      const key = k[fromColumn * width + dimension];
      return { dimension, query, key, product: query * key };
    });
    terms.sort((a, b) => Math.abs(b.product) - Math.abs(a.product));
    const product = terms.reduce((sum, term) => sum + term.product, 0);
    const score = product / Math.sqrt(width);
    const [largest, total] = sums.subarray(2 * fromRow, 2 * fromRow + 2);
    return { terms, product, score, width, largest, power: Math.exp(score - largest), total };
  };
}

// Whether no query of a map looks ahead.
function isCausal(map) {
  const size = map.queries.length;
  if (size !== map.keys.length) return false;
  for (let row = 0; row < size; row++)
    for (let column = row + 1; column < size; column++) if (map.step(row, column)) return false;
  return true;
}

// The cell of the largest weight, of the rows and columns that are not skipped; null if all are 0.
function largestCell(map, skipRows, skipColumns) {
  let most = 0;
  let cell = null;
  for (let row = 0; row < map.queries.length; row++) {
    if (skipRows[row]) continue;
    for (let column = 0; column < map.keys.length; column++) {
      const step = map.step(row, column);
      if (step <= most || skipColumns[column]) continue;
      most = step;
      cell = [row, column];
    }
  }
  return cell;
}

// The strongest cell, and what was left out of the search, in words. What draws most weight
// anywhere is left out unless nothing is left: special tokens, the first token of a causal map.
export function strongest(map, special) {
  const rows = map.queries.map((token) => special.test(token));
  const columns = map.keys.map((token) => special.test(token));
  const hasSpecial = rows.includes(true) || columns.includes(true);
  const causal = isCausal(map);
  if (causal) rows[0] = columns[0] = true;
  const apart = [causal && "the first token", hasSpecial && "special tokens"].filter(Boolean);
  const cell = largestCell(map, rows, columns);
  if (cell) return { cell, apart: apart.join(" and ") };
  return { cell: largestCell(map, [], []), apart: "" };
}

// The cells whose links are worth drawing, each [row, column, step], of all tokens or of those of
// the one in focus: no more than `most` (of equal ones a few more), and none below 1 % of 255.
export function strongLinks(map, focus, most) {
  const range = (side, count) => (focus?.side === side ? [focus.at, focus.at + 1] : [0, count]);
  const [firstRow, endRow] = range("query", map.queries.length);
  const [firstColumn, endColumn] = range("key", map.keys.length);
  const counts = new Uint32Array(256);
  for (let row = firstRow; row < endRow; row++)
    for (let column = firstColumn; column < endColumn; column++) counts[map.step(row, column)]++;
  let least = 255;
  let total = counts[255];
  while (least > 3 && total + counts[least - 1] <= most) total += counts[--least];
  const links = [];
  for (let row = firstRow; row < endRow; row++)
    for (let column = firstColumn; column < endColumn; column++) {
      const step = map.step(row, column);
      if (step >= least) links.push([row, column, step]);
    }
  return links;
}
