// What is read out under the buttons, and what screen readers are told of the pictures.

import { isTouched, make } from "./elements.js";
import { strongest } from "./data.js";

const quoted = (token) => make("q", {}, token);
const bold = (text) => make("b", {}, text);
const small = (text) => make("small", {}, text);

// Something told of each map in turn; of several, after its colour and its name.
function ofEachMap(face, tell) {
  const { maps, overlay, look } = face;
  const { last, index } = face.atlas;
  if (maps.length === 1) return tell(maps[0], 0);
  const positions = [index.at(-1), ...overlay];
  return maps.flatMap((map, number) => {
    const colour = make("i");
    colour.style.background = look.hues[number];
    const name = small(`${last.name} ${last.labels[positions[number]]}: `);
    return [number ? " · " : "", colour, name, ...tell(map, number)];
  });
}

function ofCell({ map, cursor }) {
  const [row, column] = cursor;
  return [
    "destination ",
    quoted(map.queries[row]),
    " → source ",
    quoted(map.keys[column]),
    ": ",
    bold(map.say(row, column)),
    small(`  row ${row}, column ${column}`),
  ];
}

// The token in focus, and those that it is linked with most: three, or two in each of several maps.
function ofToken(face) {
  const { map, maps, focus } = face;
  const isQuery = focus.side === "query";
  const others = isQuery ? map.keys : map.queries;
  const cell = (other) => (isQuery ? [focus.at, other] : [other, focus.at]);
  const tell = (ofMap) =>
    others
      .map((token, other) => ({ token, cell: cell(other), weight: ofMap.weight(...cell(other)) }))
      .sort((a, b) => b.weight - a.weight)
      .slice(0, maps.length > 1 ? 2 : 3)
      .flatMap((link, rank) => {
        return [rank ? ", " : "", quoted(link.token), " ", bold(ofMap.say(...link.cell))];
      });
  return [
    isQuery ? "destination " : "source ",
    quoted((isQuery ? map.queries : map.keys)[focus.at]),
    isQuery ? " looks at " : " is seen by ",
    ...ofEachMap(face, tell),
  ];
}

// What the reader may do now, with a finger or with a pointer.
function hint({ mode }) {
  const [point, click] = isTouched() ? ["touch", "touch"] : ["point at", "click"];
  if (mode === "links") return `${point} a token for its links`;
  if (mode === "heads") return `${click} a map to open it`;
  return `${point} a cell for its weight`;
}

// What the first token takes of one map, and that it is shown although those of sinks are left out.
export function aboutFirst({ map, maps, mode, model }) {
  if (mode === "heads" || maps.length > 1) return "";
  const share = `takes ${Math.round(100 * map.first.share)} %`;
  return map.first.isSink || model.get("sink") === "shown" ? share : `${share}: shown`;
}

function ofStrongest(face) {
  const { atlas, maps, special, grid } = face;
  const tell = (map, number) => {
    const { cell, apart } = strongest(map, special);
    if (!cell) return [];
    const name = `strongest${apart ? ` (${apart} apart)` : ""}: `;
    const [query, key] = [map.queries[cell[0]], map.keys[cell[1]]];
    const parts = [quoted(query), " → ", quoted(key), " ", bold(map.say(...cell))];
    return number ? parts : [small(name), ...parts];
  };
  const isChoosing = document.activeElement === grid;
  const where = isChoosing ? `${atlas.where(atlas.index)}: ` : "";
  const then = maps.length === 1 ? [small(`   ${hint(face)}`)] : [];
  return [where, ...ofEachMap(face, tell), ...then];
}

// The read-out, as parts of the page.
export function readout(face) {
  if (face.mode === "links" && face.focus) return ofToken(face);
  if (face.mode === "map" && face.cursor) return ofCell(face);
  return ofStrongest(face);
}

export function mapLabel({ spec, atlas, map, read }) {
  const where = atlas.where(atlas.index, ", ");
  const name = [spec.alt, where].filter(Boolean).join(", ");
  const queries = `${map.queries.length} destinations (queries)`;
  const keys = `${map.keys.length} sources (keys)`;
  const enter = spec.numbers ? "Enter shows q · k, " : "";
  const arrows = "Arrow keys move over the cells and read out the weights";
  const now = read.textContent.trim();
  return `${name}: ${queries} by ${keys}. ${now}. ${arrows}, ${enter}Escape leaves.`;
}

export function smallLabel({ atlas, canvas }) {
  const where = atlas.where(atlas.index, ", ");
  const enter = canvas.hidden ? ", Enter opens" : "";
  return `all ${atlas.smallMaps} maps, chosen: ${where}; arrow keys choose${enter}`;
}
