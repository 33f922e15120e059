// What tests read off a drawn view: functions of its canvas, one below each name.

//: ink
canvas => { // drawn dots in the middle of the canvas, where only lines can be
  const { width, height } = canvas, x = Math.round(0.45 * width);
  const dots = canvas.getContext('2d').getImageData(x, 0, Math.round(0.1 * width), height).data;
  let drawn = 0;
  for (let i = 0; i < dots.length; i += 4) drawn += dots[i] + dots[i + 1] + dots[i + 2] < 700;
  return drawn;
}

//: places
grid => { // where each map's thumbnail is; the pointer finds them by what is told there
  const box = grid.getBoundingClientRect(), places = {};
  for (let clientY = box.top + 4; clientY < box.bottom; clientY += 8)
    for (let clientX = box.left + 4; clientX < box.right; clientX += 8) {
      grid.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY }));
      if (grid.title) places[grid.title] = [clientX, clientY];
    }
  return places;
}

//: reached
canvas => { // the dots of one row of the map, found by a pointer on all of them
  const { left, top, width, height } = canvas.getBoundingClientRect();
  const read = canvas.closest('.attn').querySelector('.attn-read'), clientY = top + 0.9 * height;
  let found = 0;
  for (let clientX = left; clientX < left + width; clientX += 2) {
    canvas.dispatchEvent(new PointerEvent('pointermove', { clientX, clientY }));
    found += read.innerText.includes('destination') ? 2 : 0;
  }
  return found;
}

//: dark
canvas => { // dots as dark as the palette's end
  const dots = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let found = 0;
  for (let i = 0; i < dots.length; i += 4)
    found += dots[i] === 29 && dots[i + 1] === 47 && dots[i + 2] === 99;
  return found;
}

//: hues
root => ["accent", "second", "third", "fourth"].map( // of the maps that lie over one another
  (name) => getComputedStyle(root).getPropertyValue(`--attn-${name}`).trim())

//: coloured
(canvas, hues) => { // dots of each colour, in the middle where only lines can be
  const { width, height } = canvas, x = Math.round(0.4 * width);
  const dots = canvas.getContext('2d').getImageData(x, 0, Math.round(0.2 * width), height).data;
  return hues.map((hue) => {
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(hue.slice(i, i + 2), 16));
    let found = 0;
    for (let i = 0; i < dots.length; i += 4)
      found += Math.abs(dots[i] - r) + Math.abs(dots[i + 1] - g) + Math.abs(dots[i + 2] - b) < 45;
    return found;
  });
}
