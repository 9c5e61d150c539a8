import type { ComponentChildren } from "preact";
import type { Resource } from "../../api/discovery";
import type { Condition, Json, KubeObject } from "../../api/types";
import { age, dateTime } from "../../model/format";
import { kindPath, objectPath, useApp } from "../../ui/context";
import { Link, SimpleTable } from "../../ui/parts";

/** The identity, the conditions and the simple fields of an object. */
export function Summary(props: { resource: Resource; object: KubeObject }) {
  const { discovery } = useApp();
  const { metadata, spec, status } = props.object;
  const conditions = Array.isArray(status?.["conditions"]) ? (status["conditions"] as Condition[]) : [];
  const owners = metadata.ownerReferences ?? [];
  const namespaces = discovery.find("", "namespaces");
  return (
    <div class="summary">
      <Facts
        facts={[
          ["Kind", `${props.object.kind}, ${props.object.apiVersion}`],
          ["Namespace", metadata.namespace && namespaces && <Link to={objectPath(namespaces, "", metadata.namespace)}>{metadata.namespace}</Link>],
          ["Created", metadata.creationTimestamp && `${age(metadata.creationTimestamp)} ago, ${dateTime(metadata.creationTimestamp)}`],
          ["Labels", metadata.labels && <Chips values={metadata.labels} />],
          ["Annotations", metadata.annotations && <Chips values={metadata.annotations} />],
          ["Owners", owners.length > 0 && owners.map((owner) => {
            const path = kindPath(discovery, owner.apiVersion, owner.kind, metadata.namespace, owner.name);
            const text = `${owner.kind} ${owner.name}`;
            return <div key={owner.uid}>{path ? <Link to={path}>{text}</Link> : text}{owner.controller && " (controller)"}</div>;
          })],
          ["Finalizers", metadata.finalizers?.join(", ")],
          ["UID", metadata.uid],
          ["resourceVersion", metadata.resourceVersion],
        ]}
      />
      {conditions.length > 0 && (
        <>
          <h2>Conditions</h2>
          <SimpleTable
            label="Conditions" columns={["Type", "Status", "Age", "Reason", "Message"]}
            rows={conditions.map((c) => [c.type, <span class={`status ${c.status}`}>{c.status}</span>, age(c.lastTransitionTime), c.reason, c.message])}
          />
        </>
      )}
      {spec && <Section title="Specification" value={spec} />}
      {status && <Section title="Status" value={status} />}
    </div>
  );
}

/** The scalar fields of a part of the object; the YAML tab has the others. */
function Section(props: { title: string; value: Json }) {
  const facts = Object.entries(props.value)
    .filter(([, value]) => value !== null && (typeof value !== "object" || (Array.isArray(value) && value.every((item) => typeof item !== "object"))))
    .map(([name, value]): [string, ComponentChildren] => [name, Array.isArray(value) ? value.join(", ") : String(value)]);
  return facts.length > 0 ? (
    <>
      <h2>{props.title}</h2>
      <Facts facts={facts} />
    </>
  ) : null;
}

/** Names and values. Entries without a value are omitted. */
function Facts(props: { facts: [string, ComponentChildren][] }) {
  return (
    <dl>
      {props.facts.filter(([, value]) => value).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Chips(props: { values: Record<string, string> }) {
  return (
    <>
      {Object.entries(props.values).map(([key, value]) => (
        <span key={key} class="chip" title={`${key}=${value}`}>
          {key}={value.length > 60 ? `${value.slice(0, 60)}…` : value}
        </span>
      ))}
    </>
  );
}
