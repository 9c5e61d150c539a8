import { useMemo, useRef, useState } from "preact/hooks";
import { APIError, messageOf } from "../../api/client";
import { type Resource, pathOf } from "../../api/discovery";
import type { KubeObject } from "../../api/types";
import { age, manifest, withoutManagedFields } from "../../model/format";
import { merge } from "../../model/merge";
import { type Manager, managerOf, managersOfLines } from "../../model/ownership";
import { parseYAML, yaml } from "../../model/yaml";
import { useApp } from "../../ui/context";
import { Difference, Editor, type FieldError, Viewer } from "../../ui/editor";
import { Failure, Note } from "../../ui/parts";
import { fieldErrors } from "../create";
import { useSchema } from "../schema";

/** The object as YAML with the managers of its fields, and its editor. */
export function YAMLTab(props: { resource: Resource; object: KubeObject; readOnly: boolean }) {
  const [edited, setEdited] = useState<KubeObject>();
  const text = useMemo(() => manifest(props.object), [props.object]);
  const managers = useMemo(() => managersOfLines(text, props.object.metadata.managedFields ?? []), [text]);
  const colors = useMemo(() => colorsOf(props.object), [props.object]);
  if (edited) return <Edit resource={props.resource} object={edited} live={props.object} close={() => setEdited(undefined)} rebase={setEdited} />;
  return (
    <>
      <div class="legend">
        {[...colors].map(([name, color]) => (
          <span key={name} class={`owner owner-${color}`}>
            {name}
          </span>
        ))}
        <span class="space" />
        {!props.readOnly && props.resource.verbs.includes("update") && <button onClick={() => setEdited(props.object)}>Edit</button>}
      </div>
      <Viewer label={`${props.object.kind} as YAML`} text={text} managers={managers} colors={colors} />
    </>
  );
}

/** Numbers the managers of an object, for their colors. */
function colorsOf(object: KubeObject): Map<string, number> {
  const names = new Set((object.metadata.managedFields ?? []).map((entry) => entry.manager ?? ""));
  return new Map([...names].map((name, i) => [name, i % 8]));
}

interface Review {
  result: KubeObject;
  sent: KubeObject;
}

/** Edits an object: the changes are verified by a dry run and shown before they are saved. */
function Edit(props: { resource: Resource; object: KubeObject; live: KubeObject; close: () => void; rebase: (object: KubeObject) => void }) {
  const app = useApp();
  const before = useMemo(() => manifest(props.object), [props.object]);
  const text = useRef(before); // the current text of the editor, which the user can change during requests
  const [start, setStart] = useState(before);
  const [review, setReview] = useState<Review>();
  const [problem, setProblem] = useState<{ message: string; fields: FieldError[]; conflict: boolean }>();
  const [overwritten, setOverwritten] = useState<string[]>([]); // fields that others changed, too
  const schema = useSchema(props.resource);
  const path = pathOf(props.resource, props.object.metadata.namespace, props.object.metadata.name);

  const write = (object: KubeObject, dryRun?: string): Promise<KubeObject> =>
    app.client.json<KubeObject>(path, { method: "PUT", body: object, query: { dryRun, fieldManager: "mainstay-console", fieldValidation: "Strict" } });
  const attempt = async (action: () => Promise<void>): Promise<void> => {
    setProblem(undefined);
    try {
      await action();
    } catch (error) {
      setReview(undefined);
      setProblem({ message: messageOf(error), fields: fieldErrors(error), conflict: error instanceof APIError && error.code === 409 });
    }
  };
  const check = (): Promise<void> =>
    attempt(async () => {
      const checked = text.current;
      const sent = parseYAML(checked) as KubeObject;
      const result = await write(sent, "All");
      if (text.current !== checked) return;
      setStart(checked); // the editor is removed during the review, and mounted again with this text
      setReview({ sent, result });
    });
  const save = (): Promise<void> =>
    attempt(async () => {
      await write(review!.sent);
      app.notify(`${props.object.metadata.name} was saved.`);
      props.close();
    });
  const rebase = (): Promise<void> =>
    attempt(async () => {
      const live = await app.client.json<KubeObject>(path); // the watch may not have delivered the change yet
      const merged = merge(withoutManagedFields(props.object), parseYAML(text.current), withoutManagedFields(live));
      text.current = yaml(merged.value);
      setStart(text.current);
      setOverwritten(merged.conflicts);
      props.rebase(live);
    });
  if (review) {
    return (
      <>
        <h2>Changes</h2>
        {overwritten.length > 0 && <Note kind="warning">You and others changed these fields. Your values replace theirs: {overwritten.join(", ")}.</Note>}
        <Difference label="The object now, and after saving" before={before} after={manifest(review.result)} />
        <div class="buttons">
          <button class="primary" onClick={() => void save()}>
            Save
          </button>
          <button onClick={() => setReview(undefined)}>Continue editing</button>
        </div>
      </>
    );
  }
  return (
    <>
      {problem && <Failure message={problem.message} />}
      {problem?.conflict && <Conflict before={props.object} live={props.live} rebase={() => void rebase()} />}
      <Editor label={`Edit ${props.object.metadata.name}`} text={start} changed={(value) => (text.current = value)} schema={schema} errors={problem?.fields ?? noErrors} />
      <div class="buttons">
        <button class="primary" onClick={() => void check()}>
          Review changes
        </button>
        <button onClick={props.close}>Cancel</button>
      </div>
    </>
  );
}

const noErrors: FieldError[] = [];

/** The changes of others since the user began to edit, with their managers. */
function Conflict(props: { before: KubeObject; live: KubeObject; rebase: () => void }) {
  const old = new Map((props.before.metadata.managedFields ?? []).map((entry) => [`${entry.manager}/${entry.subresource}`, entry.time]));
  const managers: Manager[] = (props.live.metadata.managedFields ?? []).filter((entry) => old.get(`${entry.manager}/${entry.subresource}`) !== entry.time).map(managerOf);
  return (
    <Note kind="warning">
      <p>
        The object has changed since you began to edit
        {managers.length > 0 && `: ${managers.map((manager) => `${manager.name}, ${age(manager.time)} ago`).join("; ")}`}.
      </p>
      <Difference label="The object when you began to edit, and now" before={manifest(props.before)} after={manifest(props.live)} />
      <button onClick={props.rebase}>Merge my changes into the current object</button>
    </Note>
  );
}
