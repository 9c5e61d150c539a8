import assert from "node:assert/strict";
import test from "node:test";
import { Client } from "../api/client";

/** Returns a client whose responses have a body of chunks, as in a browser without asynchronous iteration of streams. canceled is called if the client cancels it. */
function clientOf(chunks: string[], canceled: () => void = () => undefined): Client {
  const stream = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      const chunk = chunks.shift();
      if (chunk === undefined) controller.close();
      else controller.enqueue(new TextEncoder().encode(chunk));
    },
    cancel: canceled,
  });
  const response = new Response(stream);
  globalThis.fetch = () => Promise.resolve(response);
  return new Client("", { token: "", expired: () => undefined });
}

async function linesOf(client: Client): Promise<string[]> {
  const found: string[] = [];
  for await (const line of client.lines("/log", {})) found.push(line);
  return found;
}

test("lines does not need asynchronous iteration of streams", async (t) => {
  const iterator = Object.getOwnPropertyDescriptor(ReadableStream.prototype, Symbol.asyncIterator)!;
  Object.defineProperty(ReadableStream.prototype, Symbol.asyncIterator, { ...iterator, value: undefined });
  t.after(() => Object.defineProperty(ReadableStream.prototype, Symbol.asyncIterator, iterator));
  assert.deepEqual(await linesOf(clientOf(["a\nb", "c\n", "\n", "d"])), ["a", "bc", "", "d"]);
});

test("lines cancels the response if the reader stops", async () => {
  let canceled = false;
  for await (const line of clientOf(["a\n", "b\n", "c\n"], () => (canceled = true)).lines("/log", {})) {
    assert.equal(line, "a");
    break;
  }
  assert.ok(canceled);
});

test("watch waits if the server ends it immediately, so that callers do not repeat it without a pause", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  let ended = false;
  const read = async (): Promise<void> => {
    for await (const event of clientOf(['{"type":"ADDED","object":{}}\n']).watch("/pods", {})) assert.equal(event.type, "ADDED");
    ended = true;
  };
  const done = read();
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(!ended);
  t.mock.timers.tick(1000);
  await done;
});
