import assert from "node:assert/strict";
import { test } from "node:test";
import { mapParallel } from "../api/parallel";

test("mapParallel returns the results in the order of the values, and limits the number of calls", async () => {
  let running = 0;
  let most = 0;
  const waiting: (() => void)[] = [];
  const results = mapParallel(Array.from({ length: 20 }, (_, i) => i), async (value) => {
    most = Math.max(most, ++running);
    await new Promise<void>((resolve) => waiting.push(resolve));
    running--;
    return value * 2;
  });
  // Later calls end first.
  for (let done = 0; done < 20; ) {
    const end = waiting.pop();
    if (end) done++;
    end?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.deepEqual(await results, Array.from({ length: 20 }, (_, i) => i * 2));
  assert.equal(most, 6);
});

test("mapParallel passes errors", async () => {
  await assert.rejects(mapParallel([1, 2], (value) => (value === 2 ? Promise.reject(new Error("failed")) : Promise.resolve(value))), /failed/);
  assert.deepEqual(await mapParallel([], () => Promise.resolve(1)), []);
});
