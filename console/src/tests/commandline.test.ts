import assert from "node:assert/strict";
import { test } from "node:test";
import { parseCommandLine } from "../model/commandline";

test("parseCommandLine", () => {
  for (const [line, want] of [
    ["", []],
    ["  \t ", []],
    ["sh", ["sh"]],
    ["  ls   -l\t/tmp ", ["ls", "-l", "/tmp"]],
    [`sh -c "echo a b"`, ["sh", "-c", "echo a b"]],
    [`sh -c 'echo "$HOME" \\n'`, ["sh", "-c", `echo "$HOME" \\n`]],
    [`"a \\" \\\\ \\n '"`, [`a " \\ \\n '`]],
    [`a\\ b \\' \\\\`, ["a b", "'", "\\"]],
    [`a"b c"'d e'f`, ["ab cd ef"]],
    [`'' "" x`, ["", "", "x"]],
    ["echo 🚀 $(ls) *", ["echo", "🚀", "$(ls)", "*"]],
    ["a\\", ["a\\"]],
    [`\\🚀`, ["🚀"]],
  ] as [string, string[]][]) {
    assert.deepEqual(parseCommandLine(line), want, line);
  }
  for (const line of ["'", `a "b`, `"a\\"`, `"it's`]) assert.throws(() => parseCommandLine(line), /no closing/, line);
});
