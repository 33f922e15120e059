// A scene is a list of items in pixels; it is painted on a canvas, or written as SVG, alike.
// An item has a `shape`, which names what draws it below, and what that asks for.

import { clamp, make } from "./elements.js";

const FONT = 'system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
const BEND = 0.4; // how far along a curved line its tangents reach

// Rectangles may have { fill, alpha, stroke, strokeWidth }; texts { anchor, turn, bold };
// lines { stroke, strokeWidth, alpha, curved }.
export function rectItem(x, y, width, height, look) {
  return { shape: "rect", x, y, width, height, ...look };
}
export function imageItem(picture, x, y, width, height) {
  return { shape: "image", picture, x, y, width, height };
}
export function textItem(text, x, y, size, fill, look = {}) {
  return { shape: "text", text, x, y, size, fill, ...look };
}
export function lineItem(x1, y1, x2, y2, look) {
  return { shape: "line", x1, y1, x2, y2, ...look };
}

// The same item, farther down.
export function lowered(item, by) {
  if (item.shape === "line") return { ...item, y1: item.y1 + by, y2: item.y2 + by };
  return { ...item, y: item.y + by };
}

// ---------------------------------------------------------------- on a canvas
const brushes = {
  rect(context, { x, y, width, height, fill, alpha = 1, stroke, strokeWidth }) {
    context.globalAlpha = alpha;
    if (fill) {
      context.fillStyle = fill;
      context.fillRect(x, y, width, height);
    }
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = strokeWidth;
      context.strokeRect(x, y, width, height);
    }
  },

  image(context, { picture, x, y, width, height }) {
    context.globalAlpha = 1;
    context.drawImage(picture, x, y, width, height);
  },

  text(context, { text, x, y, size, fill, anchor = "start", turn = 0, bold = false }) {
    const font = `${bold ? "600 " : ""}${size}px ${FONT}`;
    if (context.lastFont !== font) context.font = context.lastFont = font; // slow, so only if new
    context.globalAlpha = 1;
    context.textAlign = { start: "left", end: "right", middle: "center" }[anchor];
    context.fillStyle = fill;
    if (!turn) {
      context.fillText(text, x, y);
      return;
    }
    context.save();
    context.translate(x, y);
    context.rotate(turn);
    context.fillText(text, 0, 0);
    context.restore();
  },

  line(context, { x1, y1, x2, y2, stroke, strokeWidth, alpha = 1, curved = false }) {
    const bend = curved ? BEND * (x2 - x1) : 0;
    context.globalAlpha = alpha;
    context.strokeStyle = stroke;
    context.lineWidth = strokeWidth;
    context.beginPath();
    context.moveTo(x1, y1);
    if (curved) context.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
    else context.lineTo(x2, y2);
    context.stroke();
  },
};

// Paint a scene; `dots` is the number of the screen's dots in a pixel.
export function paint(canvas, scene, dots) {
  const width = Math.max(1, Math.round(scene.width * dots));
  const height = Math.max(1, Math.round(scene.height * dots));
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  canvas.style.width = `${scene.width}px`;
  canvas.style.height = `${scene.height}px`;
  const context = canvas.getContext("2d");
  context.lastFont = "";
  context.setTransform(dots, 0, 0, dots, 0, 0);
  context.globalAlpha = 1;
  context.fillStyle = scene.background;
  context.fillRect(0, 0, scene.width, scene.height);
  context.imageSmoothingEnabled = false;
  context.textBaseline = "middle";
  for (const item of scene.items) brushes[item.shape](context, item);
}

// ---------------------------------------------------------------- as SVG
const escape = (text) =>
  String(text)
    .replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "");

const tags = {
  rect({ x, y, width, height, fill = "none", alpha = 1, stroke, strokeWidth }) {
    const edge = stroke ? ` stroke="${stroke}" stroke-width="${strokeWidth}"` : "";
    const box = `x="${x}" y="${y}" width="${width}" height="${height}"`;
    return `<rect ${box} fill="${fill}" opacity="${alpha}"${edge}/>`;
  },

  image({ picture, x, y, width, height }) {
    const box = `x="${x}" y="${y}" width="${width}" height="${height}"`;
    const look = 'preserveAspectRatio="none" style="image-rendering:pixelated"';
    return `<image href="${picture.toDataURL()}" ${box} ${look}/>`;
  },

  text({ text, x, y, size, fill, anchor = "start", turn = 0, bold = false }) {
    const rotate = turn ? ` rotate(${(turn * 180) / Math.PI})` : "";
    const weight = bold ? ' font-weight="600"' : "";
    return (
      `<text transform="translate(${x} ${y})${rotate}" font-size="${size}"${weight} ` +
      `fill="${fill}" text-anchor="${anchor}" dominant-baseline="central" ` +
      `xml:space="preserve">${escape(text)}</text>`
    );
  },

  line({ x1, y1, x2, y2, stroke, strokeWidth, alpha = 1, curved = false }) {
    const bend = BEND * (x2 - x1);
    const end = curved ? `C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` : `L${x2} ${y2}`;
    const look = `stroke="${stroke}" stroke-width="${strokeWidth}" opacity="${alpha}"`;
    return `<path d="M${x1} ${y1}${end}" fill="none" ${look}/>`;
  },
};

export function toSvg({ width, height, background, items }, title) {
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
    `viewBox="0 0 ${width} ${height}" font-family="${escape(FONT)}" role="img">` +
    `<title>${escape(title)}</title>` +
    `<rect width="100%" height="100%" fill="${background}"/>` +
    `${items.map((item) => tags[item.shape](item)).join("\n")}</svg>`
  );
}

// ---------------------------------------------------------------- labels
const pen = make("canvas").getContext("2d"); // measures text
const measured = new WeakMap(); // tokens -> what `fitted` found: to measure is slow

export function widthOf(text, size, weight = "") {
  pen.font = `${weight}${size}px ${FONT}`;
  return pen.measureText(text).width;
}

function shortened(token, limit) {
  if (pen.measureText(token).width <= limit) return token;
  let text = token;
  while (text.length > 1 && pen.measureText(`${text}…`).width > limit) text = text.slice(0, -1);
  return `${text}…`;
}

// Tokens cut to a width, and the width of the widest.
export function fitted(tokens, size, limit) {
  if (!measured.has(tokens)) measured.set(tokens, new Map());
  const known = measured.get(tokens);
  const name = `${size} ${limit}`;
  if (!known.has(name)) {
    pen.font = `${size}px ${FONT}`;
    const texts = tokens.map((token) => shortened(token, limit));
    const width = Math.max(...texts.map((text) => pen.measureText(text).width));
    known.set(name, { texts, width });
  }
  return known.get(name);
}

// How large labels may be where each token has so many pixels, and every how many tokens one fits.
export function labelling(room, font) {
  const size = clamp(Math.floor(room * 0.95), Math.min(11, font), font);
  const needed = (1.05 * size) / room;
  if (needed <= 1) return { size, step: 1 };
  return { size, step: [2, 5, 10, 20, 50, 100].find((step) => step >= needed) ?? 200 };
}

// A label; where most are left out, it tells which token it is.
export const numbered = (text, place, step) => (step > 2 ? `${place} ${text}` : text);
