/**
 * Returns the arguments of a command line: words that are separated by spaces. As in a POSIX shell, single quotes keep all
 * characters of a text, double quotes keep all except the backslash before a double quote or a backslash, and a backslash
 * outside of quotes keeps the next character. Nothing is expanded. Throws an error if a quote is not closed.
 */
export function parseCommandLine(line: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote = "";
  for (let i = 0; i < line.length; i++) {
    const [character, next] = [line[i]!, line[i + 1]];
    const escapes = character === "\\" && next !== undefined && quote !== "'" && (quote === "" || next === '"' || next === "\\");
    if (escapes) {
      word = (word ?? "") + next;
      i++;
    } else if (quote ? character === quote : character === "'" || character === '"') {
      quote = quote ? "" : character;
      word ??= ""; // '' is an empty word
    } else if (!quote && /\s/.test(character)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word = (word ?? "") + character;
    }
  }
  if (quote) throw new Error(`The command line has no closing ${quote}.`);
  if (word !== undefined) words.push(word);
  return words;
}
