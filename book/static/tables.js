// Tables with sentences beside a row's name: on a phone a row is a list, and each cell of it begins
// with the name of its column (book.css).
const LONG_CELL = 40; // characters; a narrow column would set more of them a word to a line
for (const table of document.querySelectorAll("article table.table")) {
  const columns = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
  const cells = [...table.querySelectorAll("tbody :is(th, td)")];
  const isLong = (cell) => cell.cellIndex > 0 && cell.textContent.length > LONG_CELL;
  if (columns.length < 4 || !cells.some(isLong)) continue;
  table.classList.add("sentences");
  for (const cell of cells)
    if (cell.textContent.trim()) cell.dataset.column = columns[cell.cellIndex];
}
