// Starts a deck: a slide is as large as the screen, texts and views are as large as their slide allows,
// the next key takes a question away from what it covers, a clicker turns the pages wherever the hand was
// last, folds open over their slide (C opens the code), and with ?print all slides stand on paper, two to
// a page, over their notes, and nothing is covered.
const printing = new URLSearchParams(location.search).has("print");
const tag = (name) => document.createElement(name);
const all = (what, inside = document) => [...inside.querySelectorAll(what)];
let rem = 16, tall = 45;
function resize() {
  tall = printing ? 45 : Math.max(45, Math.min(60, (80 * innerHeight) / innerWidth));
  rem = printing ? 16 : Math.min(innerWidth / 80, innerHeight / tall);
  document.documentElement.style.fontSize = `${rem}px`;
  document.documentElement.style.setProperty("--tall", tall);
}

const size = (place, font) => place.querySelector(".attn-live").model.set("font", font);

function fit(place) { // the largest text with which a view is no higher than its slide
  const room = place.closest(".body, .cover");
  let small = 10, large = Math.max(10, Math.min(32, Math.round(1.6 * rem)));
  for (let font = large; small < large; font = Math.ceil((small + large) / 2)) {
    size(place, font);
    if (fits(room)) small = font;
    else large = font - 1;
  }
  size(place, small);
}
function arrange(place) { // the sliders over the map, or beside it: as the map is wider
  const window = `${innerWidth} ${innerHeight}`;
  if (!place.clientWidth || place.dataset.window === window) return; // not seen yet, or done
  place.dataset.window = window;
  const [over, beside] = [false, true].map((way) => {
    place.classList.toggle("beside", way);
    size(place, 9); // so that the next size draws it anew
    fit(place);
    return place.querySelector("canvas")?.getBoundingClientRect().width ?? 0; // a film of pictures has none
  });
  if (beside > over) return;
  place.classList.remove("beside");
  size(place, 9);
  fit(place);
}
const high = (node) => node.getBoundingClientRect().height;
const fits = (box) => box.scrollHeight <= box.clientHeight + 1 && box.scrollWidth <= box.clientWidth + 1;
function shrink(box, most, least, good = () => fits(box)) { // the largest text, in rem, that is good
  for (let size = most; size > least - 0.01; size -= 0.1) {
    box.style.fontSize = `${size}rem`;
    if (good()) return;
  }
}
function fitText(sheet) {
  if (!sheet.clientWidth) return;
  const heading = sheet.querySelector("h2"), body = sheet.querySelector(".body"), cover = sheet.querySelector(".cover");
  if (heading) shrink(heading, 2.6, 2, () => high(heading) <= 0.15 * high(sheet));
  body.style.setProperty("--room", `${body.clientHeight}px`);
  all("td:first-child", body).forEach((cell) => cell.classList.toggle("short", cell.textContent.length < 28));
  all("th", body).forEach((cell) => cell.classList.toggle("short", cell.textContent.length < 8));
  body.classList.add("unwrapped"); // code is in lines of its own, if it can be
  const text = !body.querySelector(".attn") && !sheet.matches(".title"), most = sheet.matches(".claims, .list") ? 2.2 : 2.5;
  const code = all("pre code", body), right = (node) => node.getBoundingClientRect().right;
  const whole = () => fits(body) && code.every((lines) => right(lines) <= right(lines.parentElement));
  if (text) shrink(body, most, 1.5, whole);
  if (!whole()) {
    body.classList.remove("unwrapped");
    if (text) shrink(body, code.length ? 1.6 : most, 1.5);
  }
  if (!cover) return;
  const question = cover.firstElementChild, share = cover.querySelector(".covered") ? 0.62 : 0.42;
  shrink(question, 3, 1.6, () => high(question) <= share * high(cover));
}
function fitAll(inside = document) {
  const sheets = inside.matches?.(".sheet") ? [inside] : all(".sheet", inside);
  sheets.forEach(fitText);
  all(".output", inside).forEach((place) => place.querySelector(".attn") && arrange(place));
}

function opens(summary) { // what is folded, over the slide
  const dialog = tag("dialog"), shut = tag("button");
  shut.textContent = "Close";
  dialog.append(...[...summary.parentElement.children].filter((node) => node !== summary), shut);
  document.body.append(dialog);
  shut.addEventListener("click", () => dialog.close());
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  summary.addEventListener("click", (event) => { event.preventDefault(); dialog.showModal(); });
}

const covers = (section) => section.querySelector(".cover:not(.visible)");
function guard(section) { // what is covered is not reached by the keyboard, nor read aloud
  const covered = Boolean(covers(section)), cover = section.querySelector(".cover");
  all(".body, h2", section).forEach((part) => { part.inert = covered; });
  if (cover) cover.inert = !covered;
}

const alive = (place) => new Promise((done) => { // without its script the picture stays
  place.addEventListener("attn-live", done, { once: true });
  place.addEventListener("attn-missing", done, { once: true });
  window.attnLoad(place);
});

async function start() {
  resize();
  document.documentElement.classList.toggle("print", printing);
  document.querySelector(".reveal").classList.toggle("reveal", !printing); // whose styles hide all slides but one
  await Promise.all([...all(".attn-live").map(alive), document.fonts.ready]);
  await Promise.all(all("img").map((image) => {
    image.loading = "eager";
    return image.decode().catch(() => {});
  }));
  if (!printing) {
    all("section summary").forEach(opens);
    await Reveal.initialize({
      width: "100%", height: "100%", margin: 0, minScale: 1, maxScale: 1, center: false, hash: true,
      slideNumber: "c/t", controls: false, progress: true, transition: "none", backgroundTransition: "none",
      plugins: [RevealNotes], viewDistance: 2,
    });
    all("section").forEach(guard);
    for (const turned of ["fragmentshown", "fragmenthidden"])
      Reveal.on(turned, ({ fragment }) => {
        document.activeElement.blur();
        guard(fragment.closest("section"));
      });
    Reveal.addKeyBinding({ keyCode: 67, key: "C", description: "Code of this slide" }, () => {
      const slide = Reveal.getCurrentSlide(), code = all("summary", slide).find((name) => name.textContent === "Code");
      if (!covers(slide)) code?.click();
    });
    Reveal.on("slidechanged", ({ currentSlide }) => {
      document.activeElement.blur();
      fitAll(currentSlide);
    });
    addEventListener("keydown", (event) => { // a slider that was moved by hand would keep these keys
      const turn = { PageDown: Reveal.next, PageUp: Reveal.prev }[event.key];
      if (!turn || event.target.closest("dialog")) return;
      event.preventDefault();
      event.stopPropagation();
      turn();
    }, true);
    for (const place of all("section .output")) {
      if (!place.querySelector(".attn")) continue;
      for (const event of ["click", "input"]) place.addEventListener(event, () => requestAnimationFrame(() => place.closest(".cover") || fit(place)));
    }
    addEventListener("resize", () => { resize(); fitAll(Reveal.getCurrentSlide()); });
  }
  fitAll();
  window.ready = true;
}
start();
