package crds

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// rejecting tests invalid and excessive input. The server must respond with a Status that describes the error,
// and must stay available.
var rejecting = []behavior{
	{"invalid documents", rejectDocuments},
	{"large definitions", rejectTooMuch},
	{"deep nesting", rejectDepth},
	{"expensive patterns", rejectPatterns},
	{"rules", rejectRules},
	{"annotations that are too long", rejectAnnotation},
	{"expensive objects", rejectCostly},
	{"objects and patches around 3 MiB", rejectLimits},
}

// wantRejection checks that a response is a Status with a 4xx code, and that the server is still available.
func wantRejection(t *testing.T, env *environment, name string, a response) {
	t.Helper()
	if s := a.status(); a.code < 400 || a.code > 499 || s.Message == "" || int(s.Code) != a.code {
		t.Errorf("%s: %d %.500s, want a Status with a 4xx code and a message", name, a.code, a.body)
	}
	if a := env.send(t, http.MethodGet, "/readyz", nil); a.code != http.StatusOK {
		t.Errorf("%s: the server is not ready: %d", name, a.code)
	}
}

func rejectDocuments(t *testing.T, env *environment) {
	const start = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"x.y.z"},"spec":`
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'l'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	for _, body := range []string{
		"", "{", "[]", "null", `"x"`, "{}", start, start + "5}", start + "[]}", start + "null}", start + `{"versions":{}}}`, start + `{"versions":[5]}}`,
		start + `{"versions":[{"schema":{"openAPIV3Schema":5}}]}}`, start + `{"versions":[{"schema":{"openAPIV3Schema":{"type":["object"]}}}]}}`,
		start + `{"versions":[{"schema":{"openAPIV3Schema":{"properties":[]}}}]}}`, start + `{"versions":[{"schema":{"openAPIV3Schema":{"items":5}}}]}}`,
		start + `{"versions":[{"schema":{"openAPIV3Schema":{"default":}}}]}}`, start + `{"versions":[{"name":"v1","served":"yes"}]}}`,
		start + `{"group":"y.z","names":{"plural":"X Y","kind":"1"},"scope":"Moon","versions":[{"name":"V 1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`,
		"\xff\xfe\x00", start + "\"\xff\"}", strings.Repeat("[", 100000),
	} {
		wantRejection(t, env, fmt.Sprintf("JSON %.120q", body), env.send(t, http.MethodPost, definitionsPath, []byte(body)))
	}
	for _, body := range []string{"\t", "a: b: c", "- - -", "%", "{{", "a: *b", "!!binary x", bomb, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n  bad: indent\n"} {
		wantRejection(t, env, fmt.Sprintf("YAML %.120q", body), env.send(t, http.MethodPost, definitionsPath, []byte(body), "Content-Type", "application/yaml"))
	}
	for _, body := range []string{"k8s\x00", "k8s\x00\xff\xff\xff\xff", "k8s\x00\x0a\x10\x0a\x02v1\x12\x0aDefinition\x12\x03\xff\xff\xff"} {
		wantRejection(t, env, fmt.Sprintf("protobuf %q", body), env.send(t, http.MethodPost, definitionsPath, []byte(body), "Content-Type", "application/vnd.kubernetes.protobuf"))
	}
}

func rejectTooMuch(t *testing.T, env *environment) {
	crd := define(t, "large.bad.example.com", "Note", anything)
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = strings.Repeat("x", 3<<20-1000)
	a := env.send(t, http.MethodPost, definitionsPath, encode(t, crd))
	if a.code != http.StatusRequestEntityTooLarge && a.code != http.StatusCreated { // the maximum request size of etcd is 1.5 MiB; the embedded store accepts more
		t.Errorf("3 MiB: %d %.300s", a.code, a.body)
	}
	env.send(t, http.MethodDelete, definitionsPath+"/"+crd.Name, nil)
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = strings.Repeat("x", 4<<20)
	a = env.send(t, http.MethodPost, definitionsPath, encode(t, crd))
	wantRejection(t, env, "4 MiB", a)
	if a.code != http.StatusRequestEntityTooLarge {
		t.Errorf("4 MiB: %d %.300s", a.code, a.body)
	}
}

// nestedSchema returns a schema of objects that are nested to the given depth.
func nestedSchema(depth int) string {
	return strings.Repeat(`{"type":"object","properties":{"a":`, depth) + `{"type":"string"}` + strings.Repeat("}}", depth)
}

func rejectDepth(t *testing.T, env *environment) {
	const start = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"notes.deep.bad.example.com"},"spec":{"group":"deep.bad.example.com","scope":"Namespaced","names":{"plural":"notes","kind":"Note"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":`
	wantRejection(t, env, "a schema of depth 50000", env.send(t, http.MethodPost, definitionsPath, []byte(start+nestedSchema(50000)+"}}]}}")))
	for keyword, end := range map[string]string{`{"not":`: "}", `{"allOf":[`: "]}", `{"type":"array","items":`: "}", `{"additionalProperties":`: "}"} {
		deep := strings.Repeat(keyword, 30000) + "{}" + strings.Repeat(end, 30000)
		wantRejection(t, env, keyword, env.send(t, http.MethodPost, definitionsPath, []byte(start+deep+"}}]}}")))
	}
	// This depth is unrealistic, but valid.
	t.Cleanup(func() { env.send(t, http.MethodDelete, definitionsPath+"/notes.deep.bad.example.com", nil) })
	a := env.send(t, http.MethodPost, definitionsPath, []byte(start+nestedSchema(200)+"}}]}}"))
	if a.code != http.StatusCreated {
		t.Fatalf("depth 200: %d %.300s", a.code, a.body)
	}
	env.await(t, "notes.deep.bad.example.com", apiextensionsv1.Established, apiextensionsv1.ConditionTrue)
	body := `{"apiVersion":"deep.bad.example.com/v1","kind":"Note","metadata":{"name":"n"},"a":` + strings.Repeat(`{"a":`, 199) + `"x"` + strings.Repeat("}", 200)
	if a := env.send(t, http.MethodPost, "/apis/deep.bad.example.com/v1/namespaces/default/notes", []byte(body)); a.code != http.StatusCreated {
		t.Errorf("depth 200: %d %.300s", a.code, a.body)
	}
	wantRejection(t, env, "an object of depth 50000", env.send(t, http.MethodPost, "/apis/deep.bad.example.com/v1/namespaces/default/notes",
		[]byte(`{"apiVersion":"deep.bad.example.com/v1","kind":"Note","metadata":{"name":"m"},"a":`+strings.Repeat(`{"a":`, 50000)+`"x"`+strings.Repeat("}", 50001))))
}

func rejectPatterns(t *testing.T, env *environment) {
	for _, pattern := range []string{"(", "[", "a{2000}", "((a{100}){100}){100}", `(?<x>a)\k<x>`, `(?=a)`, `\1`, "*", "a**", `\pX`, strings.Repeat("(", 1500)} {
		crd := define(t, "pattern.bad.example.com", "Note", `{type: object, properties: {a: {type: string}}}`)
		a := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["a"]
		a.Pattern = pattern
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["a"] = a
		wantRejection(t, env, fmt.Sprintf("%.60q", pattern), env.send(t, http.MethodPost, definitionsPath+"?dryRun=All", encode(t, crd)))
	}
	// Regular expression engines with backtracking need exponential time for these patterns.
	crd := define(t, "backtrack.bad.example.com", "Note", `{type: object, properties: {a: {type: string, pattern: '^(a+)+$'}, b: {type: string, pattern: '^(a|aa)*b$'}}}`)
	env.install(t, crd)
	long := strings.Repeat("a", 100000)
	wantRejection(t, env, "much to match", env.send(t, http.MethodPost, pathOf(crd, "v1"), encode(t, object(t, crd, "n", `{a: `+long+`c, b: `+long+`}`))))
}

func rejectRules(t *testing.T, env *environment) {
	for name, text := range map[string]string{
		"no expression":             `{type: object, x-kubernetes-validations: [{rule: "self ==", message: m}]}`,
		"no boolean":                `{type: object, x-kubernetes-validations: [{rule: "1"}]}`,
		"empty":                     `{type: object, x-kubernetes-validations: [{rule: ""}]}`,
		"an unknown name":           `{type: object, x-kubernetes-validations: [{rule: "other == 1"}]}`,
		"an unknown member":         `{type: object, properties: {a: {type: object}}, x-kubernetes-validations: [{rule: "self.b == 1"}]}`,
		"costs without limit":       `{type: object, properties: {l: {type: array, items: {type: array, items: {type: string}, x-kubernetes-validations: [{rule: "self.all(a, self.all(b, self.all(c, a + b != c)))"}]}}}}`,
		"many that are dear":        `{type: object, properties: {l: {type: array, items: {type: array, items: {type: string}, x-kubernetes-validations: [` + strings.TrimSuffix(strings.Repeat(`{rule: "self.all(a, self.exists_one(b, a == b))"},`, 50), ",") + `]}}}}`,
		"deep":                      `{type: object, x-kubernetes-validations: [{rule: "` + strings.Repeat("(", 400) + "true" + strings.Repeat(")", 400) + `"}]}`,
		"long":                      `{type: object, x-kubernetes-validations: [{rule: "` + strings.Repeat("true && ", 20000) + `1"}]}`,
		"a type twice":              `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "self == 'x'"}]}}}`,
		"a bad path":                `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: "true", fieldPath: ".b"}]}`,
		"a strange reason":          `{type: object, x-kubernetes-validations: [{rule: "true", reason: Because}]}`,
		"a message of lines":        `{type: object, x-kubernetes-validations: [{rule: "true", message: "a\nb"}]}`,
		"a message that is no text": `{type: object, x-kubernetes-validations: [{rule: "true", messageExpression: "5"}]}`,
		"old where there is none":   `{type: object, properties: {l: {type: array, items: {type: string, x-kubernetes-validations: [{rule: "self == oldSelf"}]}}}}`,
	} {
		wantRejection(t, env, name, env.send(t, http.MethodPost, definitionsPath+"?dryRun=All", encode(t, define(t, "rules.bad.example.com", "Note", text))))
	}
}

// rejectAnnotation sends a large definition as client-side kubectl apply does. The annotation with the last
// applied configuration is then too long.
func rejectAnnotation(t *testing.T, env *environment) {
	crd := define(t, "annotated.bad.example.com", "Note", anything)
	crd.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 300<<10)}
	a := env.send(t, http.MethodPost, definitionsPath, encode(t, crd))
	wantRejection(t, env, "annotation", a)
	if want := `metadata.annotations: Too long: may not be more than 262144 bytes`; !strings.Contains(a.status().Message, want) {
		t.Errorf("message %q, want %q", a.status().Message, want)
	}
}

// rejectCostly sends objects for which the rules exceed the cost limit.
func rejectCostly(t *testing.T, env *environment) {
	crd := define(t, "costly.bad.example.com", "Note", `
type: object
properties:
  l: {type: array, maxItems: 3000, items: {type: string, maxLength: 10}, x-kubernetes-validations: [{rule: "self.all(a, self.exists_one(b, a == b))", message: twice}]}
`)
	if a := env.send(t, http.MethodPost, definitionsPath, encode(t, crd)); a.code != http.StatusCreated {
		wantRejection(t, env, "a definition that costs much", a)
		return
	}
	t.Cleanup(func() { env.send(t, http.MethodDelete, definitionsPath+"/"+crd.Name, nil) })
	env.await(t, crd.Name, apiextensionsv1.Established, apiextensionsv1.ConditionTrue)
	var list strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&list, "x%d, ", i)
	}
	wantRejection(t, env, "an object that costs much", env.send(t, http.MethodPost, pathOf(crd, "v1"), encode(t, object(t, crd, "n", `{l: [`+list.String()+`]}`))))
}

// rejectLimits sends documents that consist of nested lists. Documents larger than 3 MiB, and YAML with too many
// lists, are rejected because of their size, other ones because they are not objects.
func rejectLimits(t *testing.T, env *environment) {
	crd := define(t, "limit.bad.example.com", "Note", anything)
	create(t, env.install(t, crd), object(t, crd, "n", `{}`))
	const limit = 3 << 20
	lists := func(size int) string { return strings.Repeat("[", size/2) + strings.Repeat("]", size/2) }
	const start = `{"apiVersion":"limit.bad.example.com/v1","kind":"Note","metadata":{"name":"m"},"v":`
	for _, c := range []struct {
		name, method, contentType, body string
		want                            int
	}{
		{"JSON", http.MethodPost, "application/json", start + lists(limit) + "}", http.StatusRequestEntityTooLarge},
		{"YAML", http.MethodPost, "application/yaml", start + lists(limit) + "}", http.StatusRequestEntityTooLarge},
		{"nested JSON", http.MethodPost, "application/json", start + lists(limit-1000) + "}", http.StatusBadRequest},
		{"nested YAML", http.MethodPost, "application/yaml", start + lists(limit-1000) + "}", http.StatusRequestEntityTooLarge},
		{"JSON without an end", http.MethodPost, "application/json", start + strings.Repeat("[", limit-1000), http.StatusBadRequest},
		{"YAML without an end", http.MethodPost, "application/yaml", start + strings.Repeat("[", limit-1000), http.StatusRequestEntityTooLarge},
		{"a JSON patch", http.MethodPatch, "application/json-patch+json", `[{"op":"add","path":"/v","value":` + lists(limit-200) + `}]`, http.StatusBadRequest},
		{"a merge patch", http.MethodPatch, "application/merge-patch+json", `{"v":` + lists(limit-200) + `}`, http.StatusBadRequest},
		{"an apply patch", http.MethodPatch, "application/apply-patch+yaml", `{"v":` + lists(limit-200) + `}`, http.StatusRequestEntityTooLarge},
	} {
		path := pathOf(crd, "v1")
		if c.method == http.MethodPatch {
			path += "/n?fieldManager=m"
		}
		a := env.send(t, c.method, path, []byte(c.body), "Content-Type", c.contentType)
		wantRejection(t, env, c.name, a)
		if a.code != c.want {
			t.Errorf("%s: %d, want %d: %.200s", c.name, a.code, c.want, a.body)
		}
	}
}
