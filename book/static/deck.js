// Starts a deck: a slide is as large as the screen, views are alive, a clicker turns the pages wherever
// the hand was last, folds open over their slide (C opens the first), and with ?print all slides stand
// on paper, two to a page, over their notes.
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

function fit(place) { // the largest text with which a view is no higher than its slide
  const { model } = place.querySelector(".attn-live"), sheet = place.closest(".sheet");
  const high = (node) => node.getBoundingClientRect().height;
  let small = 10, large = Math.max(10, Math.min(32, Math.round(1.6 * rem)));
  for (let font = large; small < large; font = Math.ceil((small + large) / 2)) {
    model.set("font", font);
    if (high(place) <= high(sheet) * (1 - 7.5 / tall)) small = font;
    else large = font - 1;
  }
  model.set("font", small);
}
function arrange(place) { // the sliders over the map, or beside it: as the map is wider
  const window = `${innerWidth} ${innerHeight}`, { model } = place.querySelector(".attn-live");
  if (!place.clientWidth || place.dataset.window === window) return; // not seen yet, or done
  place.dataset.window = window;
  const [over, beside] = [false, true].map((way) => {
    place.classList.toggle("beside", way);
    model.set("font", 9); // so that the next size draws it anew
    fit(place);
    return place.querySelector("canvas")?.getBoundingClientRect().width ?? 0; // a film of pictures has none
  });
  if (beside > over) return;
  place.classList.remove("beside");
  model.set("font", 9);
  fit(place);
}
function fitAll(inside = document) {
  all(".output", inside).forEach((place) => place.querySelector(".attn") && arrange(place));
  all(".sheet math[display=block]", inside).forEach(narrow);
}

function narrow(wide) { // a formula, in the largest text that is not too wide
  const room = wide.closest(".sheet").clientWidth - 4.8 * rem + 1;
  for (let size = 2.5; size >= 1.5; size -= 0.1) {
    wide.style.fontSize = `${size}rem`;
    if (wide.scrollWidth <= room && wide.getBoundingClientRect().width <= room) return;
  }
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
    Reveal.addKeyBinding({ keyCode: 67, key: "C", description: "Code of this slide" },
      () => Reveal.getCurrentSlide().querySelector("summary")?.click());
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
      for (const event of ["click", "input"]) place.addEventListener(event, () => requestAnimationFrame(() => fit(place)));
    }
    addEventListener("resize", () => { resize(); fitAll(Reveal.getCurrentSlide()); });
  }
  fitAll();
  window.ready = true;
}
start();
