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
// Colours and links leave out the first `skip` columns: 1 where the first token is left out.
class AttentionMap {
  constructor(steps, largest, unit, text, readExact) {
    Object.assign(this, { steps, largest, readExact });
    this.stride = unit.cols; // cells from one row to the next
    this.queries = unit.queries[text];
    this.keys = unit.keys[text];
    this.skip = 0;
    this.shownLargest = largest;
  }

  leaveOut({ most }) {
    this.skip = 1;
    this.shownLargest = most;
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

  // Where the colours end: at 1, or at the largest weight of those that are shown.
  end(upToOne) {
    return (upToOne ? 1 : this.shownLargest) || 1;
  }

  // A step as a share of where the colours end.
  share(step, upToOne) {
    return clamp((step * this.largest) / 255 / this.end(upToOne), 0, 1);
  }
}

// The share of their attention that the others give to the first token, and whether it is a sink:
// in a causal map, if this is more than half. Of a sink, the largest weight besides, too.
function firstTokenOf(map) {
  const rows = map.queries.length;
  let steps = 0;
  for (let row = 1; row < rows; row++) steps += map.step(row, 0);
  const share = (steps * map.largest) / 255 / (rows - 1);
  const isOneText = map.queries.every((token, place) => token === map.keys[place]);
  const isSink = rows > 3 && share > 0.5 && isOneText && isCausal(map);
  if (!isSink) return { share, isSink };
  let most = 0;
  for (let row = 1; row < rows; row++)
    for (let column = 1; column <= row; column++) most = Math.max(most, map.step(row, column));
  return { share, isSink, most: (most * map.largest) / 255 };
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
  const firstTokens = new Map(); // place -> what `firstTokenOf` told
  return (place, text) => {
    const part = (all) => all.subarray(place * size, (place + 1) * size);
    const readExact = () => (exact ? part(exact) : sentWeights(model, unitNumber, place));
    const map = new AttentionMap(part(steps), largest[place], unit, text, readExact);
    if (!firstTokens.has(place)) firstTokens.set(place, firstTokenOf(map));
    map.first = firstTokens.get(place);
    if (map.first.isSink && model.get("sink") !== "shown") map.leaveOut(map.first);
    return map;
  };
}

// All maps of a view, and where each of them is. The last two axes are those of the small maps:
// one runs across and one down, as `turn` says. A single axis is broken into rows of twelve.
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
    this.sinks = new Map(); // unit -> whether the first token is a sink in any map
    this.last = this.axes.at(-1);
    this.isSingle = this.axes.length === 1;
    this.smallMaps = this.axes.length ? this.sizes.slice(-2).reduce((a, b) => a * b) : 0;
    this.turn(false);
  }

  // Let the last axis but one run across and the last down (`isTurned`), or the other way round.
  turn(isTurned) {
    const [secondLast, last] = [this.axes.length - 2, this.axes.length - 1];
    this.isTurned = isTurned;
    this.across = isTurned ? secondLast : last;
    this.down = isTurned ? last : secondLast;
    const columns = this.sizes[this.across] ?? 1;
    this.columns = this.isSingle ? Math.min(columns, 12) : columns;
    this.rows = Math.ceil(this.smallMaps / this.columns);
  }

  get index() {
    return this.model.get("index");
  }

  // The number of the map at an index, counted row by row.
  place(index) {
    return index.reduce((place, at, axis) => place * this.sizes[axis] + at, 0);
  }

  at(index) {
    return this.atPlace(this.place(index));
  }

  atPlace(place) {
    const text = this.texts[Math.floor((place * this.texts.length) / this.count)];
    return this.units.get(this.model.get("unit"))(place, text);
  }

  // Whether the first token is a sink in any of the maps.
  get hasSink() {
    const unit = this.model.get("unit");
    if (!this.sinks.has(unit)) this.sinks.set(unit, this.someMap((map) => map.first.isSink));
    return this.sinks.get(unit);
  }

  someMap(test) {
    for (let place = 0; place < this.count; place++) if (test(this.atPlace(place))) return true;
    return false;
  }

  // An index in words, such as "layer 2 · head 5"; `axes`: of how many of the axes.
  where(index, between = " · ", axes = this.axes.length) {
    const shown = this.axes.slice(0, Math.max(axes, 0));
    return shown.map(({ name, labels }, axis) => `${name} ${labels[index[axis]]}`).join(between);
  }

  // The index of a small map, and the number of the small map at an index.
  indexOfSmall(number) {
    if (this.isSingle) return [number];
    const index = [...this.index];
    index[this.down] = Math.floor(number / this.columns);
    index[this.across] = number % this.columns;
    return index;
  }

  numberOf(index) {
    return this.isSingle ? index[0] : index[this.down] * this.columns + index[this.across];
  }

  get chosen() {
    return this.numberOf(this.index);
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
  const causal = map.skip > 0 || isCausal(map);
  if (causal) rows[0] = columns[0] = true;
  const apart = [causal && "the first token", hasSpecial && "special tokens"].filter(Boolean);
  const cell = largestCell(map, rows, columns);
  if (cell) return { cell, apart: apart.join(" and ") };
  return { cell: largestCell(map, [], []), apart: "" };
}

// The cells whose links are worth drawing, each [row, column, step], of all tokens or of those of
// the one in focus: no more than `most` (of equal ones a few more), and none below 1 % of 255.
// Links to a first token that is left out are drawn only when it is the one in focus.
export function strongLinks(map, focus, most) {
  const range = (side, first, end) =>
    focus?.side === side ? [focus.at, focus.at + 1] : [first, end];
  const [firstRow, endRow] = range("query", 0, map.queries.length);
  const [firstColumn, endColumn] = range("key", map.skip, map.keys.length);
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
