/** A requirement of a label selector. The operators are those of matchExpressions, and Gt and Lt of the textual form. */
export interface Requirement {
  key: string;
  operator: string;
  values?: string[];
}

/** Reports whether labels meet all requirements of a selector. */
export function matches(requirements: Requirement[], labels: Record<string, string> = {}): boolean {
  return requirements.every((requirement) => meets(requirement, labels));
}

function meets({ key, operator, values = [] }: Requirement, labels: Record<string, string>): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case "In":
      return value !== undefined && values.includes(value);
    case "NotIn":
      return value === undefined || !values.includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    case "Gt":
      return integer.test(value ?? "") && BigInt(value!) > BigInt(values[0]!);
    case "Lt":
      return integer.test(value ?? "") && BigInt(value!) < BigInt(values[0]!);
    default:
      return false;
  }
}

const integer = /^\d+$/;

/** Returns the requirements of the selector of a Service, or of a LabelSelector. */
export function requirementsOf(selector: Record<string, unknown>): Requirement[] {
  const structured = typeof selector["matchLabels"] === "object" || Array.isArray(selector["matchExpressions"]);
  const labels = Object.entries((structured ? selector["matchLabels"] : selector) ?? {}) as [string, string][];
  const expressions = structured ? ((selector["matchExpressions"] ?? []) as Requirement[]) : [];
  return [...labels.map(([key, value]) => ({ key, operator: "In", values: [value] })), ...expressions];
}

/** Parses the textual form of a label selector, such as app=web,tier!=db,env in (a,b),!old. Throws an error for a text with another syntax. */
export function parseSelector(text: string): Requirement[] {
  if (!text.trim()) return [];
  const tokens = new Tokens(text);
  const requirements: Requirement[] = [];
  do requirements.push(requirement(tokens));
  while (tokens.accept(","));
  if (tokens.next) throw tokens.unexpected("a comma");
  return requirements;
}

const comparisons: Record<string, string> = { "=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt" };
const sets: Record<string, string> = { in: "In", notin: "NotIn" };

function requirement(tokens: Tokens): Requirement {
  if (tokens.accept("!")) return { key: key(tokens), operator: "DoesNotExist" };
  const name = key(tokens);
  const symbol = tokens.next;
  if (symbol === "" || symbol === ",") return { key: name, operator: "Exists" };
  tokens.advance();
  const set = sets[symbol];
  if (set) return { key: name, operator: set, values: list(tokens) };
  const operator = comparisons[symbol];
  if (!operator) throw new Error(`The label selector has ${symbol} after ${name}, and not an operator.`);
  const value = text(tokens);
  if ((operator === "Gt" || operator === "Lt") && !integer.test(value)) throw new Error(`The label selector compares ${name} with "${value}", and not with an integer.`);
  return { key: name, operator, values: [value] };
}

const validKey = /^([a-z0-9]([-a-z0-9.]*[a-z0-9])?\/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?$/;
const validValue = /^([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?$/;

function key(tokens: Tokens): string {
  if (!validKey.test(tokens.next)) throw tokens.unexpected("a key");
  return tokens.advance();
}

/** Parses a value, which can be empty. */
function text(tokens: Tokens): string {
  if (tokens.next === "" || tokens.next === "," || tokens.next === ")") return "";
  if (!validValue.test(tokens.next)) throw tokens.unexpected("a value");
  return tokens.advance();
}

function list(tokens: Tokens): string[] {
  if (!tokens.accept("(")) throw tokens.unexpected("a list in parentheses");
  const values: string[] = [];
  do values.push(text(tokens));
  while (tokens.accept(","));
  if (!tokens.accept(")")) throw tokens.unexpected("a closing parenthesis");
  return values;
}

/** Tokens splits a selector into names and symbols. */
class Tokens {
  private readonly tokens: string[];
  private position = 0;

  constructor(text: string) {
    this.tokens = text.match(/==|!=|[,()=!<>]|[^\s,()=!<>]+/g) ?? [];
  }

  /** The next token; "" at the end. */
  get next(): string {
    return this.tokens[this.position] ?? "";
  }

  advance(): string {
    const token = this.next;
    this.position++;
    return token;
  }

  accept(token: string): boolean {
    if (this.next !== token) return false;
    this.position++;
    return true;
  }

  unexpected(wanted: string): Error {
    return new Error(`The label selector has ${this.next ? `"${this.next}"` : "nothing"} where ${wanted} is expected.`);
  }
}
