// A number line, and axes for a curve, as SVG: an answer, a truth, or both over one another.

import { clamp, drawn } from "./elements.js";

// How shares of an axis, its values and the pixels between two ends become one another.
function scaleOf({ low, high, log }, from, to) {
  const [bend, straighten] = log ? [Math.log, Math.exp] : [(x) => x, (x) => x];
  const [start, length] = [bend(low), bend(high) - bend(low)];
  const share = (value) => (bend(value) - start) / length;
  const at = (part) => straighten(start + part * length);
  return {
    share,
    at,
    px: (value) => from + share(value) * (to - from),
    of: (px) => at(clamp((px - from) / (to - from), 0, 1)),
  };
}

// The least of 1, 2 and 5 times a power of ten that is no less than x.
function roundStep(x) {
  const power = 10 ** Math.floor(Math.log10(x));
  return power * [1, 2, 5, 10].find((times) => times * power >= x * 0.999);
}

// A few round values, and where the axis begins; on a logarithmic axis powers of ten, or their doubles and halves, too.
function ticksOf({ low, high, log }) {
  if (log) {
    const first = Math.floor(Math.log10(low));
    const decades = Math.ceil(Math.log10(high)) - first;
    const every = Math.ceil(decades / 4);
    const powers = Array.from({ length: decades + 1 }, (_, n) => 10 ** (first + n));
    const chosen = decades > 2 ? powers.filter((_, n) => n % every === 0) : powers;
    const all = decades > 2 ? chosen : chosen.flatMap((power) => [power, 2 * power, 5 * power]);
    return all.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  }
  const step = roundStep((high - low) / 5);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  const round = Array.from({ length: count }, (_, n) => Number(((first + n) * step).toPrecision(6)));
  return round[0] - low > 0.4 * step ? [low, ...round] : round;
}

// A value as the reader may answer it: in steps of a hundredth of the axis, or whole.
export function stepped(axis, value) {
  if (axis.log) return Number(value.toPrecision(2));
  const step = axis.step || roundStep((axis.high - axis.low) / 100);
  return clamp(Number((Math.round(value / step) * step).toPrecision(6)), axis.low, axis.high);
}

// A value in words, with its unit: three digits, and none finer than a thousandth of the axis.
export function axisWords(value, { unit = "", low, high, log = low === undefined }) {
  const whole = Math.abs(value) >= 1000 || Number.isInteger(value);
  const decimals = log ? 20 : clamp(Math.ceil(3 - Math.log10(high - low)), 0, 20);
  const short = Number(Number(value.toPrecision(3)).toFixed(decimals));
  const number = whole ? Math.round(value).toLocaleString("en") : String(short);
  return `${number.replace("-", "−")} ${unit}`.trim();
}

// The picture in a place of the page, empty, and its measures in pixels.
function canvasIn(place, heightInEm) {
  const font = parseFloat(getComputedStyle(place).fontSize) || 16;
  const width = Math.max(280, place.clientWidth);
  const height = heightInEm * font;
  const picture = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": true });
  place.replaceChildren(picture);
  const add = (tag, attributes, text) => picture.append(drawn(tag, attributes, text));
  return { add, font, width, height };
}

// Keep a label of about so many letters inside the picture.
function inside(x, text, { font, width }) {
  const half = 0.3 * font * text.length;
  return clamp(x, half, width - half);
}

export function drawNumber(place, { axis }, { answer, truth }) {
  const picture = canvasIn(place, truth === undefined ? 4.4 : 5.6);
  const { add, font, width } = picture;
  const line = 2.2 * font;
  const x = scaleOf(axis, 1.4 * font, width - 1.4 * font);
  const [start, end] = [x.px(axis.low), x.px(axis.high)];
  add("line", { class: "attn-axis", x1: start, x2: end, y1: line, y2: line });
  for (const tick of ticksOf(axis)) {
    const at = x.px(tick);
    const words = axisWords(tick, axis.unit === "%" ? axis : {});
    add("line", { class: "attn-axis", x1: at, x2: at, y1: line, y2: line + 0.4 * font });
    add("text", { class: "attn-tick", x: inside(at, words, picture), y: line + 1.5 * font }, words);
  }
  if (answer !== null && truth !== undefined)
    add("line", { class: "attn-gap", x1: x.px(answer), x2: x.px(truth), y1: line, y2: line });
  if (truth !== undefined) {
    const at = x.px(truth);
    const side = 0.5 * font;
    const corners = `${at},${line - side} ${at + side},${line} ${at},${line + side} ${at - side},${line}`;
    const words = `measured ${axisWords(truth, axis)}`;
    add("polygon", { class: "attn-truth", points: corners });
    add("text", { class: "attn-truth", x: inside(at, words, picture), y: line + 2.9 * font }, words);
  }
  if (answer === null) {
    add("circle", { class: "attn-ghost", cx: (start + end) / 2, cy: line, r: 0.6 * font });
  } else {
    const words = truth === undefined ? axisWords(answer, axis) : `you ${axisWords(answer, axis)}`;
    add("circle", { class: "attn-yours", cx: x.px(answer), cy: line, r: 0.6 * font });
    add("text", { class: "attn-yours", x: inside(x.px(answer), words, picture), y: 1.1 * font }, words);
  }
  return { x };
}

export function drawCurve(place, spec, { answer, truth, column = null }) {
  const picture = canvasIn(place, 15);
  const { add, font, width, height } = picture;
  const [left, right] = [3.6 * font, width - 1.6 * font];
  const [top, bottom] = [1.9 * font, height - 3.1 * font];
  const x = scaleOf(spec.x, left, right);
  const y = scaleOf(spec.y, bottom, top);
  add("text", { class: "attn-tick attn-start", x: 0, y: 0.9 * font }, spec.y.name);
  add("text", { class: "attn-tick", x: (left + right) / 2, y: height - 0.4 * font }, spec.x.name);
  for (const tick of ticksOf(spec.y)) {
    const at = y.px(tick);
    add("line", { class: "attn-grid", x1: left, x2: right, y1: at, y2: at });
    add("text", { class: "attn-tick attn-end", x: left - 0.4 * font, y: at + 0.3 * font }, axisWords(tick, spec.y));
  }
  for (const tick of ticksOf(spec.x))
    add("text", { class: "attn-tick", x: x.px(tick), y: bottom + 1.3 * font }, axisWords(tick, spec.x));
  add("line", { class: "attn-axis", x1: left, x2: right, y1: bottom, y2: bottom });
  const path = (points) => points.map(([a, b]) => `${x.px(a)},${y.px(b)}`).join(" ");
  if (column !== null) {
    const at = x.px(spec.columns[column]);
    add("line", { class: "attn-column", x1: at, x2: at, y1: top, y2: bottom });
  }
  const yours = answer && spec.columns.map((at, n) => [at, answer[n]]);
  if (yours) add("polyline", { class: "attn-yours", points: path(yours) });
  for (const [a, b] of yours ?? [])
    if (!truth) add("circle", { class: "attn-yours", cx: x.px(a), cy: y.px(b), r: 0.3 * font });
  if (!yours && !truth)
    add("text", { class: "attn-tick", x: (left + right) / 2, y: (top + bottom) / 2 }, "draw here");
  if (truth) {
    add("polyline", { class: "attn-truth", points: path(truth) });
    for (const [a, b] of truth)
      add("circle", { class: "attn-truth", cx: x.px(a), cy: y.px(b), r: 0.25 * font });
  }
  return { x, y };
}

// The column of a curve at a place of its picture, and how high the place is there.
export function pointOnCurve({ columns }, scales, x, y) {
  const apart = columns.map((column) => Math.abs(scales.x.px(column) - x));
  return { column: apart.indexOf(Math.min(...apart)), height: scales.y.of(y) };
}

// The height of a broken line of points at x; beyond its ends it stays as high as they are.
function heightAt(points, x) {
  const after = points.findIndex((point) => point[0] >= x);
  if (after <= 0) return points.at(after)[1]; // -1: behind all of them
  const [[x0, y0], [x1, y1]] = points.slice(after - 1, after + 1);
  return y0 + ((x - x0) / (x1 - x0)) * (y1 - y0);
}

// How far an answer is from the truth, as a share of the axis; of a curve, on average over the
// columns at which the truth is known.
export function distanceOf(spec, answer) {
  if (spec.form === "number") {
    const { share } = scaleOf(spec.axis, 0, 1);
    return Math.abs(share(answer) - share(spec.truth));
  }
  const { share } = scaleOf(spec.y, 0, 1);
  const ends = [spec.truth[0][0], spec.truth.at(-1)[0]];
  const measured = spec.columns.map((x, n) => [x, answer[n]]).filter(([x]) => x >= ends[0] && x <= ends[1]);
  const apart = measured.map(([x, height]) => Math.abs(share(height) - share(heightAt(spec.truth, x))));
  return apart.reduce((sum, part) => sum + part, 0) / apart.length;
}
