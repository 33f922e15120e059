// The front page's game: which head decided? A visitor accuses three of SmolLM2's 270 heads, guesses
// what the removal of each does to the next word, and sees the three among all others. `data` is the
// card of recipes/suspects.py, in thousandths; nothing is computed here but differences.
function suspects(box, data) {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const answer = data.tokens.indexOf(data.next[0]);
  const LAYERS = data.weights.length;
  const HEADS = data.weights[0].length;
  const LEAST = 5; // thousandths: a smaller change counts as none
  const ACCUSATIONS = 3;
  const accused = [];
  let looked = null; // [layer, head] that is pointed at
  let way = "mean";

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const draw = (tag, attributes, text = "") => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = text;
    return element;
  };
  const percent = (thousandths) => `${(thousandths / 10).toFixed(1)} %`;
  const called = ([layer, head]) => `layer ${layer} · head ${head}`;
  const weight = ([layer, head]) => data.weights[layer][head][answer];
  const change = ([layer, head]) => data[way][layer][head][0] - data.before[0];
  const verdict = (moved) => (Math.abs(moved) < LEAST ? "no different" : moved < 0 ? "less likely" : "more likely");
  const word = data.next[0].trim();

  // the sentence, under each token how much the head that is pointed at takes from it
  const bars = data.tokens.map((token) => {
    const bar = make("i");
    return [make("span", { class: "token" }, token, bar), bar];
  });
  const sentence = make("p", { class: "sentence" }, ...bars.map(([token]) => token), make("b", {}, " …"));
  const reads = make("p", { class: "reads" }, "Point at a head: the bars show where it looks from the last word.");

  // 270 heads; arrow keys move among them, and one of them is reached by Tab
  const cells = new Map();
  const grid = make("div", { class: "heads", role: "group", "aria-label": `${LAYERS} layers of ${HEADS} heads` });
  for (let layer = 0; layer < LAYERS; layer += 1) {
    for (let head = 0; head < HEADS; head += 1) {
      const at = [layer, head];
      const cell = make("button", {
        type: "button",
        tabindex: -1,
        "aria-label": `${called(at)}: ${Math.round(weight(at) / 10)} percent on ${word}`,
        style: `--share: ${Math.sqrt(weight(at) / 1000).toFixed(2)}; --layer: ${layer + 1}; --head: ${head + 1}`,
      });
      cell.addEventListener("pointerenter", () => look(at));
      cell.addEventListener("focus", () => look(at));
      cell.addEventListener("click", () => accuse(at));
      cells.set(`${at}`, cell);
      grid.append(cell);
    }
  }
  cells.get("0,0").tabIndex = 0;
  grid.addEventListener("keydown", (event) => {
    const upright = matchMedia("(max-width: 40rem)").matches; // layers run down on a phone
    const steps = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    const step = steps[event.key];
    if (!step || !looked) return;
    event.preventDefault();
    const [across, down] = upright ? [step[1], step[0]] : step;
    const layer = Math.min(LAYERS - 1, Math.max(0, looked[0] + across));
    const head = Math.min(HEADS - 1, Math.max(0, looked[1] + down));
    cells.get(`${[layer, head]}`).focus();
  });

  const trial = make("div", { class: "trial", "aria-live": "polite" });
  const plot = make("div", { class: "scatter" });

  function look(at) {
    for (const cell of cells.values()) cell.tabIndex = -1;
    cells.get(`${at}`).tabIndex = 0;
    looked = at;
    data.weights[at[0]][at[1]].forEach((share, i) => {
      bars[i][1].style.height = `${(share * 2.4) / 1000}rem`;
    });
    reads.textContent = `L${called(at).slice(1)} gives ${word} ${percent(weight(at))} of its attention.`;
  }

  function accuse(at) {
    if (accused.some((other) => `${other.at}` === `${at}`)) return;
    look(at);
    const guesses = ["less likely", "no different", "more likely"].map((guess) => {
      const button = make("button", { type: "button" }, guess);
      button.addEventListener("click", () => remove(at, guess));
      return button;
    });
    const asked = `You accuse ${called(at)}. If it is removed, how does ${word} come out?`;
    trial.replaceChildren(make("p", {}, asked), make("p", { class: "guesses" }, ...guesses));
    guesses[0].focus({ preventScroll: true });
    trial.scrollIntoView({ block: "nearest" });
  }

  function remove(at, guess) {
    accused.push({ at, guess });
    cells.get(`${at}`).classList.add("accused");
    show(at, guess);
    if (accused.length >= ACCUSATIONS) scatter();
    cells.get(`${at}`).focus({ preventScroll: true });
    trial.scrollIntoView({ block: "nearest" });
  }

  function show(at, guess) {
    const after = data[way][at[0]][at[1]];
    const rows = data.next.map((next, i) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, next.trim()),
        make("td", {}, make("i", { style: `width: ${data.before[i] / 10}%` }), make("i", { class: "after", style: `width: ${after[i] / 10}%` })),
        make("td", {}, `${percent(data.before[i])} → ${percent(after[i])}`),
      ),
    );
    const left = ACCUSATIONS - accused.length;
    const more = left > 0 ? ` Accuse ${left === 1 ? "one more" : `${left} more`}.` : "";
    const right = verdict(change(at)) === guess ? "as you said" : `you said ${guess}`;
    const said = `Without ${called(at)}, ${word} is ${verdict(change(at))}: ${percent(after[0])} instead of ${percent(data.before[0])}; ${right}.${more}`;
    trial.replaceChildren(make("p", {}, said), make("table", { class: "next" }, make("caption", {}, "The next word, with the head and without it"), ...rows));
  }

  function scatter() {
    const every = [...cells.keys()].map((key) => key.split(",").map(Number));
    const lowest = Math.min(...every.map(change));
    const highest = Math.max(...every.map(change));
    const across = (at) => 52 + weight(at) * 0.52;
    const down = (moved) => 16 + ((highest - moved) / (highest - lowest)) * 200;
    const hardest = every.reduce((a, b) => (weight(b) > weight(a) ? b : a));
    const missed = every.reduce((a, b) => (change(b) < change(a) ? b : a));
    const picture = draw("svg", { viewBox: "0 0 540 268", role: "img" });
    picture.setAttribute("aria-label", `A dot for each head: its weight on ${word} against what its removal does to ${word}. Yours: ${accused.map(({ at }) => `${called(at)}, ${percent(weight(at))}, ${percent(change(at))}`).join("; ")}.`);
    picture.append(draw("line", { x1: 46, x2: 536, y1: down(0), y2: down(0), class: "zero" }));
    for (const at of every) picture.append(draw("circle", { cx: across(at), cy: down(change(at)), r: 3.5, class: "other" }));
    for (const { at } of accused) {
      picture.append(draw("circle", { cx: across(at), cy: down(change(at)), r: 7, class: "yours" }));
      picture.append(draw("text", { x: across(at) + (weight(at) > 600 ? -10 : 10), y: down(change(at)) + 5, class: weight(at) > 600 ? "end" : "" }, `${at[0]}·${at[1]}`));
    }
    for (const share of [0, 250, 500, 750]) picture.append(draw("text", { x: 52 + share * 0.52, y: 240, class: "tick" }, `${share / 10} %`));
    for (const moved of [lowest, 0, highest]) picture.append(draw("text", { x: 42, y: down(moved) + 5, class: "end" }, moved > 0 ? `+${(moved / 10).toFixed(0)}` : (moved / 10).toFixed(0).replace("-", "−")));
    picture.append(draw("text", { x: 290, y: 262, class: "tick" }, `weight on ${word}`));
    picture.append(draw("text", { x: 52, y: 12 }, `change of ${word} without the head, in points`));
    const ways = [
      ["mean", "its mean"],
      ["zero", "zeros"],
    ].map(([name, told]) => {
      const button = make("button", { type: "button", "aria-pressed": way === name }, told);
      button.addEventListener("click", () => {
        way = name;
        scatter();
        plot.querySelector('[aria-pressed="true"]').focus({ preventScroll: true });
      });
      return button;
    });
    const looks = `Without the head that looks hardest at ${word}, ${called(hardest)}, ${word} is ${verdict(change(hardest))}. `;
    const needs = `The head whose removal costs ${word} most, ${called(missed)}, gives ${word} ${percent(weight(missed))} of its attention.`;
    plot.replaceChildren(
      picture,
      make("p", {}, "In place of the head stands ", ...ways.flatMap((button) => [button, " "])),
      make("p", { class: "moral" }, make("b", {}, looks + needs)),
      make("p", {}, "This is one sentence. ", make("a", { href: "chapters/15_causes.html" }, "Chapter 15"), " asks it of 240, and of two models."),
    );
  }

  box.replaceChildren(sentence, reads, grid, make("p", { class: "axes" }, `Each square is a head; layers 0 to ${LAYERS - 1} run along, and the darker a square, the harder the head looks at ${word}.`), trial, plot);
}
