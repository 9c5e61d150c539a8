// JSON with 64-bit integers. A number of JavaScript would round integers above 2^53, and a write of the object would change
// them, so they are of the type bigint.

/** Marks the digits of an integer in a string. It is random, so that no string of a response can contain it. */
const mark = `integer ${crypto.getRandomValues(new Uint32Array(4)).join()} `;

/** Parses JSON. Integers that a number does not represent exactly are of the type bigint. */
export function parseJSON(text: string): unknown {
  const marked = /\d{16}/.test(text) ? markIntegers(text) : text;
  if (marked === text) return JSON.parse(text);
  return JSON.parse(marked, (_, value: unknown) => (typeof value === "string" && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value));
}

/** Formats a value as JSON, as JSON.stringify does. */
export function formatJSON(value: unknown): string {
  let found = false;
  const text = JSON.stringify(value, (_, part: unknown) => {
    if (typeof part !== "bigint") return part;
    found = true;
    return `${mark}${part}`;
  });
  return found ? text.replaceAll(new RegExp(`"${mark}(-?\\d+)"`, "g"), "$1") : text;
}

/** Replaces the integers that are not safe by marked strings. */
function markIntegers(text: string): string {
  const token = /"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
  let result = "";
  let copied = 0;
  for (let match = token.exec(text); match; match = token.exec(text)) {
    if (match[0] === '"') {
      token.lastIndex = endOfString(text, match.index);
    } else if (isUnsafe(match[0])) {
      result += `${text.slice(copied, match.index)}"${mark}${match[0]}"`;
      copied = token.lastIndex;
    }
  }
  return result + text.slice(copied);
}

function isUnsafe(number: string): boolean {
  return /^-?[1-9]\d{15,}$/.test(number) && !Number.isSafeInteger(Number(number));
}

/** Returns the index after the string that begins at start. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text[end - 1 - escapes] === "\\") escapes++;
    if (escapes % 2 === 0) return end + 1;
  }
  return text.length;
}
