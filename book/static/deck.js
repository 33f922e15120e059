// Puts a chapter's cells on slides that fit, then starts reveal.js. A cell begins a slide, a
// subslide, or goes on (chapters' slide types); where its blocks do not fit, another slide begins
// under the same heading. Figures and views shrink to half a slide before they move on. A
// prediction always ends its slide. Folded code and asides open over the slide.
const cells = document.getElementById("cells"), slides = document.querySelector(".slides");
const printing = new URLSearchParams(location.search).has("print");
const tag = (name, className = "") => Object.assign(document.createElement(name), { className });
const isHeading = (block) => /^H[1-6]$/.test(block.tagName);
const words = (node) => node.textContent.split(/\s+/).filter(Boolean).length;
let rem = 16;
function resize() {
  rem = printing ? 16 : 16 * Math.min(innerWidth / 1280, innerHeight / 720);
  document.documentElement.style.fontSize = `${rem}px`;
}

// ---------------------------------------------------------------- does it fit?
const stage = tag("div", "sheet"); // where everything is measured, out of sight
const bottom = (sheet) => { // of what a sheet holds, in px from its top
  const top = sheet.getBoundingClientRect().top;
  return Math.max(0, ...[...sheet.children].map((node) => node.getBoundingClientRect().bottom - top));
};
const floor = () => 42.6 * rem;
const fits = (sheet) => bottom(sheet) <= floor();
const shrinks = (block) => block.matches(".output") && block.querySelector("img, .attn-live");

function shrink(block, room) { // to this height in px; true if it fits without becoming too small
  const image = block.querySelector("img.figure"), view = block.querySelector(".attn");
  block.style.setProperty("--room", `${room / rem}rem`);
  if (view) return fitView(block, room);
  const told = image ? block.getBoundingClientRect().height - image.getBoundingClientRect().height : 0;
  if (told > 1) block.style.setProperty("--room", `${(room - told) / rem}rem`);
  return block.getBoundingClientRect().height <= room + 1;
}
function fitView(block, room) { // the largest text with which the view is no higher than its room
  const { model } = block.querySelector(".attn-live");
  const most = Math.min(32, Math.round(rem));
  for (let font = most; font >= 10; font--) {
    model.set("font", font);
    if (block.getBoundingClientRect().height <= room + 1) return true;
  }
  return false;
}
function narrow(sheet) { // tables and formulas that are too wide or too high become smaller
  for (const block of sheet.querySelectorAll("table, math[display=block]"))
    for (let size = 1; size >= 0.6; size -= 0.05) {
      block.style.setProperty("--size", block.tagName === "TABLE" ? `${size}em` : size);
      if (block.getBoundingClientRect().right <= sheet.getBoundingClientRect().right - 2.2 * rem) break;
    }
}

// ---------------------------------------------------------------- from blocks to sheets
function halves(block) { // a block that can be cut: its parts one by one, and how to wrap some of them
  const shell = () => block.cloneNode(false);
  if (/^[UO]L$/.test(block.tagName)) {
    const first = Number(block.getAttribute("start") ?? 1);
    return [[...block.children], (some, at) => {
      const list = shell();
      if (block.tagName === "OL") list.setAttribute("start", first + at);
      list.append(...some);
      return list;
    }];
  }
  if (block.matches("pre")) return [block.textContent.split("\n"), (some) => {
    const text = shell();
    text.textContent = some.join("\n");
    return text;
  }];
  if (block.tagName === "TABLE") return [[...block.querySelectorAll("tbody tr")], (some) => {
    const table = shell(), body = tag("tbody");
    if (block.tHead) table.append(block.tHead.cloneNode(true));
    body.append(...some);
    table.append(body);
    return table;
  }];
  return null;
}
function cut(block, sheet) { // as much of a block as fits under what is there, and the rest
  const parted = halves(block);
  if (!parted) return null;
  const [parts, wrap] = parted;
  let low = 0;
  for (let count = 1; count < parts.length; count++) {
    const some = wrap(parts.slice(0, count).map((p) => (p.cloneNode ? p.cloneNode(true) : p)), 0);
    sheet.append(some);
    const ok = fits(sheet);
    some.remove();
    if (!ok) break;
    low = count;
  }
  return low ? [wrap(parts.slice(0, low), 0), wrap(parts.slice(low), low)] : null;
}
const asks = (block) => [...block.querySelectorAll("strong")].some((node) => /^Predict/.test(node.textContent));

let heading = null; // the last one
function sheets(blocks) { // of one unit: everything from a (sub)slide's first cell to the next one's
  const made = [], sheet = stage;
  let bare = 0; // how many children a fresh sheet has
  const fresh = () => {
    stage.replaceChildren();
    if (heading && (made.length || !isHeading(blocks[0].block))) {
      const again = tag("h3", "again");
      again.append(...heading.cloneNode(true).childNodes);
      stage.append(again);
    }
    bare = stage.children.length;
  };
  const close = () => {
    if (stage.children.length > bare) {
      const kept = tag("div", "sheet");
      kept.append(...stage.children);
      made.push(kept);
    }
    fresh();
  };
  const put = (block) => {
    const empty = stage.children.length === bare;
    const room = floor() - bottom(sheet) - 0.5 * rem;
    sheet.append(block);
    if (!empty && isHeading(block)) { if (fits(sheet) && room > 12 * rem) return; block.remove(); close(); put(block); return; }
    if (shrinks(block)) {
      if (shrink(block, room) && (empty || room > 17 * rem)) return;
      if (empty) return;
    } else {
      narrow(sheet);
      if (fits(sheet)) return;
      block.remove();
      const two = (empty || room > 8 * rem || block.tagName === "UL") && !block.matches(".code") ? cut(block, sheet) : null;
      if (two) { sheet.append(two[0]); close(); put(two[1]); return; }
      if (empty) { sheet.append(block); return; } // nothing helps: a test names the slide
    }
    block.remove();
    const last = sheet.lastElementChild; // a heading goes along with what it stands over
    const along = last && isHeading(last) && stage.children.length > bare ? last : null;
    if (along) along.remove();
    close();
    if (along) sheet.append(along);
    put(block);
  };
  if (!blocks.length) return made;
  fresh();
  for (const { block, fragment } of blocks) {
    if (isHeading(block)) heading = block;
    if (fragment && stage.children.length > bare && !isHeading(block)) block.classList.add("fragment");
    put(block);
    if (stage.lastElementChild === block && stage.children.length === bare + 1) block.classList.remove("fragment");
    if (asks(block)) close();
  }
  close();
  return made;
}

// ---------------------------------------------------------------- from cells to units
function units() {
  const found = [];
  for (const cell of cells.children) {
    const kind = cell.dataset.kind;
    if (kind === "slide" || kind === "subslide" || !found.length) found.push({ kind, blocks: [], notes: [] });
    const unit = found.at(-1);
    if (kind === "skip" || kind === "notes") { unit.notes.push(cell); continue; }
    [...cell.children].forEach((block, n) => unit.blocks.push({ block, fragment: kind === "fragment" && n === 0 }));
  }
  return found;
}
function notes(unit, sheet, told) { // the minutes by the clock of the chapter's header, and the point
  const aside = tag("aside", "notes"), minutes = tag("p");
  minutes.textContent = `${told.from.toFixed(0)}–${told.to.toFixed(0)} min of ${told.all}`;
  aside.append(minutes);
  const point = [...sheet.querySelectorAll("strong")].find((node) => /^(Notice|Predict)/.test(node.textContent));
  if (point) aside.append(point.parentElement.cloneNode(true));
  for (const cell of unit.notes) aside.append(...cell.cloneNode(true).childNodes);
  unit.notes = []; // once
  return aside;
}

// ---------------------------------------------------------------- what opens over a slide
function opens(summary) {
  const dialog = tag("dialog"), shut = tag("button");
  const inside = [...summary.parentElement.children].filter((node) => node !== summary);
  shut.textContent = "Close";
  dialog.append(...inside.map((node) => node.cloneNode(true)), shut);
  inside.forEach((node) => node.remove());
  document.body.append(dialog);
  shut.addEventListener("click", () => dialog.close());
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  summary.addEventListener("click", (event) => { event.preventDefault(); dialog.showModal(); });
}

async function alive() { // every view has its state; without a script its picture stays
  const places = [...cells.querySelectorAll(".attn-live")];
  await Promise.all(places.map((place) => new Promise((done) => {
    place.addEventListener("attn-live", done, { once: true });
    place.addEventListener("attn-missing", done, { once: true });
    window.attnLoad(place);
  })));
}
function build() {
  const all = Number(cells.dataset.minutes), total = [...cells.children].reduce((n, cell) => n + words(cell), 0);
  let read = 0, stack = null;
  cells.before(stage);
  for (const unit of units()) {
    for (const sheet of sheets(unit.blocks)) {
      const section = tag("section"), from = (read / total) * all;
      if (printing) { document.body.append(sheet); continue; }
      read += words(sheet);
      section.append(sheet, notes(unit, sheet, { from, to: (read / total) * all, all }));
      if (unit.kind === "slide" || !stack) { stack = tag("section"); slides.append(stack); unit.kind = "-"; }
      stack.append(section);
    }
  }
  stage.remove();
  cells.remove();
}
async function start() {
  resize();
  document.documentElement.classList.toggle("print", printing);
  await Promise.all([alive(), document.fonts.ready]);
  await Promise.all([...document.images].map((image) => {
    image.loading = "eager";
    return image.decode().catch(() => {});
  }));
  document.querySelectorAll("#cells summary").forEach(opens);
  build();
  if (printing) { document.querySelector(".reveal").remove(); window.ready = true; return; }
  const refit = (block) => requestAnimationFrame(() => fitView(block, block.style.getPropertyValue("--room").replace("rem", "") * rem));
  for (const block of slides.querySelectorAll(".output")) {
    if (!block.querySelector(".attn")) continue;
    for (const event of ["click", "input"]) block.addEventListener(event, () => refit(block));
  }
  addEventListener("resize", () => { resize(); slides.querySelectorAll(".output").forEach((b) => b.querySelector(".attn") && refit(b)); });
  await Reveal.initialize({
    width: "100%", height: "100%", margin: 0, minScale: 1, maxScale: 1, center: false, hash: true,
    slideNumber: "c/t", controls: false, transition: "none", backgroundTransition: "none", plugins: [RevealNotes],
    viewDistance: 2, fragmentInURL: false,
  });
  window.ready = true;
}
start();
