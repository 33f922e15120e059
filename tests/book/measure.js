// What is wrong with the slides of a deck: [their kinds, complaints].
() => {
  const wrong = [], kinds = [];
  for (let number = 0; number < Reveal.getTotalSlides(); number++) Reveal.slide(number); // each is fitted when it is shown
  const everywhere = Object.assign(document.createElement("style"), { textContent:
    ".reveal .slides section { display: block !important; visibility: visible !important; } .cover { display: grid !important; }" });
  document.head.append(everywhere);
  for (const section of Reveal.getSlides()) { // all at once: a slide is its sheet, as large as the screen
    const sheet = section.querySelector(".sheet"), screen = sheet.getBoundingClientRect();
    const kind = sheet.className.replace("sheet ", ""), number = Reveal.getSlidePastCount(section) + 1;
    const told = (what) => wrong.push(`${document.title}, slide ${number}, ${kind}: ${what}`);
    kinds.push(kind);
    if (screen.width > innerWidth + 1 || screen.height > innerHeight + 1) told("larger than the screen");
    const smallest = 1.5 * parseFloat(getComputedStyle(document.documentElement).fontSize) - 0.1;
    for (const node of [sheet, ...sheet.querySelectorAll("*:not(pre *, math *, details > :not(summary), .attn *)")]) {
      const box = node.getBoundingClientRect(), style = getComputedStyle(node), name = `${node.tagName} ${node.className}`;
      if (!box.width || !box.height) continue;
      const frame = (node.closest(".cover, .body") ?? sheet).getBoundingClientRect();
      const out = Math.max(frame.left - box.left, frame.top - box.top, box.right - frame.right, box.bottom - frame.bottom);
      if (out > 2) { told(`${name} reaches ${Math.round(out)} px out of its place`); break; }
      const over = Math.max(node.scrollWidth - node.clientWidth, node.scrollHeight - node.clientHeight);
      if (/auto|scroll|hidden|clip/.test(style.overflowX + style.overflowY) && over > 2) {
        told(`${name} is cut by ${over} px`);
        break;
      }
      const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
      if (own && !node.closest(".attn-live") && parseFloat(style.fontSize) < smallest * (node.tagName === "CODE" ? 0.9 : 1))
        told(`${name} in ${style.fontSize}`);
    }
    const ends = [sheet.querySelector("h1, h2"), ...sheet.querySelectorAll(".asked, .body > p, .body li")];
    for (const end of ends) {
      const text = end.textContent.trim();
      if (!text || /[:,;(]$|\b(al|e\.g|i\.e|cf|vs|fig)\.$/i.test(text)) told(`"${text}" is no end`);
    }
    const parts = [...sheet.children].filter((node) => !node.matches("footer, .cover")).map((node) => node.cloneNode(true));
    parts.forEach((part) => part.querySelectorAll("math, .attn-live").forEach((node) => node.remove()));
    const words = parts.map((part) => part.textContent).join(" ").split(/\s+/).filter(Boolean).length;
    if (words > 130 && !["claims", "code", "table"].includes(kind)) told(`${words} words`);
    const shown = sheet.querySelector(".body .output .attn-stage, .body .output img"), box = shown?.getBoundingClientRect();
    const filled = shown?.naturalWidth ? Math.min(box.width / shown.naturalWidth, box.height / shown.naturalHeight) : 0;
    const [width, height] = filled ? [filled * shown.naturalWidth, filled * shown.naturalHeight] : [box?.width, box?.height];
    if (shown && width < 0.85 * screen.width && height < 0.55 * screen.height)
      told(`a figure of ${Math.round(width)} × ${Math.round(height)} px`);
    const under = sheet.querySelector(".cover > :last-child")?.getBoundingClientRect();
    if (under && under.height < 0.2 * screen.height) told("no room under the question");
  }
  everywhere.remove();
  return [kinds, wrong];
}
