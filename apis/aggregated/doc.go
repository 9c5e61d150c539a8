// Package aggregated answers for the group versions that other servers are
// registered for: it follows APIServices, sends requests on, finds out whether
// who should answer does, and keeps what those servers say of themselves for
// discovery and OpenAPI. It also keeps the APIServices of what this server
// answers for itself. It does not decide who may ask, and serves no documents.
//
// Imports: codec, egress, openapi, request, rest, storage, storage/reflector.
package aggregated
