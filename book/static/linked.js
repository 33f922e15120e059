// Numbers that are the same thing, <data value="its name">, light up together: when one of them is
// pointed at, touched, or reached by the keyboard.
const sameNumbers = [...document.querySelectorAll("article data[value]")];
function lightNumbers({ target }) {
  const name = target.closest("data[value]")?.value;
  for (const number of sameNumbers) number.classList.toggle("lit", number.value === name);
}
if (sameNumbers.length)
  for (const event of ["pointerover", "focusin"]) document.addEventListener(event, lightNumbers);
for (const number of sameNumbers) if (!number.closest("td")) number.tabIndex = 0;
