// Where one weight comes from, as a table: terms of q · k, √d_k, and the sum of the row.

import { make } from "./elements.js";
import { threeDigits } from "./numerals.js";

const SHOWN = 4; // terms that stand alone; the others are summed

// A row of the table: its name, and numbers that fill its last columns.
function line(name, ...numbers) {
  const heading = make("th", { scope: "row", colspan: 4 - numbers.length }, name);
  return make("tr", {}, heading, ...numbers.map((x) => make("td", {}, threeDigits(x))));
}

function ofProduct({ terms, product, score, width }) {
  const lines = terms.slice(0, SHOWN).map(({ dimension, query, key, product: term }) => {
    return line(String(dimension), query, key, term);
  });
  if (width > SHOWN) {
    const rest = terms.slice(SHOWN).reduce((sum, term) => sum + term.product, 0);
    lines.push(line(`the other ${width - SHOWN}`, rest));
  }
  lines.push(line("q · k, their sum", product));
  lines.push(line(`score: ${threeDigits(product)} ÷ √${width}`, score));
  return lines;
}

function ofSoftmax({ score, largest, power, total }) {
  const sign = largest < 0 ? "+" : "−";
  const difference = `${threeDigits(score)} ${sign} ${threeDigits(Math.abs(largest))}`;
  const quotient = `${threeDigits(power)} ÷ ${threeDigits(total)}`;
  return [
    line(`e^(${difference}): less the row’s largest`, power),
    line("sum of these over the row", total),
    line(`weight: ${quotient}`, power / total),
  ];
}

// The table of one cell. A weight that is 0, though its score would give more, is one that a mask
// hides; of a map that is known in steps only, a weight below half a hundredth may be 0.
export function numbersTable(map, [row, column], numbers) {
  const known = map.exact() ? 0 : 0.005;
  const isHidden = map.weight(row, column) === 0 && numbers.power / numbers.total > known;
  const title = `the query of “${map.queries[row]}” and the key of “${map.keys[column]}”`;
  const names = ["dimension", "q", "k", "q × k"].map((name) => make("th", { scope: "col" }, name));
  const end = isHidden ? [line("hidden by the mask: weight", 0)] : ofSoftmax(numbers);
  return make(
    "table",
    {},
    make("caption", {}, title),
    make("thead", {}, make("tr", {}, ...names)),
    make("tbody", {}, ...ofProduct(numbers), ...end),
  );
}
