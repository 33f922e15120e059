// Views on pages without a kernel. A view's state comes in a script of its own, which calls
// `attnView(name, state)`; it is asked for when its place is near the screen. Plain scripts, no
// modules: a browser loads those from a disk, too.
const waiting = new Map();
window.attnView = (name, state) => {
  const place = waiting.get(name);
  const el = make("div");
  place.replaceChildren(el);
  mount(el, state).then((model) => {
    place.model = model;
    place.dispatchEvent(new CustomEvent("attn-live", { bubbles: true }));
  });
};
function load(place) {
  if (waiting.has(place.dataset.view)) return;
  waiting.set(place.dataset.view, place);
  const script = make("script", { src: place.dataset.from });
  script.addEventListener("error", () => place.dispatchEvent(new CustomEvent("attn-missing")));
  document.head.append(script);
}
window.attnLoad = load;
const near = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen)
    if (isIntersecting) { near.unobserve(target); load(target); }
}, { rootMargin: "1000px" });
document.querySelectorAll(".attn-live").forEach((place) => near.observe(place));
document.querySelectorAll('[data-part="ask"]').forEach(load); // what follows is covered from the start
