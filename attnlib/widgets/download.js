// What is shown now, with its title, as a file.

import { make } from "./elements.js";
import { lowered, paint, textItem, toSvg, widthOf } from "./drawing.js";

// The scene under its title and, if several maps lie over one another, their names.
function sceneWithTitle(face) {
  const { atlas, spec, maps, look, mode, overlay } = face;
  const { font, ink, hues } = look;
  const isAll = mode === "heads";
  const inner = isAll ? face.overviewScene() : face.mainScene({ vector: true, tall: Infinity });
  const where = atlas.where(atlas.index, " · ", isAll ? atlas.axes.length - 2 : atlas.axes.length);
  const title = [spec.title, where].filter(Boolean).join(" · ");
  const names = maps.length > 1 ? [atlas.index.at(-1), ...overlay] : [];
  const shift = (names.length ? 3.6 : 2.2) * font;
  const items = [
    textItem(title, 0.8 * font, 1.2 * font, font, ink, { bold: true }),
    ...names.map((position, number) => {
      const name = `${atlas.last.name} ${atlas.last.labels[position]}`;
      const x = (0.8 + 6 * number) * font;
      return textItem(name, x, 2.6 * font, font, hues[number], { bold: true });
    }),
    ...inner.items.map((item) => lowered(item, shift)),
  ];
  const width = Math.max(inner.width, widthOf(title, font, "600 ") + 2 * font);
  return { items, width, height: inner.height + shift, background: inner.background };
}

function fileName({ spec, atlas }) {
  const { axes, index } = atlas;
  const places = axes.map(({ name, labels }, axis) => `${name}-${labels[index[axis]]}`);
  const name = [spec.title || "attention", ...places].join("_");
  return name.replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 80);
}

function download(face, content, ending) {
  const address = URL.createObjectURL(content);
  const link = make("a", { href: address, download: `${fileName(face)}.${ending}` });
  face.root.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

export function downloadSvg(face) {
  const text = toSvg(sceneWithTitle(face), face.spec.alt);
  download(face, new Blob([text], { type: "image/svg+xml" }), "svg");
}

export function downloadPng(face) {
  const canvas = make("canvas");
  paint(canvas, sceneWithTitle(face), 2);
  canvas.toBlob((content) => download(face, content, "png"), "image/png");
}
