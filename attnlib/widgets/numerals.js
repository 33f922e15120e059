// Numbers as they are written for a reader.

// A weight with two decimals, or with one digit where it would be read as 0.00.
export function weightInWords(weight) {
  if (weight === 0) return "0";
  if (weight < 5e-4) return weight.toExponential(0);
  if (weight < 5e-3) return String(Number(weight.toPrecision(1)));
  return weight % 1 ? weight.toFixed(2) : String(weight);
}

// A number of any size and sign with three digits; the sign is one that is read as "minus".
export function threeDigits(x) {
  const size = Math.abs(x);
  const sign = x < 0 ? "−" : "";
  if (size && size < 1e-3) return sign + size.toExponential(1);
  return sign + (size < 999 ? size.toPrecision(3) : size.toFixed(0));
}
