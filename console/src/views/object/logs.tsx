import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf } from "../../api/client";
import type { KubeObject } from "../../api/types";
import { useApp } from "../../ui/context";
import { Failure, Note } from "../../ui/parts";

const maxLines = 5000;

/** The log of a container, from the kubelet of its node. */
export function Logs(props: { pod: KubeObject }) {
  const { client } = useApp();
  const spec = props.pod.spec as { containers?: { name: string }[]; initContainers?: { name: string }[] } | undefined;
  const containers = [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])].map((container) => container.name);
  const [container, setContainer] = useState(containers[0] ?? "");
  const [lines, setLines] = useState<string[]>([]);
  const [error, setError] = useState("");
  const end = useRef<HTMLPreElement>(null);
  const { name, namespace } = props.pod.metadata;
  useEffect(() => {
    const controller = new AbortController();
    setLines([]);
    setError("");
    const read = async (): Promise<void> => {
      let pending: string[] = [];
      let frame = 0;
      const flush = (): void => {
        if (controller.signal.aborted) return; // the lines would become lines of the next container
        frame = 0;
        const added = pending;
        pending = [];
        setLines((old) => [...old, ...added].slice(-maxLines));
      };
      const query = { container, follow: "true", tailLines: "1000", timestamps: "true" };
      for await (const line of client.lines(`/api/v1/namespaces/${namespace}/pods/${name}/log`, { query, accept: "*/*", signal: controller.signal })) {
        pending.push(line);
        frame ||= requestAnimationFrame(flush);
      }
    };
    read().catch((failure: unknown) => !controller.signal.aborted && setError(messageOf(failure)));
    return () => controller.abort();
  }, [client, name, namespace, container]);
  useEffect(() => {
    end.current?.scrollTo(0, end.current.scrollHeight);
  }, [lines]);
  return (
    <>
      <label>
        Container{" "}
        <select value={container} onChange={(event) => setContainer(event.currentTarget.value)}>
          {containers.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      {error ? <Failure message={error} /> : lines.length === 0 && <Note>The container has not written anything yet.</Note>}
      <pre class="logs" ref={end} tabIndex={0} role="log" aria-label="Log">
        {lines.join("\n")}
      </pre>
    </>
  );
}
