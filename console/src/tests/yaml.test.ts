import assert from "node:assert/strict";
import test from "node:test";
import { parseYAML, yaml } from "../model/yaml";

test("parseYAML returns the values of kubectl", () => {
  for (const [text, want] of [
    ["0400", 256], ["0o17", 15], ["0x1f", 31], ["089", 89], ["1_000", 1000], ["+5", 5], ["-0644", -420], ["1e3", 1000], [".5", 0.5],
    ["yes", true], ["off", false], ["True", true], ["yEs", "yEs"], ["~", null], ["", null],
    ["2026-01-02", "2026-01-02"], ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"], ["12:30", "12:30"], ["1:2:3.5", "1:2:3.5"], ["80:80", "80:80"],
    ['"0400"', "0400"], ["'yes'", "yes"], ["9007199254740993", 9007199254740993n], ["-9223372036854775808", -9223372036854775808n], ["9007199254740991", 9007199254740991],
  ] as [string, unknown][]) {
    assert.deepEqual(parseYAML(`a: ${text}\n`), { a: want }, text);
  }
  assert.deepEqual(parseYAML("a: &a {b: 1, c: 2}\nd:\n  <<: *a\n  c: 3\n"), { a: { b: 1, c: 2 }, d: { b: 1, c: 3 } });
  assert.throws(() => parseYAML("a: 1\na: 2\n"), /unique/);
  assert.throws(() => parseYAML("a: 1\n---\na: 2\n"), /multiple documents/);
});

test("yaml quotes strings that other parsers would convert", () => {
  for (const value of ["yes", "y", "no", "on", "0400", "0o17", "1_000", "1e3", "12:30", "2026-01-02", "2026-01-02T03:04:05Z", "<<", "~", "null", "0b1", ".5"]) {
    assert.equal(yaml({ [value]: value }), `"${value}": "${value}"\n`, value);
  }
});

test("yaml is the inverse of parseYAML", () => {
  for (const value of ["yes", "a\r\nb", " a\n b\n", "a\n\n", "\t", "#", "a: b", "\u2028", "\u0000", "---\n", "", 1, 1.5, 256, 9007199254740993n, -9223372036854775808n, true, null]) {
    assert.deepEqual(parseYAML(yaml({ value, list: [value] })), { value, list: [value] }, JSON.stringify(String(value)));
  }
});
