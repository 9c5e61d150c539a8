package openapi

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Path items and operations, in a form common to v2 and v3.

// pathItem is a path with its operations and parameters.
type pathItem struct {
	path       string
	parameters []parameter
	operations []operation

	// If template is not nil, operations is not used. Instead, the path item is json, in which names
	// replace the placeholders.
	template *template
	json     []segment
	names    *placeholderNames
}

type operation struct {
	method      string // in lower case
	action      string // x-kubernetes-action; empty for discovery
	kind        *schema.GroupVersionKind
	id          string
	tag         string
	description string
	consumes    []string
	produces    []string
	parameters  []parameter
	body        *body
	responses   []response
}

// parameter is a path or query parameter.
type parameter struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description"`
	inPath      bool
}

type body struct {
	model    string
	required bool
}

// response describes the response with a status code.
type response struct {
	code        string
	description string
	// model is the model of the body: modelText for a string, empty for no body.
	model string
}

const modelText = "string"

// Models that operations refer to by name.
const (
	metaModels      = "io.k8s.apimachinery.pkg.apis.meta.v1."
	modelDelete     = metaModels + "DeleteOptions"
	modelPatch      = metaModels + "Patch"
	modelStatus     = metaModels + "Status"
	modelWatchEvent = metaModels + "WatchEvent"
)

var (
	unauthorized = response{code: "401", description: "Unauthorized"}

	pretty = parameter{
		Name: "pretty", Type: "string",
		Description: "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a browser or command-line HTTP tool (curl and wget).",
	}
	namespaceParameter = parameter{
		Name: "namespace", Type: "string", inPath: true,
		Description: "object name and auth scope, such as for teams and projects",
	}
	pathParameter = parameter{Name: "path", Type: "string", inPath: true, Description: "path to the resource"}
)

// responses returns one response with the model for each code, and the response for 401.
func responses(model string, codes ...string) []response {
	descriptions := map[string]string{"200": "OK", "201": "Created", "202": "Accepted"}
	var list []response
	for _, code := range codes {
		list = append(list, response{code: code, description: descriptions[code], model: model})
	}
	return append(list, unauthorized)
}

// newPathItem returns a path item. Parameters that all operations have in common are moved to the path. All
// parameters are sorted.
func newPathItem(path string, operations []operation) pathItem {
	it := pathItem{path: path, operations: operations}
	count := map[parameter]int{}
	for _, op := range operations {
		for _, p := range op.parameters {
			if count[p]++; count[p] == len(operations) {
				it.parameters = append(it.parameters, p)
			}
		}
	}
	sortParameters(it.parameters)
	for i := range operations {
		op := &operations[i]
		op.parameters = slices.DeleteFunc(op.parameters, func(p parameter) bool { return count[p] == len(operations) })
		sortParameters(op.parameters)
	}
	return it
}

// sortParameters sorts parameters by name. A path parameter precedes a query parameter with the same name.
func sortParameters(list []parameter) {
	slices.SortStableFunc(list, func(a, b parameter) int {
		if c := cmp.Compare(a.Name, b.Name); c != 0 || a.inPath == b.inPath {
			return c
		}
		if a.inPath {
			return -1
		}
		return 1
	})
}

// identifier converts a group to the form that operation ids and tags contain, for example
// rbac.authorization.k8s.io to rbacAuthorization.
func identifier(s string) string {
	words := strings.FieldsFunc(strings.Replace(s, ".k8s.io", "", 1), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9')
	})
	for i := 1; i < len(words); i++ {
		words[i] = title(words[i])
	}
	return strings.Join(words, "")
}

// title returns the word with its first letter in upper case.
func title(word string) string {
	if word == "" {
		return ""
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

// withArticle returns a kind with its indefinite article. A plural such as Endpoints has no article.
func withArticle(kind string) string {
	switch {
	case strings.HasSuffix(kind, "s") && !strings.HasSuffix(kind, "ss"):
		return kind
	case strings.ContainsAny(kind[:1], "AEIOUaeiou"):
		return "an " + kind
	default:
		return "a " + kind
	}
}
