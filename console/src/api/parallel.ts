const limit = 6;

/** Calls work for all values, at most 6 at a time, and returns the results in the order of the values. */
export async function mapParallel<T, R>(values: T[], work: (value: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const run = async (): Promise<void> => {
    while (next < values.length) {
      const i = next++;
      results[i] = await work(values[i]!);
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, values.length) }, run));
  return results;
}
