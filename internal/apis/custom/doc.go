// Package custom serves the resources that CustomResourceDefinitions define. A Source is a route source. It
// follows the stored definitions, and keeps a small entry for each in memory, with its names, versions and
// conditions. All other data (compiled schemas, stores, columns, merge schemas, OpenAPI) is computed from the
// stored definition on first use, per version, and dropped after a period without use.
//
// # Life cycle of a definition
//
// Each server has one entry per definition, in one of these phases (lifecycle.go):
//
//	              names reserved or                    Established is
//	              accepted            ┌──────────┐     stored           ┌─────────────┐
//	          ┌──────────────────────►│ accepted │─────────────────────►│ established │
//	          │                       └──────────┘                      └─────────────┘
//	 create ┌─────────┐  a name conflicts │  │                                  │
//	 ──────►│ pending │◄──────────────────┘  │ deletion timestamp               │
//	        └─────────┘                      ▼                                  │
//	          │       deletion timestamp  ┌─────────────┐  deletion timestamp   │
//	          └──────────────────────────►│ terminating │◄──────────────────────┘
//	                                      └─────────────┘
//	                    all objects deleted  │      ▲  write failed
//	                                         ▼      │
//	                                      ┌──────────┐  definition deleted
//	                                      │ removing │────────────────────► no entry
//	                                      └──────────┘
//
//	phase         Find          discovery   requests               create objects
//	pending       no            no          -                      -
//	accepted      yes           no          wait for established   wait for established
//	established   yes           yes         yes                    yes
//	terminating   as before     as before   yes                    403 Forbidden
//	removing      no            no          -                      -
//
// Three kinds of input cause transitions. Stored revisions, from the list, the watch or a writer of
// this server, cause most of them (Source.observe). The controller decides on names before it writes
// its decision to the status (Source.decide). The finalizer announces the removal before it deletes
// the definition (Source.setRemoving). A restarted server continues in the phase that follows from
// the stored definition.
//
// Invariants, which TestModel checks for random operations on one and two servers:
//
//  1. An object exists only while its definition exists. The finalizer closes the createGate, waits
//     for creations in progress, and deletes all objects before it deletes the definition. On other
//     servers, a creation is conditional on the revision of the definition (conditionalCreates).
//  2. On one server, a name of a group belongs to at most one definition, including names in
//     decisions that are not stored yet. Two servers can accept the same name at the same time, as in
//     kube-apiserver.
//  3. The resource is in discovery if and only if the newest observed revision has the Established
//     condition and the definition is not in phase removing. Every resource in discovery is found.
//  4. The revision of an entry never decreases, regardless of the order in which writers and the watch
//     report revisions.
//  5. After all events and tasks have been processed, each definition is established or has a conflict,
//     terminating definitions without objects are deleted, and all servers have the same entries as
//     the store.
//
// # Files
//
//   - entry: the data of a definition in memory.
//   - lifecycle: phases and transitions.
//   - create_gate, create_condition: prevent creations of objects in terminating definitions, on one
//     server and between servers.
//   - snapshot: all entries and reserved names, immutable.
//   - source: the API of the package, which reads the current snapshot.
//   - controller: decides on names and writes conditions, by the rules in names and structure.
//   - finalize: deletes the objects of a terminating definition, and then the definition.
//   - decode: definitions without schemas, and status writes that preserve the spec.
//   - generation: the computed data of one generation of a definition.
//   - handler: one version and its resources; instances, columns and scale are their REST storage.
//   - convert: conversion of objects between versions.
//
// Package definition validates the definitions themselves.
package custom
