// Runs the models, away from the page, so that the page never stands still. It is asked with
// {asked, kind: "load" | "read", model, …} and answers {asked, …}, {asked, progress} or {asked, error}.
import * as ort from "./ort.js";
import { ranked } from "./sampling.js";
import { tokenizerOf } from "./tokens.js";

ort.env.wasm.numThreads = self.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency) : 1;
const TOO_LONG = 20_000; // characters; so many are not even cut into tokens
const AT_ONCE = 32; // tokens that a model with a memory reads in one pass
const models = new Map();
let runtime = null; // onnxruntime itself, which is fetched once

// A file; with a version, from the browser's own store if it is there, else to be put there.
async function fetched(name, progress = () => {}, version = "") {
  const told = `The file live/${name} could not be fetched`;
  const url = new URL(`./${name}`, import.meta.url), plain = url.href;
  url.search = version;
  const store = version ? await self.caches?.open("attnlib").catch(() => null) : null;
  const kept = await store?.match(url);
  const response = kept ?? await fetch(url).catch((error) => {
    throw new Error(`${told}: ${error.message}.`);
  });
  if (!response.ok) throw new Error(`${told}: the server answered ${response.status}.`);
  const parts = [], reader = response.body.getReader();
  for (let loaded = 0; ;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    progress(loaded += value.length);
  }
  const whole = new Blob(parts);
  if (store && !kept) {
    for (const { url: old } of await store.keys()) if (old.startsWith(plain)) await store.delete(old);
    await store.put(url, new Response(whole)).catch(() => {}); // there may be no room
  }
  return whole.arrayBuffer();
}

async function load({ model }, progress) {
  let before = 0; // bytes of the files that are complete
  const part = async (name, version) => {
    const data = await fetched(name, (loaded) => progress(before + loaded), version);
    before += data.byteLength;
    return data;
  };
  const about = JSON.parse(new TextDecoder().decode(await fetched(`${model}.json`)));
  ort.env.wasm.wasmBinary = await (runtime ??= part("ort.wasm"));
  const file = new Uint8Array(await part(`${model}.onnx`, about.version));
  const session = await ort.InferenceSession.create(file, { extra: { session: about.session } });
  const shapes = Object.fromEntries(session.inputMetadata.map(({ name, shape }) => [name, shape]));
  models.set(model, { ...about, ...tokenizerOf(about), session, shapes, ids: [], rows: [], kept: null, without: "" });
  return about.end === null ? {} : { names: about.names, end: about.end, chat: about.chat };
}

const product = (sizes) => sizes.reduce((a, b) => a * b, 1);

// Reads ids. Then `rows` has, for each of them, all maps' weights on the tokens up to `keys`, and `logits`
// are of the next token. A model with a memory (`past`) reads only what follows the text that it knows, some
// tokens at a time; the heads in `off` write nothing.
async function run(model, ids, off) {
  const { session, shapes, reads } = model, memory = shapes.past?.slice(1), without = off.join();
  let known = 0;
  if (memory && model.without === without) while (known < ids.length - 1 && ids[known] === model.ids[known]) known++;
  model.rows.length = known;
  model.ids = ids.slice(0, known);
  do {
    const now = ids.slice(known, memory ? known + AT_ONCE : undefined);
    const fed = { ids: new ort.Tensor("int64", BigInt64Array.from(now, BigInt), [now.length]) };
    if (memory) {
      model.kept ??= new Float32Array(reads * product(memory));
      fed.past = new ort.Tensor("float32", model.kept.subarray(0, known * product(memory)), [known, ...memory]);
      const gate = new Float32Array(product(shapes.gate)).fill(1);
      for (const head of off) gate[head] = 0;
      fed.gate = new ort.Tensor("float32", gate, shapes.gate);
    }
    const { maps, kept, logits } = await session.run(fed), [rows, layers, heads, keys] = maps.dims;
    for (let t = 0, size = layers * heads * keys; t < rows; t++)
      model.rows.push({ keys, weights: maps.data.subarray(t * size, (t + 1) * size) });
    if (memory) model.kept.set(kept.data, known * product(memory));
    known += now.length;
    Object.assign(model, { ids: ids.slice(0, known), without, logits: logits?.data });
  } while (known < ids.length);
}

// The maps of a text, of ids that are text already, or of a question after these, and the logits of the next
// token. A model that writes reads the end of a text that is too long; one that only reads refuses it.
async function read({ model: name, text, ids, question, off = [] }) {
  const began = performance.now(), model = models.get(name), { names, most, reads, end } = model;
  if ((question ?? text)?.length > TOO_LONG)
    throw new Error(`This text has more than ${TOO_LONG.toLocaleString("en")} characters: make it shorter.`);
  let all = question === undefined ? ids ?? model.encode(text) : model.ask(question, ids);
  if (!all.length) all = [end]; // <|endoftext|> stands before every text
  if (end === null && all.length > most)
    throw new Error(`This text has ${all.length} tokens, and the page shows at most ${most}: make it shorter.`);
  // what a model remembers goes by halves, so that it need not read all anew with every token
  const step = model.shapes.past ? reads / 2 : 1;
  const seen = all.slice(Math.ceil(Math.max(0, all.length - reads) / step) * step);
  await run(model, seen, off);
  const from = Math.max(0, seen.length - most), tokens = seen.slice(from).map((id) => names[id]);
  const next = end === null ? { text } : { text: model.decode(all), logits: model.logits, order: ranked(model.logits) };
  return { ids: all, ...next, seen: seen.length, shown: tokens.length, ...pack(model.rows, from, tokens),
    ms: performance.now() - began };
}

// As attnlib.widgets.payload packs maps: what widgets.js reads, and where it finds it.
function pack(rows, from, tokens) {
  const n = tokens.length, size = n * n, count = rows[from].weights.length / rows[from].keys;
  const exactAt = Math.ceil((4 + size) * count / 4) * 4;
  const bytes = new Uint8Array(exactAt + 4 * count * size);
  const scales = new Float32Array(bytes.buffer, 0, count), exact = new Float32Array(bytes.buffer, exactAt);
  const shown = rows.slice(from);
  for (let m = 0; m < count; m++) {
    const map = exact.subarray(m * size, (m + 1) * size);
    shown.forEach(({ keys, weights }, i) => {
      map.set(weights.subarray(m * keys + from, m * keys + Math.min(keys, from + n)), i * n);
    });
    let top = 0;
    for (let k = 0; k < size; k++) if (map[k] > top) top = map[k];
    scales[m] = top;
    const to = 4 * count + m * size, step = top ? 255 / top : 0;
    for (let k = 0; k < size; k++) bytes[to + k] = Math.round(map[k] * step);
  }
  const unit = { name: "tokens", rows: n, cols: n, queries: [tokens], keys: [tokens], scales: [0, 4 * count],
    maps: [4 * count, count * size], exact: [exactAt, 4 * count * size] };
  return { unit, blob: bytes.buffer };
}

addEventListener("message", async ({ data: { asked, kind, ...rest } }) => {
  try {
    const answer = await { load, read }[kind](rest, (loaded) => postMessage({ asked, progress: loaded }));
    postMessage({ asked, ...answer }, answer.blob ? [answer.blob] : []);
  } catch (error) {
    postMessage({ asked, error: error.message });
  }
});
