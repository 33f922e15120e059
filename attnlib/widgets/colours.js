// Colours of weights, and pictures of maps that have one dot for each cell.

import { make } from "./elements.js";

const channels = (hex) => [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
export const css = ([red, green, blue]) => `rgb(${red},${green},${blue})`;

// The 256 colours, each [red, green, blue], from the first anchor of a palette to its last.
export function ramp(anchors) {
  const stops = anchors.map(channels);
  return Array.from({ length: 256 }, (_, step) => {
    const place = (step / 255) * (stops.length - 1);
    const before = Math.min(stops.length - 2, Math.floor(place));
    const after = stops[before + 1];
    return stops[before].map((c, n) => Math.round(c + (place - before) * (after[n] - c)));
  });
}

export const colourOf = (map, step, { colours, upToOne }) =>
  colours[Math.round(map.share(step, upToOne) * 255)];

// The largest step of the cells of each dot, where a map has more cells than its picture dots.
function largestOfDots(map, width, height) {
  const rows = map.queries.length;
  const columns = map.keys.length;
  const dots = new Uint8Array(width * height);
  const across = Uint16Array.from({ length: columns }, (_, j) => (j * width) / columns);
  for (let row = 0; row < rows; row++) {
    const start = Math.floor((row * height) / rows) * width;
    const steps = map.row(row);
    for (let column = map.skip; column < columns; column++) {
      const dot = start + across[column];
      if (steps[column] > dots[dot]) dots[dot] = steps[column];
    }
  }
  return dots;
}

// A map as a picture: a dot for each cell, or, of at most `limit` dots a side, for several cells.
export function mapPicture(map, look, limit = Infinity) {
  const rows = map.queries.length;
  const columns = map.keys.length;
  const shrink = Math.max(1, Math.max(rows, columns) / limit);
  const width = Math.ceil(columns / shrink);
  const height = Math.ceil(rows / shrink);
  const pixels = Uint32Array.from({ length: 256 }, (_, step) => {
    const [red, green, blue] = colourOf(map, step, look);
    return (255 << 24) | (blue << 16) | (green << 8) | red;
  });
  const image = new ImageData(width, height);
  const dots = new Uint32Array(image.data.buffer);
  const steps = largestOfDots(map, width, height);
  for (let dot = 0; dot < dots.length; dot++) dots[dot] = pixels[steps[dot]];
  const canvas = make("canvas", { width, height });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

// The palette as a picture that is one dot wide, the largest weight on top, or one dot high, the
// largest weight on the right.
export function palettePicture(colours, isLying = false) {
  const [width, height] = isLying ? [256, 1] : [1, 256];
  const canvas = make("canvas", { width, height });
  const context = canvas.getContext("2d");
  colours.forEach((colour, step) => {
    context.fillStyle = css(colour);
    context.fillRect(isLying ? step : 0, isLying ? 0 : 255 - step, 1, 1);
  });
  return canvas;
}

// The one sense of the colours: 0 is the page, and the more a cell stands out, the more it is.
export const senseOf = ({ dark }) => (dark ? "brighter: more" : "darker: more");
