package openapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

// OpenAPI v2, also known as Swagger.

type v2Operation struct {
	Description string                `json:"description,omitempty"`
	Consumes    []string              `json:"consumes,omitempty"`
	Produces    []string              `json:"produces,omitempty"`
	Schemes     []string              `json:"schemes"`
	Tags        []string              `json:"tags,omitempty"`
	ID          string                `json:"operationId,omitempty"`
	Parameters  []json.RawMessage     `json:"parameters,omitempty"`
	Responses   map[string]v2Response `json:"responses"`
	Action      string                `json:"x-kubernetes-action,omitempty"`
	Kind        *operationKind        `json:"x-kubernetes-group-version-kind,omitempty"`
}

// v2Parameter is a Parameter Object. The names of shared parameters contain a hash of the encoded object, so
// the order of the fields must not change.
type v2Parameter struct {
	UniqueItems bool       `json:"uniqueItems,omitempty"`
	Type        string     `json:"type,omitempty"`
	Description string     `json:"description,omitempty"`
	Name        string     `json:"name"`
	In          string     `json:"in"`
	Required    bool       `json:"required,omitempty"`
	Schema      *schemaRef `json:"schema,omitempty"`
}

type v2Response struct {
	Description string     `json:"description"`
	Schema      *schemaRef `json:"schema,omitempty"`
}

// v2Paths collects the paths of a document and the parameters they share.
type v2Paths struct {
	// encoded contains the JSON of each parameter in operations, which is either the parameter itself or a
	// reference to a shared parameter.
	encoded map[v2Key]json.RawMessage
	// shared contains the shared parameters by name.
	shared map[string]json.RawMessage
	err    error
}

// v2Key identifies a parameter. A key with a model is a body parameter.
type v2Key struct {
	parameter
	model    string
	required bool
}

// add returns the JSON of a parameter in an operation. This is either the parameter itself or a reference
// to a shared parameter, which add adds to shared.
func (p *v2Paths) add(key v2Key) json.RawMessage {
	if encoded, ok := p.encoded[key]; ok {
		return encoded
	}
	param := v2Parameter{
		UniqueItems: true, Type: key.Type, Description: key.Description, Name: key.Name, In: key.in(), Required: key.inPath,
	}
	if key.model != "" {
		ref := newSchemaRef(v2Reference, key.model)
		param = v2Parameter{Name: "body", In: "body", Required: key.required, Schema: &ref}
	}
	encoded, err := json.Marshal(param)
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("encode parameter %s: %w", param.Name, err)
	}
	if isShared(key) {
		// These are the names that kube-apiserver uses, because generated clients contain them.
		hash := fnv.New64()
		hash.Write(encoded)
		name := param.Name + "-" + base64.URLEncoding.EncodeToString(hash.Sum(nil)[:6])
		p.shared[name] = encoded
		encoded = json.RawMessage(`{"$ref":"#/parameters/` + name + `"}`)
	}
	p.encoded[key] = encoded
	return encoded
}

// isShared reports whether operations refer to a shared parameter. A parameter that differs between kinds is
// not shared. dryRun and fieldValidation are not shared either, because older versions of kubectl search the
// operations for them to detect features.
func isShared(key v2Key) bool {
	if key.model != "" {
		return strings.HasPrefix(key.model, "io.k8s.apimachinery.")
	}
	return key.Name != "name" && key.Name != "dryRun" && key.Name != "fieldValidation"
}

func (p *v2Paths) parameters(list []parameter, b *body) []json.RawMessage {
	keys := make([]v2Key, 0, len(list)+1)
	for _, param := range list {
		keys = append(keys, v2Key{parameter: param})
	}
	if b != nil {
		i, _ := slices.BinarySearchFunc(keys, "body", func(k v2Key, name string) int { return strings.Compare(k.Name, name) })
		keys = slices.Insert(keys, i, v2Key{model: b.model, required: b.required})
	}
	var out []json.RawMessage
	for _, key := range keys {
		out = append(out, p.add(key))
	}
	return out
}

func (p *v2Paths) operation(op *operation) *v2Operation {
	out := &v2Operation{
		Description: op.description, Consumes: op.consumes, Produces: op.produces, Schemes: []string{"https"},
		Tags: []string{op.tag}, ID: op.id, Parameters: p.parameters(op.parameters, op.body),
		Responses: map[string]v2Response{}, Action: op.action, Kind: newOperationKind(op.kind),
	}
	for _, r := range op.responses {
		response := v2Response{Description: r.description}
		if r.model != "" {
			ref := newSchemaRef(v2Reference, r.model)
			response.Schema = &ref
		}
		out.Responses[r.code] = response
	}
	return out
}

func newV2Paths() *v2Paths {
	return &v2Paths{encoded: map[v2Key]json.RawMessage{}, shared: map[string]json.RawMessage{}}
}

// write writes the paths as a JSON object, and collects their shared parameters.
func (p *v2Paths) write(w *bytes.Buffer, items []pathItem) error {
	parameters := func(list []parameter) []json.RawMessage { return p.parameters(list, nil) }
	if err := writePaths(w, items, p.operation, parameters); err != nil {
		return err
	}
	var last *template
	for i := range items {
		if t := items[i].template; t != nil && t != last {
			maps.Copy(p.shared, t.shared)
			last = t
		}
	}
	return p.err
}

// writeV2Paths writes the paths of a document as a JSON object, and returns their shared parameters
// as a JSON object.
func writeV2Paths(w *bytes.Buffer, items []pathItem) ([]byte, error) {
	p := newV2Paths()
	if err := p.write(w, items); err != nil {
		return nil, err
	}
	var shared bytes.Buffer
	shared.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(p.shared)) {
		if err := writeRawMember(&shared, i, name, p.shared[name]); err != nil {
			return nil, err
		}
	}
	shared.WriteByte('}')
	return shared.Bytes(), nil
}
