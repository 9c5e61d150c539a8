// Package openapi knows the schemas of the built-in types. It draws the
// OpenAPI documents of the server, v2 and v3, from them and from the resources
// that are served, and it is the type converter of server-side apply for
// built-in kinds.
//
// Everything about the types was computed ahead of time, by the generator in
// internal/gen/openapi, and is embedded: nothing is decoded before somebody
// asks, and then only what was asked for. The package does not know which
// resources exist, nor does it validate objects.
//
// Imports: codec/jsonplan.
package openapi

//go:generate go run -C ../internal/gen/openapi . -out ../../../openapi/data
