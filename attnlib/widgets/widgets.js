// The face of attnlib.widgets, drawn from state that Python prepared (payload.py):
// AttentionView (map, links, heads) and Frames. Plain ESM: no dependency, no build, no network.
// Text from outside only ever enters through textContent, fillText, or `escape` below.

const FONT = 'system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
const SLANT = Math.PI / 3; // of the column labels
const MAX_LINES = 600, MAX_RECTS = 4096;
const MANY = 12; // so many maps stand beside the one shown, small, to be chosen from
let ids = 0;

// ---------------------------------------------------------------- small helpers
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
const put = (model, name, value) => { model.set(name, value); model.save_changes(); };
const clamp = (x, low, high) => Math.max(low, Math.min(high, x));
const escape = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`)
  .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "");
const minus = (w, text) => (w < 0 ? `−${text}` : text); // read aloud as "minus"
const exactly = (w) => { // two decimals, or four digits of what is larger, or one of what would be 0.00
  const size = Math.abs(w);
  return minus(w, size === 0 ? "0" : size < 5e-4 ? size.toExponential(0) : size < 5e-3 ? String(+size.toPrecision(1)) : size < 10 && size % 1 ? size.toFixed(2) : String(+size.toPrecision(4)));
};
const digits = (x) => minus(x, Math.abs(x) < 1e-3 && x ? Math.abs(x).toExponential(1) : Math.abs(x) < 999 ? Math.abs(x).toPrecision(3) : Math.abs(x).toFixed(0));
const about = (w) => minus(w, String(+Math.abs(w).toPrecision(2)));
const roundTo = (w, error) => +w.toFixed(clamp(Math.ceil(-Math.log10(error)), 0, 20));
const pen = document.createElement("canvas").getContext("2d");

function bytesOf(model, name) { // a DataView live, the same on a static page
  const view = model.get(name);
  if (!view) return new Uint8Array(0);
  return new Uint8Array(view.buffer ?? view, view.byteOffset ?? 0, view.byteLength);
}
async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
const floats = (bytes, [start, length]) => new Float32Array(bytes.slice(start, start + length).buffer);

function listen(model, handlers) {
  for (const [name, f] of Object.entries(handlers)) model.on(`change:${name}`, f);
  return () => { for (const [name, f] of Object.entries(handlers)) model.off(`change:${name}`, f); };
}

// A root whose keys reach neither the notebook nor the slides, in the colours of its surroundings.
function makeRoot(model, el, label, restyle) {
  const root = make("div", { class: "attn", role: "group", "aria-label": label,
    "data-lm-suppress-shortcuts": "true", "data-prevent-swipe": "" });
  for (const name of ["keydown", "keyup", "keypress"]) root.addEventListener(name, (e) => e.stopPropagation());
  let width = -1, again = 0;
  const style = () => {
    width = root.clientWidth;
    if (!width) { // not on the page, perhaps for a moment only: a theme that changes, a cell out of sight
      cancelAnimationFrame(again);
      again = requestAnimationFrame(() => { if (root.clientWidth) style(); });
      return;
    }
    const ink = getComputedStyle(el.isConnected ? el : document.body).color.match(/[\d.]+/g) ?? [0, 0, 0];
    root.classList.toggle("attn-dark", 0.2126 * ink[0] + 0.7152 * ink[1] + 0.0722 * ink[2] > 128);
    root.style.fontSize = `${model.get("font")}px`;
    for (const [name, least] of [["narrow", 60], ["phone", 40]]) root.classList.toggle(`attn-${name}`, width < least * model.get("font"));
    restyle();
  };
  el.append(root);
  const query = matchMedia("(prefers-color-scheme: dark)");
  query.addEventListener("change", style);
  const watch = new MutationObserver(style);
  for (const node of [document.documentElement, document.body])
    watch.observe(node, { attributes: true, attributeFilter: ["class", "data-theme", "data-jp-theme-light"] });
  const size = new ResizeObserver(() => { if (root.clientWidth !== width) style(); });
  size.observe(root);
  const stop = () => { cancelAnimationFrame(again); query.removeEventListener("change", style); watch.disconnect(); size.disconnect(); };
  return { root, style, stop };
}

// One native slider per axis: the keyboard, touch and screen readers come with it.
function makeSliders(model, axes) {
  const rows = axes.map(({ name, labels }, i) => {
    const id = `attn-slider-${++ids}`;
    const input = make("input", { type: "range", id, min: 0, max: labels.length - 1, step: 1 });
    const value = make("b"), range = make("span"), output = make("output", { for: id }, value, range);
    const longest = Math.max(...labels.map((l) => l.length));
    const plain = labels.every((l, k) => l === String(k));
    range.textContent = plain ? ` of 0–${labels.length - 1}` : "";
    output.style.minWidth = `${Math.min(22, longest * 0.75 + (plain ? 4 : 1))}em`;
    input.disabled = labels.length < 2;
    input.addEventListener("input", () => {
      const index = [...model.get("index")];
      index[i] = Number(input.value);
      put(model, "index", index);
    });
    const label = make("label", { for: id });
    label.textContent = name;
    return { input, value, labels, name, node: make("div", { class: "attn-slider" }, label, input, output) };
  });
  const update = () => rows.forEach(({ input, value, labels, name }, i) => {
    const at = model.get("index")[i];
    if (input.value !== String(at)) input.value = at;
    value.textContent = labels[at];
    input.setAttribute("aria-valuetext", `${name} ${labels[at]}`);
  });
  return { node: make("div", { class: "attn-sliders" }, ...rows.map((r) => r.node)), update };
}

function makeChoice(model, trait, caption, options) {
  const text = make("span");
  text.textContent = caption;
  const buttons = Object.entries(options).map(([value, label]) => {
    const button = make("button", { type: "button", "data-value": value });
    button.textContent = label;
    button.addEventListener("click", () => put(model, trait, value));
    return button;
  });
  const node = make("div", { class: "attn-group", role: "group", "aria-label": caption }, text, ...buttons);
  const update = () => buttons.forEach((b) => b.setAttribute("aria-pressed", b.dataset.value === model.get(trait)));
  return { node, update };
}

function makeButtons(caption, actions, extra = "") {
  return make("div", { class: `attn-group ${extra}`, role: "group", "aria-label": caption },
    ...actions.map(([label, hint, act]) => {
      const button = make("button", { type: "button", title: hint, "aria-label": hint });
      button.textContent = label;
      button.addEventListener("click", act);
      return button;
    }));
}

const fontButtons = (model) => makeButtons("text size", [
  ["A−", "smaller", () => put(model, "font", Math.max(10, model.get("font") - 2))],
  ["A+", "larger", () => put(model, "font", Math.min(32, model.get("font") + 2))]]);

// ---------------------------------------------------------------- colours
const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
function ramp(anchors, low) { // 256 colours as [r, g, b], from step `low` on
  const stops = anchors.map(channels);
  return Array.from({ length: 256 }, (_, i) => {
    const x = (Math.max(i - low, 0) / (255 - low)) * (stops.length - 1), k = Math.min(stops.length - 2, Math.floor(x));
    return stops[k].map((c, n) => Math.round(c + (x - k) * (stops[k + 1][n] - c)));
  });
}
const css = ([r, g, b]) => `rgb(${r},${g},${b})`;

// ---------------------------------------------------------------- data
// All maps of one unit; what it returns gives the one at an index, cropped to its tokens. A map holds its
// steps: from 0 to 255 at `top`, its largest weight, or, where signed, from 1 at −top over 128 at 0 to 255.
function openUnit(unit, number, blob, model, signed) {
  const scales = floats(blob, unit.scales), size = unit.rows * unit.cols;
  const zero = signed ? 128 : 0, span = 255 - zero; // the step of 0, and how many to the top
  const common = signed ? scales.reduce((a, b) => Math.max(a, b), 0) : 1; // end of the one scale for all maps
  const maps = blob.subarray(unit.maps[0], unit.maps[0] + unit.maps[1]);
  const all = unit.exact ? floats(blob, unit.exact) : null;
  const exactOf = (flat) => {
    if (all) return all.subarray(flat * size, (flat + 1) * size);
    const sent = bytesOf(model, "_shown"); // the kernel's answer to the last move, if it is this map's
    if (sent.length < 8) return null;
    const head = new DataView(sent.buffer, sent.byteOffset, 8);
    if (head.getInt32(0, true) !== number || head.getInt32(4, true) !== flat) return null;
    return floats(sent, [8, sent.length - 8]);
  };
  return (flat, text) => {
    const steps = maps.subarray(flat * size, (flat + 1) * size), top = scales[flat];
    const rough = (i, j) => ((steps[i * unit.cols + j] - zero) * top) / span;
    let sure; // read the exact weights when first asked, once per map
    const exact = () => (sure === undefined ? (sure = exactOf(flat)) : sure);
    return { steps, signed, zero, span, cols: unit.cols, queries: unit.queries[text], keys: unit.keys[text],
      end: (whole) => (whole ? common : top) || 1, // where the colours end
      share: (b, whole) => clamp(((b - zero) * (whole && common ? top / common : 1)) / span, -1, 1), // of that end
      unsure: () => (exact() ? 0 : 0.005),
      weight: (i, j) => exact()?.[i * unit.cols + j] ?? rough(i, j),
      // of a step no more digits than it knows
      say: (i, j) => (exact() ? exactly(exact()[i * unit.cols + j]) : `≈ ${exactly(roundTo(rough(i, j), top / (2 * span)))}`) };
  };
}

const half = (h) => (h >> 15 ? -1 : 1) * ((h >> 10) & 31 ? 2 ** (((h >> 10) & 31) - 15) * (1 + (h & 1023) / 1024) : 2 ** -24 * (h & 1023));
// What stands behind the weights between tokens; what it returns gives the numbers of one of them.
function openNumbers({ queries, keys, rows, width, bytes }, { rows: height, cols }, blob) {
  const cutOut = ([start, length]) => blob.slice(start, start + length).buffer;
  const vectors = (at) => (bytes === 2 ? Float32Array.from(new Uint16Array(cutOut(at)), half) : new Float32Array(cutOut(at)));
  let q, k, sums; // unpacked when first asked
  return (flat, i, j) => {
    q ??= vectors(queries), k ??= vectors(keys), sums ??= floats(blob, rows);
    const row = flat * height + i, column = flat * cols + j;
    const terms = Array.from({ length: width }, (_, n) => [n, q[row * width + n], k[column * width + n]])
      .map((term) => [...term, term[1] * term[2]]).sort((a, b) => Math.abs(b[3]) - Math.abs(a[3]));
    const product = terms.reduce((sum, term) => sum + term[3], 0), score = product / Math.sqrt(width), [largest, total] = sums.subarray(2 * row, 2 * row + 2);
    return { terms, product, width, score, largest, power: Math.exp(score - largest), total };
  };
}

// The strongest entry, or, where signed, the strongest of either sign: [[name, row, column], …]. What draws most
// weight anywhere is left out, unless nothing is left: special tokens, and the first token of a causal map.
function strongest({ steps, signed, zero, cols, queries, keys }, special) {
  const rows = queries.map((token) => special.test(token)), columns = keys.map((token) => special.test(token));
  const apart = rows.includes(true) || columns.includes(true) ? ["special tokens"] : [];
  let causal = queries.length === keys.length;
  for (let i = 0; causal && i < queries.length; i++)
    for (let j = i + 1; j < keys.length; j++) if (steps[i * cols + j] !== zero) { causal = false; break; }
  if (causal) {
    rows[0] = columns[0] = true;
    apart.unshift("the first token");
  }
  const search = (all) => {
    let high = zero, low = zero, most = null, least = null;
    for (let i = 0; i < queries.length; i++) {
      if (rows[i] && !all) continue;
      for (let j = 0; j < keys.length; j++) {
        const b = steps[i * cols + j];
        if (b > high && (all || !columns[j])) { high = b; most = [i, j]; }
        if (b < low && (all || !columns[j])) { low = b; least = [i, j]; }
      }
    }
    const told = apart.length && !all ? ` (${apart.join(" and ")} apart)` : "";
    return [[signed ? "strongest positive" : "strongest", most], ["strongest negative", least]]
      .flatMap(([name, at]) => (at ? [[name + told, ...at]] : []));
  };
  const found = search(false);
  return found.length ? found : search(true);
}
// The palette's entry for a step of a map.
const shade = (map, b, whole) => map.zero + Math.round(map.share(b, whole) * map.span);

// The map as a small picture, one dot per cell; at most `limit` dots a side, each the largest of its cells.
function heat(map, colours, whole, limit = Infinity) {
  const rows = map.queries.length, cols = map.keys.length, shrink = Math.max(1, Math.max(rows, cols) / limit);
  const canvas = make("canvas", { width: Math.ceil(cols / shrink), height: Math.ceil(rows / shrink) });
  const { width, height } = canvas, table = new Uint32Array(256);
  for (let b = 0; b < 256; b++) {
    const [r, g, c] = colours[shade(map, b, whole)];
    table[b] = (255 << 24) | (c << 16) | (g << 8) | r;
  }
  const image = new ImageData(width, height), dots = new Uint32Array(image.data.buffer), { steps, zero } = map;
  if (shrink === 1) {
    for (let i = 0, n = 0; i < rows; i++)
      for (let j = 0, from = i * map.cols; j < cols; j++) dots[n++] = table[steps[from + j]];
  } else {
    const most = new Uint8Array(dots.length).fill(zero), column = Uint16Array.from({ length: cols }, (_, j) => (j * width) / cols);
    for (let i = 0; i < rows; i++)
      for (let j = 0, from = i * map.cols, to = Math.floor((i * height) / rows) * width; j < cols; j++) {
        const b = steps[from + j], n = to + column[j];
        if (Math.abs(b - zero) > Math.abs(most[n] - zero)) most[n] = b;
      }
    most.forEach((b, n) => { dots[n] = table[b]; });
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

// ---------------------------------------------------------------- scenes: what to draw, painted or exported alike
// An item is ["rect", x, y, w, h, fill, alpha, stroke] | ["image", canvas, x, y, w, h] |
// ["text", x, y, text, size, fill, {anchor, turn, bold}] | ["line", x1, y1, x2, y2, colour, width, alpha, curved].
function paint(canvas, scene, dots) {
  const width = Math.max(1, Math.round(scene.width * dots)), height = Math.max(1, Math.round(scene.height * dots));
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  canvas.style.width = `${scene.width}px`;
  canvas.style.height = `${scene.height}px`;
  const to = canvas.getContext("2d");
  to.lastFont = "";
  to.setTransform(dots, 0, 0, dots, 0, 0);
  to.fillStyle = scene.background;
  to.fillRect(0, 0, scene.width, scene.height);
  to.imageSmoothingEnabled = false;
  to.textBaseline = "middle";
  for (const [kind, ...a] of scene.items) brush[kind](to, ...a);
  to.globalAlpha = 1;
}
const brush = {
  rect(to, x, y, w, h, fill, alpha = 1, stroke = null) {
    to.globalAlpha = alpha;
    if (fill) { to.fillStyle = fill; to.fillRect(x, y, w, h); }
    if (stroke) { to.strokeStyle = stroke[0]; to.lineWidth = stroke[1]; to.strokeRect(x, y, w, h); }
  },
  image(to, picture, x, y, w, h) { to.globalAlpha = 1; to.drawImage(picture, x, y, w, h); },
  text(to, x, y, text, size, fill, { anchor = "start", turn = 0, bold = false } = {}) {
    to.globalAlpha = 1;
    const font = `${bold ? "600 " : ""}${size}px ${FONT}`;
    if (to.lastFont !== font) { to.font = font; to.lastFont = font; }
    to.textAlign = { start: "left", end: "right", middle: "center" }[anchor];
    to.fillStyle = fill;
    if (!turn) { to.fillText(text, x, y); return; }
    to.save();
    to.translate(x, y);
    to.rotate(turn);
    to.fillText(text, 0, 0);
    to.restore();
  },
  line(to, x1, y1, x2, y2, colour, width, alpha, curved = false) {
    to.globalAlpha = alpha;
    to.strokeStyle = colour;
    to.lineWidth = width;
    to.beginPath();
    to.moveTo(x1, y1);
    const bend = (x2 - x1) * 0.4;
    if (curved) to.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2); else to.lineTo(x2, y2);
    to.stroke();
  },
};
const svg = {
  rect: (x, y, w, h, fill, alpha = 1, stroke = null) =>
    `<rect x="${x}" y="${y}" width="${w}" height="${h}" fill="${fill ?? "none"}" opacity="${alpha}"${
      stroke ? ` stroke="${stroke[0]}" stroke-width="${stroke[1]}"` : ""}/>`,
  image: (picture, x, y, w, h) => `<image href="${picture.toDataURL()}" x="${x}" y="${y}" width="${w}" height="${h}" ` +
    'preserveAspectRatio="none" style="image-rendering:pixelated"/>',
  text: (x, y, text, size, fill, { anchor = "start", turn = 0, bold = false } = {}) =>
    `<text transform="translate(${x} ${y})${turn ? ` rotate(${(turn * 180) / Math.PI})` : ""}" font-size="${size}" ` +
    `fill="${fill}" text-anchor="${anchor}" dominant-baseline="central"${bold ? ' font-weight="600"' : ""} ` +
    `xml:space="preserve">${escape(text)}</text>`,
  line: (x1, y1, x2, y2, colour, width, alpha, curved = false) => {
    const bend = (x2 - x1) * 0.4;
    const path = curved ? `C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` : `L${x2} ${y2}`;
    return `<path d="M${x1} ${y1}${path}" fill="none" stroke="${colour}" stroke-width="${width}" opacity="${alpha}"/>`;
  },
};
const toSvg = (scene, label) =>
  `<svg xmlns="http://www.w3.org/2000/svg" width="${scene.width}" height="${scene.height}" ` +
  `viewBox="0 0 ${scene.width} ${scene.height}" font-family="${escape(FONT)}" role="img">` +
  `<title>${escape(label)}</title><rect width="100%" height="100%" fill="${scene.background}"/>` +
  scene.items.map(([kind, ...a]) => svg[kind](...a)).join("\n") + "</svg>";

// Labels cut to a width, remembered: measuring text is the slow part of a redraw.
const cut = new WeakMap();
function fitted(tokens, size, limit) {
  const key = `${size} ${limit}`, known = cut.get(tokens) ?? {};
  if (known[key]) return known[key];
  pen.font = `${size}px ${FONT}`;
  const texts = tokens.map((token) => {
    if (pen.measureText(token).width <= limit) return token;
    let text = token;
    while (text.length > 1 && pen.measureText(`${text}…`).width > limit) text = text.slice(0, -1);
    return `${text}…`;
  });
  const width = Math.max(...texts.map((text) => pen.measureText(text).width));
  cut.set(tokens, Object.assign(known, { [key]: { texts, width } }));
  return known[key];
}
// Every how many tokens a label fits, and how large it may be, where one has `room` pixels.
function labelling(room, font) {
  const size = clamp(Math.floor(room * 0.95), Math.min(11, font), font);
  const needed = (size * 1.05) / room;
  return { size, step: needed <= 1 ? 1 : [2, 5, 10, 20, 50, 100].find((n) => n >= needed) ?? 200 };
}
const named = (text, i, step) => (step > 2 ? `${i} ${text}` : text);

function mapScene(map, look, width, cursor, behind = null) {
  const { font, ink, muted, line, background, mark, whole, dots, tall } = look, narrow = width < 34 * font;
  const rows = map.queries.length, cols = map.keys.length, limit = (narrow ? 4.5 : 9) * font;
  const flat = (cell) => fitted(map.keys, font, limit).width <= cell - 6; // short labels stand upright
  const place = (rowSize, colSize, rowStep, colStep, upright = false) => { // margins that hold these labels
    const wide = (tokens, size, step) => fitted(tokens, Math.max(size, 0.87 * font), limit).width + (step > 2 ? 2.2 * font : 0);
    const q = wide(map.queries, rowSize, rowStep), k = wide(map.keys, colSize, colStep);
    return { left: Math.ceil(1.9 * font + q + 8), right: Math.ceil(Math.max(k * Math.cos(SLANT), narrow ? 0 : 5.2 * font) + 8),
      top: Math.ceil(1.9 * font + (upright ? font : k * Math.sin(SLANT) + font * 0.4)) };
  };
  let edge = place(font, font, 1, 1), cell, down, across;
  for (let round = 0; round < 2; round++) { // the cells leave room for the labels, and the labels go by the cells
    const budget = Math.min(clamp(0.8 * rows, 38, 48) * font, tall - edge.top - 0.6 * font);
    const fit = Math.min((width - edge.left - edge.right) / cols, budget / rows, 4 * font);
    const n = fit * dots < 4 ? Math.max(rows, cols) : 1; // whole dots for a cell, or, where they are few, for all cells
    cell = Math.floor(fit * n * dots) / (n * dots);
    down = labelling(cell, font);
    across = labelling(cell * Math.sin(SLANT) * 1.12, font);
    edge = place(down.size, across.size, down.step, across.step, flat(cell));
  }
  const { left, right, top } = edge;
  const w = cols * cell, h = rows * cell, items = [];
  items.push(["text", font * 0.8, top + h / 2, "destination (query)", font, muted, { anchor: "middle", turn: -Math.PI / 2 }],
    ["text", left + w / 2, font * 0.9, "source (key)", font, muted, { anchor: "middle" }]);
  const rowAt = (i, size, fill, bold) => ["text", left - 6, top + (i + 0.5) * cell,
    named(fitted(map.queries, size, limit).texts[i], i, down.step), size, fill, { anchor: "end", bold }];
  const colAt = (j, size, fill, bold) => ["text", left + (j + 0.5) * cell, top - (flat(cell) ? 0.7 * font : 6),
    named(fitted(map.keys, size, limit).texts[j], j, across.step), size, fill,
    flat(cell) ? { anchor: "middle", bold } : { turn: -SLANT, bold }];
  const free = (i, at) => at == null || (at !== i && Math.abs(i - at) * cell >= 0.9 * Math.min(font, 11));
  for (let i = 0; i < rows; i += down.step) if (free(i, cursor?.[0])) items.push(rowAt(i, down.size, ink));
  for (let j = 0; j < cols; j += across.step) if (free(j, cursor?.[1])) items.push(colAt(j, across.size, ink));
  items.push(...heatItems(map, look, left, top, cell));
  items.push(["rect", left - 0.5, top - 0.5, w + 1, h + 1, null, 1, [line, 1]]);
  if (!narrow) items.push(...barItems(look, left + w + font, top, clamp(h, 2 * font, 10 * font), map.end(whole), map.signed));
  if (cursor) {
    const [i, j] = cursor, x = left + j * cell, y = top + i * cell, big = (size) => Math.max(size, 0.87 * font);
    if (cell < 5) {
      items.push(["line", left, y + cell / 2, left + w, y + cell / 2, mark, 1, 0.5], ["line", x + cell / 2, top, x + cell / 2, top + h, mark, 1, 0.5]);
      items.push(["rect", x - 3, y - 3, cell + 6, cell + 6, null, 1, [mark, 2]]);
    } else {
      items.push(["rect", left, y, w, cell, null, 0.55, [mark, 1]], ["rect", x, top, cell, h, null, 0.55, [mark, 1]]);
      items.push(["rect", x - 1, y - 1, cell + 2, cell + 2, null, 1, [mark, 2.5]]);
    }
    items.push(rowAt(i, big(down.size), mark, true), colAt(j, big(across.size), mark, true));
  }
  if (behind) items.push(["rect", left + behind[1] * cell - 2, top + behind[0] * cell - 2, cell + 4, cell + 4, null, 1, [mark, 4]]);
  const at = (x, y) => {
    const i = Math.floor((y - top) / cell), j = Math.floor((x - left) / cell);
    return i >= 0 && j >= 0 && i < rows && j < cols ? [i, j] : null;
  };
  return { items, width: left + w + right, height: top + h + Math.ceil(font * 0.6), background, at };
}

// The cells: one picture on screen; in an export of a small map, one rectangle each.
function heatItems(map, look, left, top, cell) {
  const rows = map.queries.length, cols = map.keys.length, items = [], { colours, whole, font, background } = look;
  const colour = (b) => colours[shade(map, b, whole)];
  if (look.vector && rows * cols <= MAX_RECTS) {
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < cols; j++)
        items.push(["rect", left + j * cell, top + i * cell, cell, cell, css(colour(map.steps[i * map.cols + j]))]);
  } else items.push(["image", heat(map, colours, whole, look.vector ? Infinity : Math.round(Math.max(rows, cols) * cell * look.dots)), left, top, cols * cell, rows * cell]);
  if (cell >= 9) {
    for (let i = 1; i < rows; i++) items.push(["line", left, top + i * cell, left + cols * cell, top + i * cell, background, 1, 1]);
    for (let j = 1; j < cols; j++) items.push(["line", left + j * cell, top, left + j * cell, top + rows * cell, background, 1, 1]);
  }
  if (cell >= 2 * font)
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < cols; j++) {
        const [r, g, b] = colour(map.steps[i * map.cols + j]), w = map.weight(i, j);
        const text = minus(w, Math.abs(w) < 10 ? Math.abs(w).toFixed(2) : String(+Math.abs(w).toPrecision(3)));
        if (Math.abs(w) >= 0.005) items.push(["text", left + (j + 0.5) * cell, top + (i + 0.5) * cell, text, Math.min(font * 0.85, cell * 0.36),
          0.3 * r + 0.59 * g + 0.11 * b > 128 ? "#14171c" : "#ffffff", { anchor: "middle" }]);
      }
  return items;
}

function strip(colours, turned) { // the palette as a picture, upwards or to the right
  const one = make("canvas", turned ? { width: 256, height: 1 } : { width: 1, height: 256 }), to = one.getContext("2d");
  colours.forEach((colour, b) => { to.fillStyle = css(colour); to.fillRect(turned ? b : 0, turned ? 0 : 255 - b, 1, 1); });
  return one;
}
function barItems({ colours, font, ink, line }, x, y, height, end, signed) {
  const label = (at, text) => ["text", x + 1.4 * font, y + at, text, font * 0.9, ink];
  const items = [["image", strip(colours), x, y, font, height], ["rect", x, y, font, height, null, 1, [line, 1]],
    label(font * 0.5, end === 1 ? "1" : about(end)), label(height - font * 0.4, signed ? `−${about(end)}` : "0")];
  return signed && height >= 3.5 * font ? [...items, label(height / 2, "0")] : items;
}
// What the two colours mean where no bar tells it: links and thumbnails of signed maps, around x.
function signItems({ colours, font, ink, line }, x, y) {
  const half = 3 * font, text = (at, told, anchor) => ["text", x + at, y, told, font * 0.9, ink, { anchor }];
  return [["image", strip(colours, true), x - half, y - font * 0.4, 2 * half, font * 0.8],
    ["rect", x - half, y - font * 0.4, 2 * half, font * 0.8, null, 1, [line, 1]],
    text(-half - 4, "negative", "end"), text(half + 4, "positive", "start")];
}

function linkScene(maps, look, width, focus) {
  const { font, ink, muted, background, hues, negative, mark, whole, tall } = look, [map] = maps, more = 7 * (maps.length - 1);
  const n = Math.max(map.queries.length, map.keys.length), limit = 12 * font, top = 2.2 * font;
  const room = clamp((Math.min(46 * font, tall) - top) / n, 0.75, 1.75 * font), { size, step } = labelling(room, font);
  const qs = fitted(map.queries, size, limit), ks = fitted(map.keys, size, limit);
  const extra = step > 2 ? 2 * font : 0, title = 9.5 * font;
  const full = Math.max(Math.min(width, 42 * font), 22 * font);
  const x1 = Math.ceil(Math.max(qs.width + extra + more, title) + 10), x2 = full - Math.ceil(Math.max(ks.width + extra + more, title * 0.65) + 10);
  const y = (i) => top + (i + 0.5) * room, items = [];
  items.push(["text", x1 - 6, font * 0.9, "destination (query)", font, muted, { anchor: "end" }],
    ["text", x2 + 6, font * 0.9, "source (key)", font, muted]);
  const widest = clamp(0.8 * room, 1.2, 0.38 * font) / Math.sqrt(maps.length);
  const power = (i, j, m) => maps[m].share(maps[m].steps[i * map.cols + j], whole), hue = (p, m) => (p < 0 ? negative : hues[m]);
  const apart = (m) => (m - (maps.length - 1) / 2) * Math.min(0.16 * room, 4.5); // so that no line hides another
  if (map.signed) items.push(...signItems(look, (x1 + x2) / 2, font * 0.9));
  const lines = maps.flatMap((one, m) => linesOf(one, focus).map(([i, j, size]) => [i, j, size, m]));
  for (const [i, j, , m] of lines.sort((a, b) => a[2] - b[2]).slice(-MAX_LINES)) {
    const signed = power(i, j, m), p = Math.abs(signed);
    items.push(["line", x1, y(i) + apart(m), x2, y(j) + apart(m), hue(signed, m), 0.4 + widest * p, clamp(focus ? 0.25 + p : p * 0.95, 0.04, 1), n <= 64]);
  }
  const side = (name, texts, tokens, x, anchor) => texts.forEach((text, i) => {
    const chosen = focus && focus.side === name && focus.at === i;
    const signs = maps.map((_, m) => (focus && focus.side !== name ? (name === "key" ? power(focus.at, i, m) : power(i, focus.at, m)) : 0));
    const linked = Math.max(...signs.map(Math.abs));
    signs.forEach((signed, m) => {
      if (Math.abs(signed) > 0.02) items.push(["rect", anchor === "end" ? x - limit * 0.02 - 4 - 7 * m : x - 2 + 7 * m, y(i) - room / 2, 6, Math.max(room, 2), hue(signed, m), Math.abs(signed)]);
    });
    const shownAnyway = chosen || linked > 0.25;
    if (i % step && !shownAnyway) return;
    const close = step > 1 && focus && focus.side === name && !chosen && Math.abs(i - focus.at) * room < font;
    if (!close) items.push(["text", anchor === "end" ? x - 8 - more : x + 8 + more, y(i), named(text, i, step), chosen ? font : size,
      chosen ? mark : ink, { anchor, bold: chosen || linked > 0.25 }]);
  });
  side("query", qs.texts, map.queries, x1, "end");
  side("key", ks.texts, map.keys, x2, "start");
  const at = (x, py) => {
    const i = Math.floor((py - top) / room), name = x < (x1 + x2) / 2 ? "query" : "key";
    const count = name === "query" ? map.queries.length : map.keys.length;
    return i >= 0 && i < count ? { side: name, at: i } : null;
  };
  return { items, width: full, height: Math.ceil(top + n * room + font * 0.5), background, at };
}

// The links worth drawing: at least 1 % of the strongest, and at most MAX_LINES.
function linesOf(map, focus) {
  const rows = map.queries.length, cols = map.keys.length, counts = new Uint32Array(256);
  const within = (side, count) => (focus?.side === side ? [focus.at, focus.at + 1] : [0, count]);
  const [firstRow, endRow] = within("query", rows), [firstCol, endCol] = within("key", cols);
  const sizes = Uint8Array.from(counts, (_, b) => Math.round((Math.min(Math.abs(b - map.zero), map.span) * 255) / map.span));
  for (let i = firstRow; i < endRow; i++) for (let j = firstCol; j < endCol; j++) counts[sizes[map.steps[i * map.cols + j]]]++;
  let least = 255, total = counts[255];
  while (least > 3 && total + counts[least - 1] <= MAX_LINES) total += counts[--least];
  const lines = [];
  for (let i = firstRow; i < endRow; i++)
    for (let j = firstCol; j < endCol; j++) {
      const size = sizes[map.steps[i * map.cols + j]];
      if (size >= least) lines.push([i, j, size]);
    }
  return lines;
}

// ---------------------------------------------------------------- the attention view
function renderAttention(model, el, spec, blob) {
  const axes = spec.axes, special = new RegExp(spec.special ?? "^$");
  const sizes = axes.map((a) => a.labels.length);
  const units = Object.fromEntries(spec.units.map((u, n) => [u.name, openUnit(u, n, blob, model, spec.signed)]));
  const flatOf = (index) => index.reduce((n, i, a) => n * sizes[a] + i, 0);
  const count = sizes.reduce((n, size) => n * size, 1), across = axes.length - 1, down = axes.length - 2; // of the thumbnails
  const flat = axes.length === 1, wrap = flat ? Math.min(sizes[0], 12) : sizes[across], thumbs = flat ? sizes[0] : sizes[down] * wrap;
  const mapAt = (index) => { // texts has one number for every block of maps that share their tokens
    const flat = flatOf(index);
    return units[model.get("unit")](flat, spec.texts[Math.floor((flat * spec.texts.length) / count)]);
  };
  const where = (index, between = " · ", upTo = axes.length) =>
    axes.slice(0, Math.max(upTo, 0)).map((a, i) => `${a.name} ${a.labels[index[i]]}`).join(between);
  const low = spec.signed ? 1 : 0, colours = { light: ramp(spec.palette.light, low), dark: ramp(spec.palette.dark, low) };
  let look, cursor = null, focus = null, scene = null, overview = null, map = null, maps = [];
  let behind = null, held = {}; // the cell whose numbers are shown; how much room the read-out once took
  const numbersOf = spec.numbers && openNumbers(spec.numbers, spec.units[0], blob);
  const last = axes[across], layers = !spec.signed && last && last.labels.length > 1 && last.labels.length <= 16; // may lie over one another
  const over = () => (layers && model.get("mode") === "links" ? (model.get("overlay") ?? []).filter((n) => n !== model.get("index")[across]) : []);
  const overAt = (n) => [...model.get("index").slice(0, across), n];

  const { root, style, stop } = makeRoot(model, el, spec.title || spec.alt, () => { look = readLook(); redraw(); });
  const sliders = makeSliders(model, axes);
  const tabs = axes.length ? { map: "map", links: "links", heads: axes[across].name === "head" ? "heads" : "all maps" }
    : { map: "map", links: "links" };
  const choices = [makeChoice(model, "mode", "view", tabs),
    makeChoice(model, "scale", "colours up to", { max: "this map’s max", one: spec.signed ? "all maps’ max" : "1" })];
  if (spec.units.length > 1) choices.push(makeChoice(model, "unit", "between", { tokens: "tokens", words: "words" }));
  const tiles = makeTiles();
  const bar = make("div", { class: "attn-bar" }, ...choices.map((c) => c.node),
    makeButtons("download", [["SVG", "download as SVG", () => saveSvg()], ["PNG", "download as PNG", () => savePng()]], "attn-push"),
    fontButtons(model));
  const read = make("div", { class: "attn-read", "aria-live": "polite" });
  const canvas = make("canvas", { role: "img", tabindex: 0 });
  const help = `Arrow keys move over the cells and read out the weights, ${spec.numbers ? "Enter shows q · k, " : ""}Escape leaves.`;
  const grid = make("canvas", { class: "attn-heads", role: "img", tabindex: 0 });
  const panel = make("div", { class: "attn-numbers", "aria-live": "polite", hidden: "" });
  const stage = make("div", { class: "attn-stage" }, canvas, make("div", {}, panel, grid));
  const title = make("div", { class: "attn-title" });
  title.textContent = spec.title;
  root.append(...(spec.title ? [title] : []), ...(axes.length ? [sliders.node] : []), bar, tiles.node, read, stage);

  function readLook() {
    const get = (name) => getComputedStyle(root).getPropertyValue(`--attn-${name}`).trim();
    const dark = root.classList.contains("attn-dark");
    return { dark, font: model.get("font"), dots: window.devicePixelRatio || 1, ink: get("ink"), muted: get("muted"),
      line: get("line"), tall: Math.max(0.6 * innerHeight, 24 * model.get("font")), background: get("bg") || "#fff", hues: ["accent", "second", "third", "fourth"].map(get), negative: get("negative"), mark: get("mark"),
      colours: dark ? colours.dark : colours.light };
  }
  function sceneNow(extra = {}) {
    const now = { ...look, whole: model.get("scale") === "one", ...extra };
    const width = Math.max(stage.clientWidth, 20 * look.font);
    return model.get("mode") === "links" ? linkScene(maps, now, width, focus) : mapScene(map, now, width, cursor, behind);
  }
  // A button for every position of the last axis; those that are pressed lie over one another, at most four.
  function makeTiles() {
    if (!layers) return { node: "", update() {} };
    const toggle = (n) => {
      const rest = over();
      if (n !== model.get("index")[across]) put(model, "overlay", rest.includes(n) ? rest.filter((one) => one !== n) : [...rest, n].slice(-3));
    };
    const node = makeButtons(`links together with those of ${last.name}`, last.labels.map((label, n) => [label, `${last.name} ${label}`, () => toggle(n)]));
    const caption = make("span"), bar = make("div", { class: "attn-bar attn-tiles" }, node);
    caption.textContent = `together with ${last.name}`;
    node.prepend(caption);
    return { node: bar, update() {
      const shown = [model.get("index")[across], ...over()];
      bar.hidden = model.get("mode") !== "links";
      [...node.querySelectorAll("button")].forEach((button, n) => {
        button.setAttribute("aria-pressed", shown.includes(n));
        button.style.setProperty("--attn-tile", look.hues[shown.indexOf(n)] ?? "transparent");
      });
    } };
  }
  // Where the weight of one cell comes from, as a table: terms of q·k, √d, the sum of the row.
  function tellNumbers() {
    const open = numbersOf && behind && model.get("mode") === "map" && model.get("unit") === "tokens";
    panel.hidden = !open;
    if (!open) { panel.replaceChildren(); return; }
    const [i, j] = behind, { terms, product, width, score, largest, power, total } = numbersOf(flatOf(model.get("index")), i, j);
    const cell = (text, tag = "td", attributes = {}) => { const node = make(tag, attributes); node.textContent = text; return node; };
    const row = (name, ...values) => make("tr", {}, cell(name, "th", { scope: "row", colspan: 4 - values.length }), ...values.map((x) => cell(digits(x))));
    const some = terms.slice(0, 4), rest = terms.slice(4).reduce((sum, term) => sum + term[3], 0);
    const shut = make("button", { type: "button", "aria-label": "close the numbers" }, "×");
    shut.addEventListener("click", () => { behind = null; redraw(); canvas.focus(); });
    const head = make("tr", {}, ...["dimension", "q", "k", "q × k"].map((name) => cell(name, "th", { scope: "col" })));
    const hidden = map.weight(i, j) === 0 && power / total > map.unsure();
    panel.replaceChildren(shut, make("table", {},
      cell(`the query of “${map.queries[i]}” and the key of “${map.keys[j]}”`, "caption"), make("thead", {}, head),
      make("tbody", {}, ...some.map(([n, ...values]) => row(String(n), ...values)),
        ...(rest || width > 4 ? [row(`the other ${width - 4}`, rest)] : []), row("q · k, their sum", product), row(`score: ${digits(product)} ÷ √${width}`, score),
        ...(hidden ? [row("hidden by the mask: weight", 0)] : [row(`e^(${digits(score)} ${largest < 0 ? "+" : "−"} ${digits(Math.abs(largest))}): less the row’s largest`, power),
          row("sum of these over the row", total), row(`weight: ${digits(power)} ÷ ${digits(total)}`, power / total)]))));
  }
  function redraw() { // the whole view from the model's state; nothing is kept between two calls
    if (!look) return;
    map = mapAt(model.get("index"));
    maps = [map, ...over().map((n) => mapAt(overAt(n)))];
    const heads = model.get("mode") === "heads" && axes.length > 0;
    sliders.update();
    for (const choice of [...choices, tiles]) choice.update();
    const gone = (at) => at && (at[0] >= map.queries.length || at[1] >= map.keys.length);
    if (gone(behind)) behind = null;
    tellNumbers();
    if (gone(cursor)) cursor = null;
    if (focus && focus.at >= map[focus.side === "query" ? "queries" : "keys"].length) focus = null;
    canvas.hidden = heads;
    grid.hidden = !panel.hidden || (!heads && (flat || !(thumbs > MANY))); // of a single map there are none
    if (!heads) { scene = sceneNow(); paint(canvas, scene, look.dots); }
    if (!grid.hidden) { overview = headScene(heads); paint(grid, overview, look.dots); }
    tell();
  }
  const hint = { map: `point at a cell for its weight${numbersOf ? ", click it for q · k" : ""}`, links: "point at a token for its links", heads: "click a map to open it" };
  function tell() {
    const words = (...parts) => read.replaceChildren(...parts.map(([tag, text, colour]) => {
      if (tag === "text") return text;
      const node = make(tag);
      node.textContent = text;
      if (colour) node.style.background = colour;
      return node;
    }));
    const each = (told) => maps.flatMap((one, m) => [...(maps.length > 1 ? [["i", "", look.hues[m]], ["small", `${last.name} ${last.labels[m ? over()[m - 1] : model.get("index")[across]]}: `]] : []),
      ...told(one, m), ["text", m < maps.length - 1 ? " · " : ""]]);
    if (model.get("mode") === "links" && focus) words(...tellFocus(each));
    else if (cursor && model.get("mode") === "map") {
      const [i, j] = cursor;
      words(["text", "destination "], ["q", map.queries[i]], ["text", " → source "], ["q", map.keys[j]], ["text", ": "],
        ["b", map.say(i, j)], ["small", `  row ${i}, column ${j}`]);
    } else words(["text", document.activeElement === grid ? `${where(model.get("index"))}: ` : ""], ...each((one, m) => strongest(one, special).flatMap(([name, i, j], n) => [["small", m ? "" : `${n ? ", " : ""}${name}: `], ["q", map.queries[i]], ["text", " → "],
      ["q", map.keys[j]], ["text", " "], ["b", one.say(i, j)]])), ["small", maps.length > 1 ? "" : `   ${hint[model.get("mode")]}`]);
    const kind = [root.clientWidth, look.font, model.get("mode"), maps.length].join(); // what is read out never moves the map up
    if (kind !== held.kind) { held = { kind, height: 0 }; read.style.minHeight = ""; }
    if (read.offsetHeight > held.height) read.style.minHeight = `${(held.height = read.offsetHeight)}px`;
    const place = where(model.get("index"), ", ");
    grid.setAttribute("aria-label", `all ${thumbs} maps, chosen: ${place}; arrow keys choose${canvas.hidden ? ", Enter opens" : ""}`);
    canvas.setAttribute("aria-label", `${spec.alt}${place ? `, ${place}` : ""}: ${map.queries.length} destinations (queries) by ` +
      `${map.keys.length} sources (keys). ${read.textContent.trim()}. ${help}`);
  }
  function tellFocus(each) {
    const from = focus.side === "query", others = from ? map.keys : map.queries;
    const pair = (k) => (from ? [focus.at, k] : [k, focus.at]);
    const best = (one) => others.map((_, k) => [k, Math.abs(one.weight(...pair(k)))]).sort((a, b) => b[1] - a[1]).slice(0, maps.length > 1 ? 2 : 3);
    return [["text", from ? "destination " : "source "], ["q", (from ? map.queries : map.keys)[focus.at]],
      ["text", map.signed ? ": " : from ? " looks at " : " is seen by "],
      ...each((one) => best(one).flatMap(([k], n) => [["text", n ? ", " : ""], ["q", others[k]], ["text", " "], ["b", one.say(...pair(k))]]))];
  }

  // ---- thumbnails of the last two axes, rows by the first of them: beside the map, or alone and larger
  const indexOf = (n) => (flat ? [n] : [...model.get("index").slice(0, down), Math.floor(n / wrap), n % wrap]);
  const chosen = () => { const index = model.get("index"); return flat ? index[0] : index[down] * wrap + index[across]; };
  let sheet = null, drawn = "";
  function thumbnails(size) { // all in one picture, kept until something else than the choice changes
    const dots = Math.round(size * look.dots), whole = model.get("scale") === "one";
    const key = JSON.stringify([indexOf(0), model.get("unit"), whole, look.dark, dots]);
    if (key === drawn) return sheet;
    drawn = key;
    sheet = make("canvas", { width: wrap * dots, height: Math.ceil(thumbs / wrap) * dots });
    const to = sheet.getContext("2d"), gap = dots > 40 ? 4 : 2;
    to.imageSmoothingEnabled = false;
    for (let n = 0; n < thumbs; n++) {
      const x = (n % wrap) * dots, y = Math.floor(n / wrap) * dots, inner = dots - gap;
      to.fillStyle = look.line;
      to.fillRect(x, y, inner + 2, inner + 2);
      to.drawImage(heat(mapAt(indexOf(n)), look.colours, whole, inner), x + 1, y + 1, inner, inner);
    }
    return sheet;
  }
  function headScene(large) { // a scene as those of map and links; `at` gives the number of a thumbnail
    const { font, ink, muted, mark } = look, rows = Math.ceil(thumbs / wrap), small = 0.8 * font;
    const names = flat ? { queries: [], keys: [] } : { queries: axes[down].labels, keys: axes[across].labels };
    const corner = flat ? axes[0].name : `${axes[down].name} ↓  ${axes[across].name} →`;
    const left = flat ? 4 : Math.ceil(fitted(names.queries, small, 7 * font).width + font), top = (flat ? 1.4 : 2.6) * font;
    const whole = stage.clientWidth - left - font, beside = whole - (large ? 0 : scene.width + 2 * font);
    const room = (beside >= wrap * font ? beside : whole) / wrap, fit = Math.min(room, (look.tall - top) / rows);
    const size = Math.floor(clamp(large ? Math.min(room, Math.max(fit, 3.2 * font)) : fit, font, (large ? 6 : 1.8) * font)), items = [];
    items.push(["text", 2, 0.7 * font, corner, small, muted]);
    fitted(names.keys, small, size).texts.forEach((text, c) => items.push(["text", left + (c + 0.5) * size, 2 * font, text, small, muted, { anchor: "middle" }]));
    fitted(names.queries, small, 7 * font).texts.forEach((text, r) => items.push(["text", left - 5, top + (r + 0.5) * size, text, small, muted, { anchor: "end" }]));
    items.push(["image", thumbnails(size), left, top, wrap * size, rows * size]);
    const others = flat ? [] : over(), n = chosen(), width = left + Math.max(wrap * size, pen.measureText(corner).width) + 6, bottom = top + rows * size + 3;
    items.push(["rect", left + (n % wrap) * size - 1, top + Math.floor(n / wrap) * size - 1, size, size, null, 1, [others.length ? look.hues[0] : mark, 3]]);
    others.forEach((c, m) => items.push(["rect", left + c * size - 1, top + model.get("index")[down] * size - 1, size, size, null, 1, [look.hues[m + 1], 3]]));
    if (spec.signed && large) items.push(...signItems(look, left + 8 * font, bottom + font));
    const at = (x, y) => {
      const c = Math.floor((x - left) / size), r = Math.floor((y - top) / size), hit = r * wrap + c;
      return c >= 0 && r >= 0 && c < wrap && hit < thumbs ? hit : null;
    };
    return { items, width: spec.signed && large ? Math.max(width, left + 16 * font) : width, height: bottom + (spec.signed && large ? 2 * font : 0), background: look.background, at };
  }
  const pointed = (event) => overview.at(event.offsetX, event.offsetY);
  grid.addEventListener("pointermove", (event) => {
    const hit = pointed(event);
    grid.title = hit === null ? "" : where(indexOf(hit));
    grid.style.cursor = hit === null ? "" : "pointer";
  });
  const open = () => { if (model.get("mode") === "heads") put(model, "mode", "map"); };
  grid.addEventListener("click", (event) => {
    const hit = pointed(event);
    if (hit === null) return;
    put(model, "index", indexOf(hit));
    open();
  });
  grid.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.key === "Enter") open();
    if (!step) return;
    event.preventDefault();
    const n = chosen(), r = Math.floor(n / wrap) + step[0], c = (n % wrap) + step[1], next = r * wrap + c;
    if (r >= 0 && c >= 0 && c < wrap && next < thumbs) put(model, "index", indexOf(next));
  });

  // ---- pointer and keyboard on the map and the links
  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    const hit = scene?.at(event.clientX - box.left, event.clientY - box.top) ?? null;
    const links = model.get("mode") === "links", before = JSON.stringify(links ? focus : cursor);
    if (JSON.stringify(hit) === before) return;
    if (links) focus = hit; else cursor = hit;
    redraw();
  };
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  const reveal = (event) => {
    if (!numbersOf || !cursor || model.get("mode") !== "map" || model.get("unit") !== "tokens") return;
    event.preventDefault();
    behind = JSON.stringify(behind) === JSON.stringify(cursor) ? null : cursor;
    redraw();
    if (behind) panel.scrollIntoView({ block: "nearest" });
  };
  canvas.addEventListener("click", (event) => { point(event); reveal(event); }); // a finger has left by now
  canvas.addEventListener("pointerleave", () => { cursor = focus = null; redraw(); });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { reveal(event); return; }
    if (event.key === "Escape") { // first the numbers, then the view
      if (!behind) { cursor = focus = null; canvas.blur(); }
      behind = null;
      redraw();
      return;
    }
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    if (model.get("mode") === "links") {
      const side = step[1] ? (step[1] < 0 ? "query" : "key") : focus?.side ?? "query";
      const count = (side === "query" ? map.queries : map.keys).length;
      focus = { side, at: focus ? clamp(focus.at + step[0], 0, count - 1) : 0 };
    } else {
      cursor = cursor ? [clamp(cursor[0] + step[0], 0, map.queries.length - 1), clamp(cursor[1] + step[1], 0, map.keys.length - 1)] : [0, 0];
    }
    redraw();
  });

  // ---- downloads: the present view, with its title
  function exportScene() {
    const index = model.get("index"), { font } = look, heads = model.get("mode") === "heads" && axes.length > 0;
    const heading = [spec.title, where(index, " · ", heads ? down : axes.length)].filter(Boolean).join(" · ");
    const inner = heads ? headScene(true) : sceneNow({ vector: true, tall: Infinity });
    const shift = (maps.length > 1 ? 3.6 : 2.2) * font, legend = maps.length > 1 ? [model.get("index")[across], ...over()] : [];
    const move = { rect: 1, text: 1, image: 2 };
    const items = inner.items.map((item) => {
      const copy = [...item];
      if (item[0] === "line") { copy[2] += shift; copy[4] += shift; } else copy[move[item[0]] + 1] += shift;
      return copy;
    });
    pen.font = `600 ${font}px ${FONT}`;
    const width = Math.max(inner.width, pen.measureText(heading).width + 2 * font);
    return { ...inner, width, height: inner.height + shift, items: [["text", font * 0.8, font * 1.2, heading, font, look.ink, { bold: true }],
      ...legend.map((n, m) => ["text", font * (0.8 + 6 * m), font * 2.6, `${last.name} ${last.labels[n]}`, font, look.hues[m], { bold: true }]), ...items] };
  }
  function download(blobOut, ending) {
    const name = [spec.title || "attention", ...axes.map((a, i) => `${a.name}-${a.labels[model.get("index")[i]]}`)].join("_");
    const link = make("a", { href: URL.createObjectURL(blobOut), download: `${name.replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 80)}.${ending}` });
    root.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
  const saveSvg = () => download(new Blob([toSvg(exportScene(), spec.alt)], { type: "image/svg+xml" }), "svg");
  const savePng = () => {
    const target = make("canvas");
    paint(target, exportScene(), 2);
    target.toBlob((out) => download(out, "png"), "image/png");
  };

  const quiet = listen(model, { index: redraw, overlay: redraw, mode: redraw, scale: redraw, unit: redraw, _shown: redraw, font: style });
  style();
  return () => { quiet(); stop(); };
}

// ---------------------------------------------------------------- frames
function renderFrames(model, el, spec, blob) {
  const sizes = spec.axes.map((a) => a.labels.length);
  const { root, style, stop } = makeRoot(model, el, spec.axes.map((a) => a.name).join(" and "), () => {});
  const sliders = makeSliders(model, spec.axes);
  const text = make("pre", { class: "attn-text" }), image = make("img"), frame = make("div", { class: "attn-frame", "aria-live": "polite" });
  const bar = make("div", { class: "attn-bar" }, fontButtons(model));
  root.append(sliders.node, frame, ...(spec.frames.some((f) => f.text !== undefined) ? [bar] : []));
  const urls = new Map();
  const redraw = () => {
    const place = model.get("index").reduce((n, i, a) => n * sizes[a] + i, 0), now = spec.frames[place];
    sliders.update();
    if (now.text !== undefined) { text.textContent = now.text; frame.replaceChildren(text); return; }
    if (!urls.has(place)) {
      const [start, length] = now.png;
      urls.set(place, URL.createObjectURL(new Blob([blob.slice(start, start + length)], { type: "image/png" })));
    }
    image.src = urls.get(place);
    image.alt = now.alt;
    frame.replaceChildren(image);
  };
  const quiet = listen(model, { index: redraw, font: style });
  style();
  redraw();
  return () => { quiet(); stop(); urls.forEach((url) => URL.revokeObjectURL(url)); };
}

async function render({ model, el }) {
  let stop = () => {}, turn = 0;
  const draw = async () => {
    const spec = model.get("_spec"), bytes = bytesOf(model, "_blob"), mine = ++turn;
    const blob = spec.packed ? await inflate(bytes) : bytes;
    if (mine !== turn) return; // there is another text by now
    stop();
    el.replaceChildren();
    stop = (spec.kind === "frames" ? renderFrames : renderAttention)(model, el, spec, blob);
  };
  const quiet = listen(model, { _spec: draw });
  await draw();
  return () => { turn++; quiet(); stop(); };
}
export default { render };
