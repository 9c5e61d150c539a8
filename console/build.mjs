// Builds the console into internal/console/assets, or its unit tests into build/.
import { build } from "esbuild";
import { readFile, readdir, rm, writeFile } from "node:fs/promises";
import { gunzipSync, gzipSync } from "node:zlib";

const common = { bundle: true, jsx: "automatic", jsxImportSource: "preact", logLevel: "warning", legalComments: "none", charset: "utf8" };

if (process.argv.includes("--tests")) {
  await rm("build", { recursive: true, force: true });
  const tests = (await readdir("src/tests")).filter((file) => file.endsWith(".test.ts"));
  await build({ ...common, entryPoints: tests.map((file) => `src/tests/${file}`), outdir: "build", outExtension: { ".js": ".mjs" }, platform: "node", format: "esm", packages: "external" });
} else {
  const assets = "../internal/console/assets";
  const bundle = await build({ ...common, entryPoints: { console: "src/main.tsx" }, outdir: "/", write: false, minify: true, format: "esm", target: "es2023" });
  const files = new Map(bundle.outputFiles.map((file) => [file.path.slice(1), Buffer.from(file.contents)]));
  for (const name of ["index.html", "icon.svg"]) files.set(name, await readFile(`src/${name}`));
  for (const [name, content] of files) await writeCompressed(`${assets}/${name}.gz`, content);
  for (const name of await readdir(assets)) if (!files.has(name.replace(/\.gz$/, "")) || !name.endsWith(".gz")) await rm(`${assets}/${name}`);
}

/** Writes a compressed file, unless it has this content: other versions of zlib compress the same content to other bytes. */
async function writeCompressed(path, content) {
  const old = await readFile(path).then(gunzipSync, () => undefined);
  if (!old?.equals(content)) await writeFile(path, gzipSync(content, { level: 9 }));
}
