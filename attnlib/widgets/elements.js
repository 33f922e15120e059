// The parts of the page that every view is made of: its root, its sliders and its buttons.
// Text from outside enters only as text: through `textContent`, `append` or an attribute.

let slidersMade = 0; // every slider gets an id of its own
const FRAME = 800; // milliseconds between two positions that are played

// An element with attributes and children.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// An element of SVG with attributes, and a text in it.
export function drawn(tag, attributes, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

// Whether there is no pointer that could rest on a thing, as on a phone.
export const isTouched = () => matchMedia("(hover: none)").matches;

export const clamp = (x, low, high) => Math.max(low, Math.min(high, x));

// Set one name of the state that the browser shares with Python.
export function put(model, name, value) {
  model.set(name, value);
  model.save_changes();
}

// Call each handler whenever its name in the state changes; what this returns ends it.
export function listen(model, handlers) {
  const entries = Object.entries(handlers);
  for (const [name, handler] of entries) model.on(`change:${name}`, handler);
  return () => {
    for (const [name, handler] of entries) model.off(`change:${name}`, handler);
  };
}

// Whether text in this element is light, so that its background must be dark.
function hasLightInk(element) {
  const [red, green, blue] = getComputedStyle(element).color.match(/[\d.]+/g) ?? [0, 0, 0];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 128;
}

// Call `changed` when the page's theme may have changed; what this returns ends it.
function watchTheme(changed) {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", changed);
  const theme = new MutationObserver(changed);
  const names = ["class", "data-theme", "data-jp-theme-light"];
  for (const element of [document.documentElement, document.body])
    theme.observe(element, { attributes: true, attributeFilter: names });
  return () => {
    scheme.removeEventListener("change", changed);
    theme.disconnect();
  };
}

// The root of a view, in the colours of its surroundings; `restyled` is called after every change
// of its style. Keys that are pressed in it reach neither the notebook nor the slides.
export function makeRoot(model, el, label, restyled) {
  const root = make("div", {
    class: "attn",
    role: "group",
    "aria-label": label,
    "data-lm-suppress-shortcuts": "true",
    "data-prevent-swipe": "",
  });
  for (const name of ["keydown", "keyup", "keypress"])
    root.addEventListener(name, (event) => event.stopPropagation());
  let width = -1;
  let frame = 0;

  function style() {
    width = root.clientWidth;
    if (!width) {
      waitForPlace();
      return;
    }
    const font = model.get("font");
    root.classList.toggle("attn-dark", hasLightInk(el.isConnected ? el : document.body));
    root.classList.toggle("attn-narrow", width < 60 * font);
    root.classList.toggle("attn-phone", width < 40 * font);
    root.style.fontSize = `${font}px`;
    restyled();
  }
  // Without a width the view is out of sight, perhaps for a moment only, as when a theme changes.
  function waitForPlace() {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      if (root.clientWidth) style();
    });
  }

  el.append(root);
  const stopTheme = watchTheme(style);
  const size = new ResizeObserver(() => {
    if (root.clientWidth !== width) style();
  });
  size.observe(root);
  function stop() {
    cancelAnimationFrame(frame);
    stopTheme();
    size.disconnect();
  }
  return { root, style, stop };
}

// A button that moves through the positions of an axis, from where it stands to the end, and from
// the end anew. Where the reader wants no motion, every press moves one position on.
function makePlay(last, place, moved) {
  const isStill = matchMedia("(prefers-reduced-motion: reduce)");
  const button = make("button", { type: "button", class: "attn-play" });
  let timer = null;
  const show = () => {
    const words = isStill.matches ? "Next" : "Play";
    button.textContent = timer ? "Pause" : words;
    const regions = button.closest(".attn")?.querySelectorAll("[aria-live]") ?? [];
    for (const region of regions) region.setAttribute("aria-live", timer ? "off" : "polite");
  };
  function pause() {
    clearInterval(timer);
    timer = null;
    show();
  }
  function step() {
    if (place() < last) moved(place() + 1);
    if (place() >= last || !button.isConnected) pause();
  }
  button.addEventListener("click", () => {
    if (timer) return pause();
    if (place() >= last) moved(0);
    else if (isStill.matches) moved(place() + 1);
    if (!isStill.matches) timer = setInterval(step, FRAME);
    show();
  });
  show();
  return { button, pause };
}

// A native slider for one axis: the keyboard, touch and screen readers come with it.
function makeSlider({ name, labels, play }, place, moved) {
  const id = `attn-slider-${++slidersMade}`;
  const last = labels.length - 1;
  const input = make("input", { type: "range", id, min: 0, max: last, step: 1 });
  input.disabled = labels.length < 2;
  const player = play && last > 0 ? makePlay(last, place, moved) : null;
  input.addEventListener("input", () => {
    player?.pause();
    moved(Number(input.value));
  });

  const areNumbers = labels.every((label, place) => label === String(place));
  const value = make("b");
  const output = make("output", { for: id }, value, make("span"));
  output.lastChild.textContent = areNumbers ? ` of 0–${last}` : "";
  const longest = Math.max(...labels.map((label) => label.length));
  output.style.minWidth = `${Math.min(22, 0.75 * longest + (areNumbers ? 4 : 1))}em`;

  const element = make("div", { class: "attn-slider" }, make("label", { for: id }, name));
  if (player) element.append(player.button);
  element.append(input, output);
  function update(at) {
    if (input.value !== String(at)) input.value = at;
    value.textContent = labels[at];
    input.setAttribute("aria-valuetext", `${name} ${labels[at]}`);
  }
  return { element, update, stop: () => player?.pause() };
}

// One slider for every axis; together they set the model's index.
export function makeSliders(model, axes) {
  const sliders = axes.map((axis, number) => {
    const place = () => model.get("index")[number];
    return makeSlider(axis, place, (next) => {
      const index = [...model.get("index")];
      index[number] = next;
      put(model, "index", index);
    });
  });
  const update = () => {
    const index = model.get("index");
    sliders.forEach((slider, number) => slider.update(index[number]));
  };
  const elements = sliders.map((slider) => slider.element);
  const stop = () => sliders.forEach((slider) => slider.stop());
  return { element: make("div", { class: "attn-sliders" }, ...elements), update, stop };
}

// A button that does something.
export function makeButton(label, action, attributes = {}) {
  const button = make("button", { type: "button", ...attributes }, label);
  button.addEventListener("click", action);
  return button;
}

// Buttons of which one is pressed: a choice among the values of one name of the state.
export function makeChoice(model, name, caption, labels) {
  const buttons = Object.entries(labels).map(([value, label]) =>
    makeButton(label, () => put(model, name, value), { "data-value": value }),
  );
  const attributes = { class: "attn-group", role: "group", "aria-label": caption };
  const element = make("div", attributes, make("span", {}, caption), ...buttons);
  const update = () => {
    for (const button of buttons)
      button.setAttribute("aria-pressed", button.dataset.value === model.get(name));
  };
  return { element, update };
}

// Buttons that each do something: [label, hint, action] for each.
export function makeButtons(caption, actions, extraClass = "") {
  const buttons = actions.map(([label, hint, action]) =>
    makeButton(label, action, { title: hint, "aria-label": hint }),
  );
  const attributes = { class: `attn-group ${extraClass}`, role: "group", "aria-label": caption };
  return make("div", attributes, ...buttons);
}

export function makeFontButtons(model) {
  const change = (by) => put(model, "font", clamp(model.get("font") + by, 10, 32));
  return makeButtons("text size", [
    ["A−", "smaller", () => change(-2)],
    ["A+", "larger", () => change(2)],
  ]);
}
