// Links as a scene: destinations on the left, sources on the right, and a line for each weight.
// The links of several maps lie over one another, each in a colour of its own.

import { clamp } from "./elements.js";
import { strongLinks } from "./data.js";
import { fitted, labelling, lineItem, numbered, rectItem, textItem } from "./drawing.js";

const MOST_LINKS = 600;

// Sizes in pixels; the lines run from x1 to x2, and a token has `room` pixels of height.
function layOutLinks(maps, { font, tall }, width) {
  const [{ queries, keys }] = maps;
  const tokens = Math.max(queries.length, keys.length);
  const top = 2.2 * font;
  const room = clamp((Math.min(46 * font, tall) - top) / tokens, 0.75, 1.75 * font);
  const { size, step } = labelling(room, font);
  const limit = 12 * font; // of the width of a label
  const left = fitted(queries, size, limit);
  const right = fitted(keys, size, limit);
  const marks = 7 * (maps.length - 1); // a stripe for every map but the first
  const number = step > 2 ? 2 * font : 0;
  const title = 9.5 * font;
  const full = Math.max(Math.min(width, 42 * font), 22 * font);
  return {
    tokens,
    top,
    room,
    size,
    step,
    marks,
    full,
    leftTexts: left.texts,
    rightTexts: right.texts,
    x1: Math.ceil(Math.max(left.width + number + marks, title) + 10),
    x2: full - Math.ceil(Math.max(right.width + number + marks, 0.65 * title) + 10),
    y: (token) => top + (token + 0.5) * room,
  };
}

function lineItems(maps, look, { x1, x2, y, room, tokens }, focus) {
  const { font, hues, upToOne } = look;
  const widest = clamp(0.8 * room, 1.2, 0.38 * font) / Math.sqrt(maps.length);
  const spread = Math.min(0.16 * room, 4.5); // so that no line hides another
  const links = maps.flatMap((map, number) =>
    strongLinks(map, focus, MOST_LINKS).map(([row, column, step]) => {
      return { row, column, step, number, share: map.share(step, upToOne) };
    }),
  );
  links.sort((a, b) => a.step - b.step);
  return links.slice(-MOST_LINKS).map(({ row, column, number, share }) => {
    const shift = (number - (maps.length - 1) / 2) * spread;
    return lineItem(x1, y(row) + shift, x2, y(column) + shift, {
      stroke: hues[number],
      strokeWidth: 0.4 + widest * share,
      alpha: clamp(focus ? 0.25 + share : 0.95 * share, 0.04, 1),
      curved: tokens <= 64,
    });
  });
}

// How strongly the token in focus and one on the other side are linked, in each map.
function sharesWithFocus(maps, focus, side, place, upToOne) {
  if (!focus || focus.side === side) return maps.map(() => 0);
  const [row, column] = side === "key" ? [focus.at, place] : [place, focus.at];
  const isDrawn = (map) => side === "query" || column >= map.skip;
  return maps.map((map) => (isDrawn(map) ? map.share(map.step(row, column), upToOne) : 0));
}

// The tokens of one side, those that are linked with the one in focus with a stripe for each map.
function sideItems(maps, look, layout, focus, side) {
  const { font, ink, mark, hues, upToOne } = look;
  const { x1, x2, y, room, size, step, marks } = layout;
  const onLeft = side === "query";
  const texts = onLeft ? layout.leftTexts : layout.rightTexts;
  const x = onLeft ? x1 : x2;
  const inFocus = focus?.side === side;
  const items = [];
  texts.forEach((text, place) => {
    const isChosen = inFocus && focus.at === place;
    const shares = sharesWithFocus(maps, focus, side, place, upToOne);
    shares.forEach((share, number) => {
      if (share <= 0.02) return;
      const stripe = onLeft ? x - 0.24 * font - 4 - 7 * number : x - 2 + 7 * number;
      const top = y(place) - room / 2;
      const fill = hues[number];
      items.push(rectItem(stripe, top, 6, Math.max(room, 2), { fill, alpha: share }));
    });
    const isLinked = Math.max(...shares) > 0.25;
    if (place % step && !isChosen && !isLinked) return;
    const isClose = Math.abs(place - focus?.at) * room < font;
    if (step > 1 && inFocus && !isChosen && isClose) return;
    const from = onLeft ? x - 8 - marks : x + 8 + marks;
    const label = numbered(text, place, step);
    items.push(
      textItem(label, from, y(place), isChosen ? font : size, isChosen ? mark : ink, {
        anchor: onLeft ? "end" : "start",
        bold: isChosen || isLinked,
      }),
    );
  });
  return items;
}

// The scene of the links of maps over the same tokens; `focus` is { side: "query" | "key", at },
// the token whose links alone are shown, or null. The scene's `at` finds the token at a place.
export function linkScene(maps, look, width, focus) {
  const layout = layOutLinks(maps, look, width);
  const { font, muted, background } = look;
  const { x1, x2, top, room, tokens } = layout;
  const items = [
    textItem("destination (query)", x1 - 6, 0.9 * font, font, muted, { anchor: "end" }),
    textItem("source (key)", x2 + 6, 0.9 * font, font, muted),
    ...lineItems(maps, look, layout, focus),
    ...sideItems(maps, look, layout, focus, "query"),
    ...sideItems(maps, look, layout, focus, "key"),
  ];
  function at(x, y) {
    const side = x < (x1 + x2) / 2 ? "query" : "key";
    const count = (side === "query" ? maps[0].queries : maps[0].keys).length;
    const token = Math.floor((y - top) / room);
    return token >= 0 && token < count ? { side, at: token } : null;
  }
  const height = Math.ceil(top + tokens * room + 0.5 * font);
  return { items, width: layout.full, height, background, at };
}
