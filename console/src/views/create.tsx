import { useState } from "preact/hooks";
import { APIError, messageOf } from "../api/client";
import { type Resource, apiVersionOf, pathOf } from "../api/discovery";
import type { KubeObject } from "../api/types";
import { parseYAML, yaml } from "../model/yaml";
import { objectPath, useApp } from "../ui/context";
import { Editor, type FieldError } from "../ui/editor";
import { Dialog, Failure } from "../ui/parts";
import { useSchema } from "./schema";

/** Creates an object of a resource from YAML. */
export function CreateDialog(props: { resource: Resource; namespace: string; close: () => void }) {
  const app = useApp();
  const { resource } = props;
  const [initial] = useState(() => yaml({ apiVersion: apiVersionOf(resource), kind: resource.kind, metadata: { name: "", ...(resource.namespaced ? { namespace: props.namespace || "default" } : {}) } }));
  const [text, setText] = useState(initial);
  const [problem, setProblem] = useState<{ message: string; fields: FieldError[] }>();
  const schema = useSchema(resource);
  const create = async (): Promise<void> => {
    setProblem(undefined);
    try {
      const object = parseYAML(text) as KubeObject;
      const created = await app.client.json<KubeObject>(pathOf(resource, object?.metadata?.namespace || props.namespace || "default"), {
        method: "POST", body: object, query: { fieldValidation: "Strict", fieldManager: "mainstay-console" },
      });
      props.close();
      app.go(objectPath(resource, created.metadata.namespace, created.metadata.name));
    } catch (error) {
      setProblem({ message: messageOf(error), fields: fieldErrors(error) });
    }
  };
  return (
    <Dialog title={`Create: ${resource.kind}`} close={props.close} wide>
      <Editor label="The new object" text={initial} changed={setText} schema={schema} errors={problem?.fields ?? noErrors} />
      {problem && <Failure message={problem.message} />}
      <footer>
        <button class="primary" onClick={() => void create()}>
          Create
        </button>
      </footer>
    </Dialog>
  );
}

const noErrors: FieldError[] = [];

/** Returns the errors at fields in the response of the server. */
export function fieldErrors(error: unknown): FieldError[] {
  if (!(error instanceof APIError)) return [];
  return (error.status.details?.causes ?? []).filter((cause) => cause.field).map((cause) => ({ field: cause.field!, message: cause.message ?? "" }));
}
