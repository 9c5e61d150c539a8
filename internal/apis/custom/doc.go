// Package custom serves the resources that CustomResourceDefinitions define. A Source is one source
// of the catalogue. It follows the stored definitions and retains a small entry of each: names,
// versions, and whether it is established. All other data (compiled schemas, stores, columns, merge
// schemas, OpenAPI) is computed from the stored definition on first use, per version, and dropped
// after a period without use.
//
// The concepts, each in a file of the same name:
//
//   - entry: the retained data of a definition.
//   - snapshot: all entries and accepted names, immutable.
//   - source: the current snapshot, and the effects of a change.
//   - establish: the loop that accepts names.
//   - structure: the condition of old definitions without structural schemas.
//   - finalize: deletes the objects of a deleted definition, and then the definition.
//   - barrier: prevents the creation of objects during that; barrier_shared: by other servers.
//   - generation: the computed data of one generation of a definition.
//   - handler: one version and its resources, opened on first use.
//   - convert: conversion of objects between versions.
//
// Package definition validates the definitions themselves.
package custom
