// What is wrong with the slides of a deck: [their number, complaints]. Called with the smallest size of code.
(smallest) => {
  const wrong = [];
  const clips = (style) => /auto|scroll|hidden|clip/.test(style.overflowX + style.overflowY);
  document.head.append(Object.assign(document.createElement("style"), { textContent:
    ".reveal .slides section, .fragment { display: block !important; visibility: visible !important; }" }));
  for (const section of Reveal.getSlides()) { // all at once: a slide is its sheet, as large as the screen
    const sheet = section.querySelector(".sheet"), screen = sheet.getBoundingClientRect();
    const number = Reveal.getSlidePastCount(section) + 1;
    const told = (what) => wrong.push(
      `${document.title}, slide ${number}, ${sheet.querySelector("h1, h2, h3")?.textContent}: ${what}`);
    if (screen.width > innerWidth + 1 || screen.height > innerHeight + 1) told("larger than the screen");
    for (const node of [sheet, ...sheet.querySelectorAll("*:not(pre *, math *, summary *)")]) {
      const box = node.getBoundingClientRect(), style = getComputedStyle(node);
      if (!box.width || !box.height) continue;
      const name = `${node.tagName} ${node.className}`;
      const out = Math.max(screen.left - box.left, screen.top - box.top,
        box.right - screen.right, box.bottom - screen.bottom);
      if (out > 1) { told(`${name} reaches ${out} px out of the screen`); break; }
      const wide = node.scrollWidth - node.clientWidth;
      const high = node.scrollHeight - node.clientHeight;
      if (clips(style) && Math.max(wide, high) > 2) {
        told(`${name} is cut or scrolls by ${wide} × ${high} px`);
        break;
      }
      if (node.tagName === "PRE" && !node.closest(".attn") && parseFloat(style.fontSize) < smallest)
        told(`code of ${style.fontSize}`);
    }
    const bold = [...sheet.querySelectorAll("strong")].map((node) => node.textContent);
    const asks = bold.findIndex((text) => /^Predict/.test(text));
    if (asks >= 0) { // what stands below the question on its slide?
      const question = [...sheet.querySelectorAll("strong")][asks];
      const block = [...sheet.children].find((node) => node.contains(question));
      if (block.nextElementSibling) told("something stands below a prediction");
    }
  }
  return [Reveal.getTotalSlides(), wrong];
}
