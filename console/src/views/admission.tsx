import { useMemo, useState } from "preact/hooks";
import { messageOf } from "../api/client";
import { type Discovery, type Resource, apiVersionOf, pathOf } from "../api/discovery";
import type { KubeObject, List, Status } from "../api/types";
import { seconds } from "../model/format";
import { formatJSON } from "../model/json";
import { type Metrics, parseMetrics, quantile, select, sum } from "../model/metrics";
import { parseYAML } from "../model/yaml";
import { objectPath, useApp, useLoad } from "../ui/context";
import { Editor } from "../ui/editor";
import { splitBase } from "../ui/location";
import { Failure, Link, Loading, Note, SimpleTable, Tabs } from "../ui/parts";
import { useSchema } from "./schema";

/** A changed field of an object. */
interface FieldChange {
  path: string;
  before?: unknown;
  after?: unknown;
}

/** The result of a policy or a webhook. */
interface Decision {
  policy?: string;
  binding?: string;
  param?: string;
  configuration?: string;
  webhook?: string;
  tookNanoseconds: number;
  unmetCondition?: string;
  evaluations?: { field: string; expression: string; valid?: boolean; message?: string }[];
  changes?: FieldChange[];
  failure?: string;
}

/** The call of an admission plugin. */
interface Step {
  plugin: string;
  phase: string;
  again?: boolean;
  tookNanoseconds: number;
  changes?: FieldChange[];
  warnings?: string[];
  auditAnnotations?: Record<string, string>;
  decisions?: Decision[];
  rejection?: string;
}

/** The response to a dry run with explain=admission. */
interface Explanation {
  kind: string;
  code: number;
  object?: KubeObject;
  status?: Status;
  plugins: Step[];
}

const example = `apiVersion: v1
kind: Pod
metadata:
  name: example
  namespace: default
spec:
  containers:
  - name: main
    image: nginx
`;

const tabs = ["Trace", "Webhooks and policies"];

export function Admission() {
  const app = useApp();
  const tab = app.place.query.get("tab") ?? tabs[0]!;
  const past = splitBase(app.place.base).moment !== "";
  return (
    <section>
      <h1>Admission</h1>
      <Tabs names={tabs} current={tab} select={(name) => app.setQuery({ tab: name })} />
      <div role="tabpanel" aria-label={tab}>
        {tab !== "Trace" ? <Inventory /> : past ? <Note>Only the present state has admission. Return to now to trace an object.</Note> : <Trace />}
      </div>
    </section>
  );
}

/** Shows the effect of each admission plugin on an object, by a dry run. */
function Trace() {
  const app = useApp();
  const [text, setText] = useState(example);
  const [explanation, setExplanation] = useState<Explanation>();
  const [error, setError] = useState("");
  const [all, setAll] = useState(false);
  const schema = useSchema(useMemo(() => resourceOf(app.discovery, text), [app.discovery, text]));
  const run = async (): Promise<void> => {
    setError("");
    setExplanation(undefined);
    try {
      const object = parseObject(text);
      const resource = app.discovery.findKind(object.apiVersion, object.kind);
      if (!resource) throw new Error(`The server has no kind ${object.kind} in ${object.apiVersion}.`);
      const namespace = object.metadata?.namespace ?? "default";
      const item = object.metadata?.name ? pathOf(resource, namespace, object.metadata.name) : "";
      const exists = item !== "" && (await app.client.send(item).then(() => true, () => false));
      const found = await app.client.json<Explanation>(exists ? item : pathOf(resource, namespace), { method: exists ? "PUT" : "POST", body: object, query: { dryRun: "All", explain: "admission" } });
      if (found.kind !== "AdmissionExplanation") throw new Error("This server does not explain admission.");
      setExplanation(found);
    } catch (failure) {
      setError(messageOf(failure));
    }
  };
  const steps = explanation?.plugins.filter((step) => all || hasEffect(step)) ?? [];
  return (
    <>
      <p class="muted">The object is created or replaced in a dry run. Nothing is stored.</p>
      <Editor label="Object" text={example} changed={setText} schema={schema} />
      <div class="buttons">
        <button class="primary" onClick={() => void run()}>
          Run the trace
        </button>
        <label>
          <input type="checkbox" checked={all} onChange={(event) => setAll(event.currentTarget.checked)} /> Show plugins without effect
        </label>
      </div>
      {error && <Failure message={error} />}
      {explanation && (
        <>
          <Note kind={explanation.code < 400 ? "info" : "error"}>
            {explanation.code < 400 ? "The server would accept the object." : `The server would reject the object: ${explanation.status?.message ?? explanation.code}`}
          </Note>
          <ol class="steps">
            {steps.map((step, i) => (
              <li key={i} class={step.rejection ? "rejected" : ""}>
                <b>{step.plugin}</b> <span class="muted">{step.phase}{step.again && ", again"}, {seconds(step.tookNanoseconds / 1e9)}</span>
                <Effects step={step} />
              </li>
            ))}
          </ol>
          {!all && <p class="muted">{explanation.plugins.length - steps.length} other plugin calls had no effect.</p>}
        </>
      )}
    </>
  );
}

/** Returns the resource of an object in block style, for its schema; undefined if the text is not complete. */
function resourceOf(discovery: Discovery, text: string): Resource | undefined {
  const valueOf = (field: string): string => new RegExp(`^${field}:[ \\t]*["']?([\\w./-]+)`, "m").exec(text)?.[1] ?? "";
  const [apiVersion, kind] = [valueOf("apiVersion"), valueOf("kind")];
  const found = discovery.findKind(apiVersion, kind);
  return found && apiVersionOf(found) === apiVersion ? found : undefined;
}

function parseObject(text: string): KubeObject {
  let object: Partial<KubeObject> | null;
  try {
    object = parseYAML(text) as Partial<KubeObject> | null;
  } catch (error) {
    const [problem = ""] = messageOf(error).split("\n"); // the other lines show the text
    throw new Error(`The object is not valid YAML: ${problem.replace(/:$/, "")}`);
  }
  if (!object?.apiVersion || !object.kind) throw new Error("The object has no apiVersion or no kind.");
  return object as KubeObject;
}

function hasEffect(step: Step): boolean {
  return Boolean(step.rejection || step.changes?.length || step.warnings?.length || step.decisions?.length || Object.keys(step.auditAnnotations ?? {}).length);
}

function Effects(props: { step: Step }) {
  const { step } = props;
  return (
    <>
      {step.rejection && <p class="rejection">Rejected: {step.rejection}</p>}
      {step.warnings?.map((warning) => <p key={warning}>Warning: {warning}</p>)}
      {Object.entries(step.auditAnnotations ?? {}).map(([key, value]) => <p key={key}>Audit annotation {key}: {value}</p>)}
      {step.decisions?.length ? step.decisions.map((decision, i) => <DecisionView key={i} decision={decision} />) : <Changes changes={step.changes ?? []} />}
    </>
  );
}

function DecisionView(props: { decision: Decision }) {
  const { decision } = props;
  const source = decision.policy
    ? `Policy ${decision.policy}${decision.binding ? `, binding ${decision.binding}` : ""}${decision.param ? `, parameter ${decision.param}` : ""}`
    : `Webhook ${decision.webhook} of ${decision.configuration}`;
  return (
    <div class="decision">
      {source} <span class="muted">{seconds(decision.tookNanoseconds / 1e9)}</span>
      {decision.unmetCondition && <p>The condition {decision.unmetCondition} is not met.</p>}
      {decision.evaluations?.map((evaluation, i) => (
        <p key={i} class={evaluation.valid === false ? "rejection" : ""}>
          <code>{evaluation.expression}</code>: {[evaluation.valid === undefined ? "" : evaluation.valid ? "valid" : "not valid", evaluation.message].filter(Boolean).join(", ")}
        </p>
      ))}
      <Changes changes={decision.changes ?? []} />
      {decision.failure && <p class="rejection">{decision.failure}</p>}
    </div>
  );
}

function Changes(props: { changes: FieldChange[] }) {
  if (props.changes.length === 0) return null;
  const text = (value: unknown): string => (value === undefined ? "" : formatJSON(value));
  return <SimpleTable label="Changed fields" columns={["Field", "Before", "After"]} rows={props.changes.map((change) => [<code>{change.path}</code>, text(change.before), text(change.after)])} />;
}

const group = "admissionregistration.k8s.io";
const webhookKinds = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
const policyKinds = ["mutatingadmissionpolicies", "validatingadmissionpolicies"];

/** The webhooks and policies with their numbers of calls, latencies and failures since the start of the server. */
function Inventory() {
  const { client, discovery, place } = useApp();
  const data = useLoad(async (signal) => {
    const read = async (name: string) => {
      const resource = discovery.find(group, name);
      const list = resource && (await client.json<List<KubeObject>>(pathOf(resource), { signal }));
      return (list?.items ?? []).map((object) => ({ name, object }));
    };
    const [webhooks, policies] = await Promise.all([Promise.all(webhookKinds.map(read)), Promise.all(policyKinds.map(read))]);
    // The metrics are those of the process. They do not distinguish control planes, and are not part of the history.
    const metrics: Metrics = place.base ? new Map() : await client.text("/metrics", { accept: "text/plain", signal }).then(parseMetrics, () => new Map());
    return { webhooks: webhooks.flat(), policies: policies.flat(), metrics };
  }, [client]);
  if (data.error) return <Failure message={data.error} retry={data.reload} />;
  if (!data.value) return <Loading />;
  const { webhooks, policies, metrics } = data.value;
  const count = (...values: (number | undefined)[]): number | string => (metrics.size > 0 ? values.reduce<number>((total, value) => total + (value ?? 0), 0) : "");
  return (
    <>
      {metrics.size === 0 && (
        <Note kind={place.base ? "info" : "warning"}>
          {place.base ? "The numbers of calls are available at present in the root control plane only." : "You cannot read /metrics, so the numbers of calls are missing."}
        </Note>
      )}
      <h2>Webhooks</h2>
      {webhooks.length === 0 ? <Note>There are no webhooks.</Note> : (
        <SimpleTable
          label="Webhooks" columns={["Webhook", "Configuration", "Failure policy", "Calls", "Rejected", "Failures", "p50", "p99"]}
          rows={webhooks.flatMap(({ name, object }) => ((object["webhooks"] ?? []) as { name: string; failurePolicy?: string }[]).map((webhook) => {
            const labels = { name: webhook.name };
            return [
              webhook.name, <Link to={objectPath({ group, name }, "", object.metadata.name)}>{object.metadata.name}</Link>, webhook.failurePolicy,
              count(sum(metrics, "apiserver_admission_webhook_request_total", labels)), count(sum(metrics, "apiserver_admission_webhook_rejection_count", { ...labels, error_type: "no_error" })),
              count(sum(metrics, "apiserver_admission_webhook_fail_open_count", labels), sum(metrics, "apiserver_admission_webhook_rejection_count", { ...labels, error_type: "calling_webhook_error" })),
              ...latencies(metrics, "apiserver_admission_webhook_admission_duration_seconds_bucket", labels),
            ];
          }))}
        />
      )}
      <h2>Policies</h2>
      <p class="muted">The server does not count validations that succeed.</p>
      {policies.length === 0 ? <Note>There are no policies.</Note> : (
        <SimpleTable
          label="Policies" columns={["Policy", "Failure policy", "Mutations", "Denied", "Warned or audited", "Errors", "p50", "p99"]}
          rows={policies.map(({ name, object }) => {
            const mutating = name === "mutatingadmissionpolicies";
            const metric = mutating ? "apiserver_mutating_admission_policy_check" : "apiserver_validating_admission_policy_check";
            const labels = { policy: object.metadata.name };
            const checks = select(metrics, `${metric}_total`, labels);
            const total = (wanted: (labels: Record<string, string>) => boolean): number | string => count(...checks.filter((sample) => wanted(sample.labels)).map((sample) => sample.value));
            return [
              <Link to={objectPath({ group, name }, "", object.metadata.name)}>{object.metadata.name}</Link>, String(object.spec?.["failurePolicy"] ?? ""),
              mutating ? total(() => true) : "", ...(mutating ? ["", ""] : [["deny"], ["warn", "audit"]].map((actions) => total((l) => actions.includes(l["enforcement_action"] ?? "")))), total((l) => l["error_type"] !== "no_error"), ...latencies(metrics, `${metric}_duration_seconds_bucket`, labels),
            ];
          })}
        />
      )}
    </>
  );
}

function latencies(metrics: Metrics, name: string, labels: Record<string, string>): string[] {
  const buckets = select(metrics, name, labels);
  return [0.5, 0.99].map((q) => {
    const value = quantile(buckets, q);
    return value === undefined ? "" : seconds(value);
  });
}
