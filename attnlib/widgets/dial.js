// A needle between 0 and 1, drawn as SVG.

import { clamp, drawn } from "./elements.js";

const DIAL = { x: 110, y: 104, radius: 78, degrees: 80 }; // degrees from 0 to 1

const degreesOf = (share) => (clamp(share, -0.55, 1.55) - 0.5) * DIAL.degrees;

function onDial(share, radius) {
  const angle = (degreesOf(share) * Math.PI) / 180;
  return [DIAL.x + radius * Math.sin(angle), DIAL.y - radius * Math.cos(angle)];
}

// A needle between 0 and 1; `turn` takes it to a share, and `label` names the two ends.
export function makeDial(...labels) {
  const picture = drawn("svg", { viewBox: "-14 0 248 112", class: "attn-dial" });
  picture.setAttribute("aria-hidden", "true");
  const arc = (from, to, name) => {
    const [start, end] = [onDial(from, DIAL.radius), onDial(to, DIAL.radius)];
    const d = `M ${start} A ${DIAL.radius} ${DIAL.radius} 0 0 1 ${end}`;
    picture.append(drawn("path", { d, class: name }));
  };
  arc(-0.55, 0, "attn-arc attn-minus");
  arc(0, 1, "attn-arc attn-gap");
  arc(1, 1.55, "attn-arc");
  const ends = ["end", "start"].map((anchor, share) => {
    const [[x1, y1], [x2, y2]] = [onDial(share, DIAL.radius - 7), onDial(share, DIAL.radius + 7)];
    picture.append(drawn("line", { x1, y1, x2, y2, class: "attn-arc" }));
    const end = drawn("text", { x: x2, y: y2 - 3, "text-anchor": anchor }, labels[share]);
    picture.append(end);
    return end;
  });
  const label = (...texts) => ends.forEach((end, share) => (end.textContent = texts[share]));
  const needle = drawn("g", { class: "attn-needle" });
  const { x, y, radius } = DIAL;
  needle.style.transformOrigin = `${x}px ${y}px`;
  needle.append(drawn("path", { d: `M ${x - 3} ${y} L ${x} ${y - radius} L ${x + 3} ${y} Z` }));
  needle.append(drawn("circle", { cx: x, cy: y, r: 5 }));
  picture.append(needle);
  const turn = (share) => {
    needle.style.transform = `rotate(${degreesOf(share)}deg)`;
  };
  return { picture, turn, label };
}
