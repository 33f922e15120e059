// The face of attnlib.widgets, drawn from what Python prepared (payload.py, frames.py).
// Plain modules without a dependency or a network; script.py joins them into one text.

import { listen } from "./elements.js";
import { bytesOf, inflate } from "./data.js";
import { AdversaryFace } from "./adversary.js";
import { AttentionFace } from "./attention.js";
import { FramesFace } from "./frames.js";
import { PatchingFace } from "./patching.js";
import { PREDICT_PARTS } from "./predict.js";
import { SuspectsFace } from "./suspects.js";

const FACES = {
  adversary: AdversaryFace,
  frames: FramesFace,
  patching: PatchingFace,
  suspects: SuspectsFace,
};

// Show a view in `el`, and anew whenever its model is given other maps.
async function render({ model, el }) {
  let face = null;
  let newest = 0;
  const draw = async () => {
    const mine = ++newest;
    const spec = model.get("_spec");
    const bytes = bytesOf(model, "_blob");
    const blob = spec.packed ? await inflate(bytes) : bytes;
    if (mine !== newest) return; // there is another text by now
    const typing = el.querySelector(".attn-typed :focus") !== null; // the reader, in the old box
    face?.stop();
    el.replaceChildren();
    const Face = FACES[spec.kind] ?? PREDICT_PARTS[spec.part] ?? AttentionFace;
    face = new Face(model, el, spec, blob);
    if (typing) el.querySelector(".attn-typed input")?.focus({ preventScroll: true });
  };
  const unlisten = listen(model, { _spec: draw });
  await draw();
  return () => {
    newest++;
    unlisten();
    face?.stop();
  };
}

export default { render };
