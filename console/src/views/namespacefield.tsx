import { metadataType } from "../api/client";
import type { KubeObject, List } from "../api/types";
import { useApp, useLoad } from "../ui/context";
import { Field } from "../ui/parts";

/** A text field with the namespaces as suggestions. A user who cannot list namespaces can type a name. */
export function NamespaceField(props: { value: string; apply: (namespace: string) => void }) {
  const { client } = useApp();
  const namespaces = useLoad(
    async (signal) => (await client.json<List<KubeObject>>("/api/v1/namespaces", { accept: metadataType, signal, query: { limit: "1000" } })).items ?? [],
    [client],
  );
  return (
    <>
      <Field label="Namespace" placeholder="All namespaces" value={props.value} apply={props.apply} list="namespaces" />
      <datalist id="namespaces">
        {namespaces.value?.map((namespace) => (
          <option key={namespace.metadata.name} value={namespace.metadata.name} />
        ))}
      </datalist>
    </>
  );
}
