// Package custom serves the resources that CustomResourceDefinitions define. A
// Source is a part of the catalogue like any other; it follows the stored
// definitions and keeps of each no more than a small entry: names, versions,
// and whether it is established. Everything else (compiled schemas, stores,
// columns, merge schemas, OpenAPI) is made of the stored definition when it is
// first used, per version, and dropped when it has not been used for a while.
//
// The concepts, each in the file of its name:
//
//   - entry: what is always known of a definition.
//   - snapshot: all entries, immutable, with the names that are taken.
//   - source: the snapshot of now, and what follows from a change.
//   - establish: the loop that accepts names.
//   - structure: the condition of old definitions without structural schemas.
//   - finalize: how the objects of a deleted definition go, and then it does.
//   - barrier: keeps objects from being created meanwhile; barrier_shared: by other servers.
//   - generation: what was made of one generation of a definition, on use.
//   - handler: one version: its resources, opened on first use.
//   - convert: how objects come from one version to another.
//
// What definitions themselves must look like is package definition's affair.
package custom
