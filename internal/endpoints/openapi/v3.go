package openapi

import "bytes"

// OpenAPI v3.

type v3Operation struct {
	Tags        []string              `json:"tags,omitempty"`
	Description string                `json:"description,omitempty"`
	ID          string                `json:"operationId,omitempty"`
	Parameters  []v3Parameter         `json:"parameters,omitempty"`
	Body        *v3Body               `json:"requestBody,omitempty"`
	Responses   map[string]v3Response `json:"responses"`
	Action      string                `json:"x-kubernetes-action,omitempty"`
	Kind        *operationKind        `json:"x-kubernetes-group-version-kind,omitempty"`
}

type v3Parameter struct {
	Name        string    `json:"name"`
	In          string    `json:"in"`
	Description string    `json:"description,omitempty"`
	Required    bool      `json:"required,omitempty"`
	Schema      schemaRef `json:"schema"`
}

type v3Body struct {
	Content  map[string]v3Media `json:"content"`
	Required bool               `json:"required,omitempty"`
}

type v3Response struct {
	Description string             `json:"description"`
	Content     map[string]v3Media `json:"content,omitempty"`
}

type v3Media struct {
	Schema schemaRef `json:"schema"`
}

func newV3Parameters(list []parameter) []v3Parameter {
	var out []v3Parameter
	for _, p := range list {
		out = append(out, v3Parameter{
			Name: p.Name, In: p.in(), Description: p.Description, Required: p.inPath,
			Schema: schemaRef{Type: p.Type, UniqueItems: true},
		})
	}
	return out
}

func newV3Content(media []string, model string) map[string]v3Media {
	content := map[string]v3Media{}
	for _, m := range media {
		content[m] = v3Media{newSchemaRef(v3Reference, model)}
	}
	return content
}

func newV3Operation(op *operation) *v3Operation {
	out := &v3Operation{
		Tags: []string{op.tag}, Description: op.description, ID: op.id, Action: op.action,
		Parameters: newV3Parameters(op.parameters), Responses: map[string]v3Response{}, Kind: newOperationKind(op.kind),
	}
	if op.body != nil {
		out.Body = &v3Body{Content: newV3Content(op.consumes, op.body.model), Required: op.body.required}
	}
	for _, r := range op.responses {
		response := v3Response{Description: r.description}
		if r.model != "" {
			response.Content = newV3Content(op.produces, r.model)
		}
		out.Responses[r.code] = response
	}
	return out
}

// writeV3Paths writes the paths of a document as a JSON object.
func writeV3Paths(w *bytes.Buffer, items []pathItem) error {
	return writePaths(w, items, newV3Operation, newV3Parameters)
}
