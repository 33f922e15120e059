// From logits to the next token, by the rules of attnlib.decoding.

// softmax(logits / temperature), cut to the k most probable, cut to the smallest set whose mass
// reaches p, normalised after each cut; among equals the smaller id is kept. null: no cut.
// `order` is ranked(logits), for those who have it already.
export function nextDistribution(logits, temperature = 1, topK = null, topP = null, order = ranked(logits)) {
  const most = logits.reduce((a, b) => Math.max(a, b));
  const weights = Float64Array.from(logits, (x) => Math.exp((x - most) / temperature));
  const sum = (ids) => ids.reduce((total, id) => total + weights[id], 0);
  let kept = order.slice(0, topK ?? logits.length);
  if (topP !== null && topP < 1) {
    let before = 0, n = 0; // the mass of the n first
    for (const total = sum(kept); n < kept.length && before / total < topP; n++) before += weights[kept[n]];
    kept = kept.slice(0, n);
  }
  const p = new Float64Array(logits.length), mass = sum(kept);
  for (const id of kept) p[id] = weights[id] / mass;
  return p;
}

// All ids, the most probable first; among equals the smaller id.
export function ranked(logits) {
  return Uint32Array.from(logits, (_, id) => id).sort((a, b) => logits[b] - logits[a] || a - b);
}

// The id that a number from 0 to 1 falls on.
export function draw(p, number = Math.random()) {
  let before = 0, last = 0;
  for (let id = 0; id < p.length; id++) {
    if (p[id] === 0) continue;
    last = id;
    before += p[id];
    if (number < before) return id;
  }
  return last; // the sum of p may be rounded to just below 1
}
