// Text to ids as the course's tokenizers in Python do it, with the tokenizers of Hugging Face in
// JavaScript; `tests/book/test_live.py` compares the two.
import { Tokenizer } from "./tokenizers.js";

// Chinese characters beyond 16 bits: the library in Python puts spaces around them, too.
const RARE = /[\u{20000}-\u{2a6df}\u{2a700}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;

export function tokenizerOf({ tokenizer, end, chat }) {
  const found = new Tokenizer(tokenizer, {}), lowercase = tokenizer.normalizer?.lowercase;
  // A lone surrogate is read as U+FFFD. A capital Σ becomes σ also at the end of a word.
  const encode = (text) => {
    const whole = text.toWellFormed();
    const mended = lowercase ? whole.replace(RARE, " $& ").replaceAll("Σ", "σ") : whole;
    return found.encode(mended).ids;
  };
  const turn = (role, said) => [chat.start, ...encode(`${role}\n${said}`), chat.stop, ...encode("\n")];
  return {
    encode,
    // A conversation up to where its next answer begins, as attnlib.pretrained.chat has it: after what was said
    // before, or after the system's line.
    ask(question, before) {
      const stop = before.at(-1) === chat.stop ? [] : [chat.stop];
      const said = before[0] === chat.start ? [...before, ...stop, ...encode("\n")] : turn("system", chat.system);
      return [...said, ...turn("user", question), chat.start, ...encode("assistant\n")];
    },
    // The text of ids; the first bytes of a character that is not complete yet are left out.
    decode(ids) {
      const plain = ids.filter((id) => id !== end);
      const text = plain.length ? found.decode(plain, { clean_up_tokenization_spaces: false }) : "";
      return text.replace(/\ufffd+$/, "");
    },
  };
}
