// A box for a text of the reader's own, where a kernel runs that can answer it.

import { listen, make, put } from "./elements.js";

// The box and what is said of the last text; null on a page without a kernel.
export function makeTextBox(model) {
  const caption = model.get("_caption");
  if (!caption) return null;
  const input = make("input", { type: "text", "aria-label": caption, spellcheck: "false" });
  const said = make("p", { role: "status" });
  input.addEventListener("change", () => {
    const text = input.value;
    model.set("_said", "The model reads …"); // until it has answered
    put(model, "text", text);
  });
  const update = () => {
    input.value = model.get("text");
    said.textContent = model.get("_said");
  };
  const stop = listen(model, { text: update, _said: update });
  update();
  const element = make("div", { class: "attn-typed" }, make("label", {}, caption, input), said);
  return { element, stop };
}
