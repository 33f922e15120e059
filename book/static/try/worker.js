// Runs the models, away from the page, so that the page never stands still. It is asked with
// {asked, kind: "load" | "read", model, …} and answers {asked, …}, {asked, progress} or {asked, error}.
import * as ort from "./ort.js";
import { tokenizerOf } from "./tokens.js";

ort.env.wasm.numThreads = 1;
const TOO_LONG = 20_000; // characters; so many are not even cut into tokens
const models = new Map();
let runtime = null; // onnxruntime itself, which is fetched once

async function fetched(name, progress = () => {}) {
  const told = `The file live/${name} could not be fetched`;
  const response = await fetch(new URL(`./${name}`, import.meta.url)).catch((error) => {
    throw new Error(`${told}: ${error.message}.`);
  });
  if (!response.ok) throw new Error(`${told}: the server answered ${response.status}.`);
  const parts = [], reader = response.body.getReader();
  for (let loaded = 0; ;) {
    const { done, value } = await reader.read();
    if (done) return new Blob(parts).arrayBuffer();
    parts.push(value);
    progress(loaded += value.length);
  }
}

async function load({ model }, progress) {
  let before = 0; // bytes of the files that are complete
  const part = async (name) => {
    const data = await fetched(name, (loaded) => progress(before + loaded));
    before += data.byteLength;
    return data;
  };
  const about = JSON.parse(new TextDecoder().decode(await fetched(`${model}.json`)));
  ort.env.wasm.wasmBinary = await (runtime ??= part("ort.wasm"));
  const weights = await part(`${model}.onnx`);
  const session = await ort.InferenceSession.create(new Uint8Array(weights));
  models.set(model, { ...about, ...tokenizerOf(about), session });
  return about.end === null ? {} : { names: about.names, end: about.end };
}

// The maps of a text, or of ids that are text already, and the logits of the next token. A model
// that writes reads the last tokens of a text that is too long; one that only reads refuses it.
async function read({ model, text, ids }) {
  const began = performance.now(), { session, names, most, end, ...tokens } = models.get(model);
  if (text?.length > TOO_LONG)
    throw new Error(`This text has more than ${TOO_LONG.toLocaleString("en")} characters: make it shorter.`);
  let all = ids ?? tokens.encode(text);
  if (!all.length) all = [end]; // <|endoftext|> stands before every text
  if (end === null && all.length > most)
    throw new Error(`This text has ${all.length} tokens, and the page shows at most ${most}: make it shorter.`);
  const seen = all.slice(-most);
  const input = new ort.Tensor("int64", BigInt64Array.from(seen, BigInt), [seen.length]);
  const { maps, logits } = await session.run({ ids: input });
  const packed = pack(maps.data, maps.dims[0] * maps.dims[1], seen.map((id) => names[id]));
  return { ids: all, text: end === null ? text : tokens.decode(all), seen: seen.length,
    logits: logits?.data, ...packed, ms: performance.now() - began };
}

// As attnlib.widgets.payload packs maps: what widgets.js reads, and where it finds it.
function pack(weights, count, tokens) {
  const n = tokens.length, size = n * n;
  const exactAt = Math.ceil((4 + size) * count / 4) * 4;
  const bytes = new Uint8Array(exactAt + 4 * count * size);
  const scales = new Float32Array(bytes.buffer, 0, count);
  for (let m = 0; m < count; m++) {
    const map = weights.subarray(m * size, (m + 1) * size);
    let top = 0;
    for (let k = 0; k < size; k++) if (map[k] > top) top = map[k];
    scales[m] = top;
    const to = 4 * count + m * size, step = top ? 255 / top : 0;
    for (let k = 0; k < size; k++) bytes[to + k] = Math.round(map[k] * step);
  }
  bytes.set(new Uint8Array(weights.buffer, weights.byteOffset, 4 * count * size), exactAt);
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
