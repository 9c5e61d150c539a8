// Regular expressions of schemas have the syntax of Go (RE2), and Go matches them in linear time. The regular expressions of
// the browser have a slightly different syntax and can take exponential time.

const maxInput = 256;

/** Patterns matches texts with regular expressions of schemas. It compiles each expression once. */
export class Patterns {
  private readonly compiled = new Map<string, RegExp | undefined>();

  /** Reports whether a text contains a match; undefined if the browser cannot decide it correctly and quickly. */
  matches(pattern: string, text: string): boolean | undefined {
    if (text.length > maxInput) return undefined;
    if (!this.compiled.has(pattern)) this.compiled.set(pattern, compile(pattern));
    return this.compiled.get(pattern)?.test(text);
  }
}

function compile(pattern: string): RegExp | undefined {
  if (/\[:|\[\^?\]/.test(pattern) || isExpensive(pattern)) return undefined; // [[:alpha:]] and []a] have another meaning in the browser
  try {
    return new RegExp(pattern, "u"); // with this flag, unknown escapes such as \z are errors
  } catch {
    return undefined;
  }
}

interface Group {
  /** The group begins with a separator, so that its repetitions can match a text in one way only. */
  separated: boolean;
  /** The group contains alternatives or an unbounded repetition. */
  ambiguous: boolean;
}

const tokens = /\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?:)?(?<separator>\\\.|[-/,:_@=])?|\)(?<repeated>[*+]|\{\d+,\d*\})?|(?<unbounded>[*+]|\{\d+,\})|(?<alternative>\|)/gu;

/** Reports whether an expression repeats a group that can match the same text in several ways: such an expression may take exponential time. */
function isExpensive(pattern: string): boolean {
  const groups: Group[] = [{ separated: false, ambiguous: false }];
  for (const { 0: token, groups: found = {} } of pattern.matchAll(tokens)) {
    const current = groups.at(-1)!;
    if (token.startsWith("(")) groups.push({ separated: found["separator"] !== undefined, ambiguous: false });
    else if (token.startsWith(")")) {
      groups.pop();
      const outer = groups.at(-1);
      if (!outer) return true; // not valid
      if (found["repeated"] && current.ambiguous && !current.separated) return true;
      if (found["repeated"] || current.ambiguous) outer.ambiguous = true;
    } else if (found["unbounded"] || found["alternative"]) current.ambiguous = true;
  }
  return false;
}
