import { useState } from "preact/hooks";
import { type Client, messageOf } from "../api/client";
import { mapParallel } from "../api/parallel";
import type { Change, KubeObject } from "../api/types";
import { undo } from "../api/undo";
import { age, manifest } from "../model/format";
import { type ChangedObject, type UndoAction, type UndoStep, actionOf, changedObjects, inOrder, isServiceAddress, isTransient, objectName, statesDiffer, withoutNoise } from "../model/undo";
import { useApp, useLoad } from "../ui/context";
import { Difference } from "../ui/editor";
import { Dialog, Failure, Loading, Note } from "../ui/parts";
import { readChange, readChanges } from "./changes";

/** The writes that undo changes, in their order. */
interface Plan {
  steps: UndoStep[];
  /** Objects that are not written, with a reason. */
  conflicts: string[];
  /** The number of objects that already have their earlier state. */
  unchanged: number;
  /** The number of objects that describe the present only, or that the server writes with a service. */
  transient: number;
}

/** Plans to undo changes, which must be in the order of their revisions. */
async function planUndo(client: Client, selected: Change[], signal: AbortSignal): Promise<Plan> {
  const names = new Set(selected.map((change) => change.metadata.name));
  const objects = changedObjects(selected);
  const considered = objects.filter(({ first }) => !isTransient(first));
  const planned = await mapParallel(considered, async (object) => (await conflictOf(client, object, names, signal)) ?? readStep(client, object, signal));
  const possible = planned.filter((result) => typeof result !== "string");
  const steps = possible.filter((step) => !isServiceAddress(step));
  const needed = steps.filter((step) => statesDiffer(step.want, step.live));
  return {
    steps: inOrder(needed), conflicts: planned.filter((result) => typeof result === "string"),
    unchanged: steps.length - needed.length, transient: objects.length - considered.length + possible.length - steps.length,
  };
}

/** Describes the newest change of an object that is not selected and follows the first selected one. */
async function conflictOf(client: Client, { first }: ChangedObject, selected: Set<string>, signal: AbortSignal): Promise<string | undefined> {
  const filter = { namespace: first.metadata.namespace, resource: first.object.resource, name: first.object.name, since: `rv/${first.revision}` };
  const later = (await readChanges(client, filter, signal)).find((change) => !selected.has(change.metadata.name));
  if (!later) return undefined;
  const details = [`${later.operation.toLowerCase()} ${age(later.metadata.creationTimestamp)} ago by ${later.user || "an unknown user"}`, later.subresource, ...(later.fields ?? []).slice(0, 3)];
  return `${objectName(first)} has a later change that is not selected: ${details.filter(Boolean).join(", ")}`;
}

/** Returns the step that undoes the changes of an object, or the reason why there is none. */
async function readStep(client: Client, { first, last }: ChangedObject, signal: AbortSignal): Promise<UndoStep | string> {
  const change = await readChange(client, first, signal);
  const live = (first === last ? change : await readChange(client, last, signal)).after;
  if (!change.before && change.operation !== "Created") return `${objectName(first)}: the state before the change is not available`;
  return { change, want: change.before, live };
}

const verbs: Record<UndoAction, string> = { delete: "Delete", create: "Create again", restore: "Restore" };
const results: Record<UndoAction, string> = { delete: "deleted", create: "created again", restore: "restored" };

/** Previews and undoes several changes, which must be in the order of their revisions. */
export function UndoDialog(props: { changes: Change[]; close: () => void; undone: () => void }) {
  const { client, notify } = useApp();
  const plan = useLoad((signal) => planUndo(client, props.changes, signal), []); // the results of the writes refer to the first plan
  const [outcomes, setOutcomes] = useState<Outcome[]>();
  const execute = async (steps: UndoStep[]): Promise<void> => {
    const done: Outcome[] = [];
    setOutcomes([]);
    for (const step of steps) {
      done.push(await attempt(client, step));
      setOutcomes([...done]);
    }
    notify(summary(done)); // the user may have closed the dialog
    props.undone();
  };
  const finished = outcomes?.length === plan.value?.steps.length;
  return (
    <Dialog title={`Undo ${props.changes.length} ${props.changes.length === 1 ? "change" : "changes"}`} close={props.close} wide>
      {plan.error && <Failure message={plan.error} retry={plan.reload} />}
      {!plan.value && !plan.error && <Loading />}
      {plan.value && <PlanView plan={plan.value} outcomes={outcomes} />}
      {outcomes && <p role="status">{finished ? summary(outcomes) : `${outcomes.length} of ${plan.value!.steps.length} objects are done.`}</p>}
      <footer>
        {plan.value && plan.value.steps.length > 0 && !outcomes && (
          <button class="primary" onClick={() => void execute(plan.value!.steps)}>
            Write {plan.value.steps.length} {plan.value.steps.length === 1 ? "object" : "objects"}
          </button>
        )}
        <button onClick={props.close}>{outcomes ? "Done" : "Cancel"}</button>
      </footer>
    </Dialog>
  );
}

/** The result of a step. */
interface Outcome {
  text: string;
  failed: boolean;
}

async function attempt(client: Client, step: UndoStep): Promise<Outcome> {
  try {
    await undo(client, step);
    return { text: results[actionOf(step)], failed: false };
  } catch (error) {
    return { text: `failed: ${messageOf(error)}`, failed: true };
  }
}

function summary(outcomes: Outcome[]): string {
  const failed = outcomes.filter((outcome) => outcome.failed).length;
  return failed === 0 ? `All ${outcomes.length} objects were written.` : `${failed} of ${outcomes.length} objects were not written.`;
}

function PlanView(props: { plan: Plan; outcomes: Outcome[] | undefined }) {
  const { steps, conflicts, unchanged, transient } = props.plan;
  return (
    <>
      {conflicts.length > 0 && (
        <Note kind="warning">
          These objects are not written:
          <ul class="plainlist">{conflicts.map((conflict) => <li key={conflict}>{conflict}</li>)}</ul>
        </Note>
      )}
      {unchanged > 0 && <p class="muted">{unchanged} {unchanged === 1 ? "object has" : "objects have"} the earlier state already.</p>}
      {transient > 0 && <p class="muted">Events, leases and addresses of services are not restored: {transient}.</p>}
      {steps.length === 0 && <Note>There is nothing to undo.</Note>}
      <ol class="steps">
        {steps.map((step, i) => <StepView key={objectName(step.change)} step={step} outcome={props.outcomes?.[i]} open={i < maxOpen} />)}
      </ol>
    </>
  );
}

/** The number of differences that are shown at first. */
const maxOpen = 3;

function StepView(props: { step: UndoStep; outcome: Outcome | undefined; open: boolean }) {
  const { step, outcome } = props;
  const [open, setOpen] = useState(props.open);
  const name = objectName(step.change);
  return (
    <li>
      <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          {verbs[actionOf(step)]} {name} {outcome && <b class={outcome.failed ? "rejection" : "allowed"}>{outcome.text}</b>}
        </summary>
        {open && <Difference label={`${name} now, and after the undo`} before={shown(step.live)} after={shown(step.want && step.live ? { ...step.want, status: step.live.status } : step.want)} />}
      </details>
    </li>
  );
}

/** Returns a state as YAML without the fields that each write changes. */
function shown(state: KubeObject | undefined): string {
  return manifest(state && withoutNoise(state));
}
