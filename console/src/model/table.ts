import type { KubeObject, List, Table, TableColumn } from "../api/types";

const creation = "CreationTimestamp is a timestamp"; // the description in the OpenAPI document

/** The columns of a list that the server has not converted to a table. */
const basicColumns: TableColumn[] = [
  { name: "Name", type: "string", format: "name", priority: 0 },
  { name: "Age", type: "string", description: creation, priority: 0 },
];

/**
 * Returns the table of a response. Aggregated servers that do not support tables send a list instead, or an object as
 * the event of a watch.
 */
export function tableOf(response: Table | List<KubeObject> | KubeObject): Table {
  if ("kind" in response && response.kind === "Table") return response as Table;
  const items = (response as List<KubeObject>).items ?? ("name" in response.metadata ? [response as KubeObject] : []);
  return { metadata: response.metadata, columnDefinitions: basicColumns, rows: items.map(({ metadata }) => ({ cells: [metadata.name, ""], object: { metadata } })) };
}

/**
 * Reports whether a column contains the age of the objects, which grows without a change of them. Definitions can use
 * the name Age for other values. The default description of their columns contains the JSONPath.
 */
export function isAge(column: TableColumn): boolean {
  const { name, type, description = "" } = column;
  if (name !== "Age") return false;
  const path = /in JSONPath format\): (.*)$/.exec(description)?.[1];
  return path === undefined ? type === "date" || description.startsWith(creation) : type === "date" && path === ".metadata.creationTimestamp";
}
