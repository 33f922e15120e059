// What tests ask of the live page's own modules, one function below each name.

//: encode
async ([model, texts]) => {
  const { tokenizerOf } = await import("/live/tokens.js");
  const tokenizer = tokenizerOf(await (await fetch(`/live/${model}.json`)).json());
  return JSON.parse(texts).map((text) => tokenizer.encode(text));
}

//: read
async ([model, texts]) => { // as the page asks, and all the numbers of the answers
  const worker = (window.worker ??= new Worker("/live/worker.js", { type: "module" }));
  const ask = (question) => new Promise((done, failed) => {
    worker.onerror = ({ message }) => failed(new Error(message));
    worker.onmessage = ({ data }) => {
      if (data.error) failed(new Error(data.error));
      else if (data.progress === undefined) done(data);
    };
    worker.postMessage({ asked: 1, model, ...question });
  });
  const packed = async (buffer) => {
    const url = await new Promise((done) => {
      const reader = new FileReader();
      reader.onload = () => done(reader.result);
      reader.readAsDataURL(new Blob([buffer]));
    });
    return url.slice(url.indexOf(",") + 1);
  };
  const loaded = (window.loaded ??= new Set());
  if (!loaded.has(model)) await ask({ kind: "load" });
  loaded.add(model);
  const found = [];
  for (const [text, off] of texts) {
    const { unit, blob, ids, logits } = await ask({ kind: "read", text, off });
    const [start, length] = unit.exact;
    found.push({ unit, ids, maps: await packed(blob.slice(start, start + length)),
      logits: logits ? await packed(logits) : "" });
  }
  return found;
}

//: converse
async ([question, answer, other]) => {
  const { tokenizerOf } = await import("/live/tokens.js");
  const { ask } = tokenizerOf(await (await fetch("/live/smollm2.json")).json());
  const first = ask(question, [42]);
  return [first, ask(other, [...first, ...answer])];
}

//: sample
async (asked) => {
  const { nextDistribution } = await import("/live/sampling.js");
  return asked.map(([logits, ...settings]) => [...nextDistribution(logits, ...settings)]);
}

//: draw
async () => { // 1,000 numbers from 0 to 1, evenly
  const { draw } = await import("/live/sampling.js");
  const p = [0, 0.25, 0, 0.7, 0.05, 0];
  return Array.from({ length: 1000 }, (_, i) => draw(p, (i + 0.5) / 1000));
}

//: newest
async () => { // how many texts are read of 30 that are typed at once
  const root = document.getElementById("reviews-gpt"), box = root.querySelector("textarea");
  let runs = 0;
  root.addEventListener("try-shown", () => runs++);
  for (let k = 1; k <= 30; k++) {
    box.value = "film ".repeat(k);
    box.dispatchEvent(new Event("input"));
  }
  const done = () => root.querySelector("small").textContent.startsWith("32 tokens");
  for (let waited = 0; waited < 500 && !done(); waited++)
    await new Promise((later) => setTimeout(later, 20));
  return runs;
}

//: afresh
() => new Promise((done) => { // its first text, and its settings
  const root = document.getElementById("reviews-gpt");
  for (const one of root.querySelectorAll(".try-next input")) one.value = one.defaultValue;
  root.addEventListener("try-shown", done, { once: true });
  root.querySelector("[data-do=again]").click();
})
