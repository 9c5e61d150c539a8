import assert from "node:assert/strict";
import test from "node:test";
import { formatJSON, parseJSON } from "../model/json";

const large = '{"a":9007199254740993,"b":[-9223372036854775808,18446744073709551615],"c":9007199254740991,"d":0.1234567890123456789,"e":"x"}';

test("parseJSON keeps integers that a number would round", () => {
  assert.deepEqual(parseJSON(large), {
    a: 9007199254740993n, b: [-9223372036854775808n, 18446744073709551615n], c: 9007199254740991, d: 0.12345678901234568, e: "x",
  });
});

test("parseJSON does not change strings", () => {
  for (const text of ["9007199254740993", '"9007199254740993', "\\", '\\"9007199254740993\\\\"', ":9007199254740993,", "integer 9007199254740993"]) {
    const value = { [text]: text, large: [text, 9007199254740993n] };
    assert.deepEqual(parseJSON(formatJSON(value)), value, text);
  }
});

test("parseJSON parses large texts", () => {
  const value = { text: 'a"\\'.repeat(3_000_000), integer: 9007199254740993n };
  assert.equal(formatJSON(parseJSON(formatJSON(value))), formatJSON(value));
});

test("parseJSON rejects invalid texts", () => {
  for (const text of ["", "{", '{"a":9007199254740993', '"9007199254740993', '{"a":09007199254740993}']) assert.throws(() => parseJSON(text), SyntaxError, text);
});

test("formatJSON is the inverse of parseJSON", () => {
  const text = '{"a":9007199254740993,"b":[-9223372036854775808,1,1.5,null,true,"9007199254740993"]}';
  assert.equal(formatJSON(parseJSON(text)), text);
});
