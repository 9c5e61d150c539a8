package history

import (
	"encoding/json"
	"fmt"

	"mainstay.dev/mainstay/internal/endpoints/openapi"
)

// Names of OpenAPI models.
const (
	changeModel = "dev.mainstay.history.v1.Change"
	listModel   = "dev.mainstay.history.v1.ChangeList"
	metaModel   = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	listMeta    = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
)

// Schemas returns the OpenAPI schemas of the API, for OpenAPI v2 if v2 is set and for v3 otherwise.
func Schemas(v2 bool) (map[string]openapi.Schema, error) {
	prefix := "#/components/schemas/"
	if v2 {
		prefix = "#/definitions/"
	}
	text := func(description string) map[string]any {
		return map[string]any{"type": "string", "description": description}
	}
	state := func(description string) map[string]any {
		return map[string]any{"type": "object", "description": description, "x-kubernetes-preserve-unknown-fields": true}
	}
	reference := func(model string) map[string]any { return map[string]any{"$ref": prefix + model} }
	if !v2 {
		reference = func(model string) map[string]any {
			return map[string]any{"allOf": []any{map[string]any{"$ref": prefix + model}}, "default": map[string]any{}}
		}
	}
	gvk := func(kind string) []any {
		return []any{map[string]any{"group": GroupVersion().Group, "version": GroupVersion().Version, "kind": kind}}
	}
	change := map[string]any{
		"type": "object", "description": "Change is one change of one object.", "x-kubernetes-group-version-kind": gvk("Change"),
		"properties": map[string]any{
			"apiVersion": text("API version of this object."), "kind": text("Kind of this object."), "metadata": reference(metaModel),
			"object": map[string]any{
				"type": "object", "description": "The changed object. Its namespace is that of the change.",
				"properties": map[string]any{
					"apiVersion": text("API version in which the object is stored."), "kind": text("Kind of the object."),
					"resource": text("Plural name with the group, such as deployments.apps."), "name": text("Name of the object."), "uid": text("UID of the object."),
				},
			},
			"operation": text("Created, Updated or Deleted."), "revision": text("resourceVersion of the object after the change."),
			"previousRevision": text("resourceVersion of the object before the change."), "user": text("User whose permissions applied."),
			"impersonatedBy": text("Authenticated user of an impersonated request."), "verb": text("Verb of the request."), "subresource": text("Subresource of the request."),
			"fieldManager": text("Field manager of the request."), "userAgent": text("User agent of the request."), "auditID": text("ID of the audit event of the request."),
			"fields": map[string]any{"type": "array", "description": "Paths of the changed fields.", "items": map[string]any{"type": "string"}},
			"before": state("State of the object before the change. Lists omit it."), "after": state("State of the object after the change. Lists omit it."),
			"fieldsTruncated": map[string]any{"type": "boolean", "description": fmt.Sprintf("Whether more than %d fields have changed.", MaxFields)},
		},
	}
	list := map[string]any{
		"type": "object", "description": "ChangeList is a list of changes.", "x-kubernetes-group-version-kind": gvk("ChangeList"), "required": []any{"items"},
		"properties": map[string]any{
			"apiVersion": text("API version of this object."), "kind": text("Kind of this object."), "metadata": reference(listMeta),
			"items": map[string]any{"type": "array", "description": "The changes, in the order of their revisions.", "items": reference(changeModel)},
		},
	}
	changeJSON, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("encode the schema of changes: %w", err)
	}
	listJSON, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("encode the schema of lists of changes: %w", err)
	}
	return map[string]openapi.Schema{
		changeModel: {Kind: "Change", JSON: changeJSON, Uses: []string{metaModel}},
		listModel:   {Kind: "ChangeList", ListOf: "Change", JSON: listJSON, Uses: []string{listMeta, changeModel}},
	}, nil
}
