package crds

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// refusing is input that is broken or too much: each is answered with a Status
// of its fault, and the server goes on.
var refusing = []behaviour{
	{"documents that are none", refuseDocuments},
	{"too much", refuseTooMuch},
	{"depth", refuseDepth},
	{"patterns", refusePatterns},
	{"rules", refuseRules},
	{"an annotation that is too long", refuseAnnotation},
	{"objects that cost much", refuseCostly},
	{"objects and patches of almost 3 MiB, and more", refuseLimits},
}

// refused checks that an answer is a Status that tells of a mistake, and that
// the server serves.
func refused(t *testing.T, w *world, name string, a answer) {
	t.Helper()
	if s := a.status(); a.code < 400 || a.code > 499 || s.Message == "" || int(s.Code) != a.code {
		t.Errorf("%s: %d %.500s", name, a.code, a.body)
	}
	if a := w.send(t, http.MethodGet, "/readyz", nil); a.code != http.StatusOK {
		t.Errorf("%s: the server is not ready: %d", name, a.code)
	}
}

func refuseDocuments(t *testing.T, w *world) {
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
		refused(t, w, fmt.Sprintf("JSON %.120q", body), w.send(t, http.MethodPost, definitionsPath, []byte(body)))
	}
	for _, body := range []string{"\t", "a: b: c", "- - -", "%", "{{", "a: *b", "!!binary x", bomb, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n  bad: indent\n"} {
		refused(t, w, fmt.Sprintf("YAML %.120q", body), w.send(t, http.MethodPost, definitionsPath, []byte(body), "Content-Type", "application/yaml"))
	}
	for _, body := range []string{"k8s\x00", "k8s\x00\xff\xff\xff\xff", "k8s\x00\x0a\x10\x0a\x02v1\x12\x0aDefinition\x12\x03\xff\xff\xff"} {
		refused(t, w, fmt.Sprintf("protobuf %q", body), w.send(t, http.MethodPost, definitionsPath, []byte(body), "Content-Type", "application/vnd.kubernetes.protobuf"))
	}
}

func refuseTooMuch(t *testing.T, w *world) {
	crd := define(t, "large.bad.example.com", "Note", anything)
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = strings.Repeat("x", 3<<20-1000)
	a := w.send(t, http.MethodPost, definitionsPath, encode(t, crd))
	if a.code != http.StatusRequestEntityTooLarge && a.code != http.StatusCreated { // etcd takes 1.5 MiB, a store of ours may take more
		t.Errorf("3 MiB: %d %.300s", a.code, a.body)
	}
	w.send(t, http.MethodDelete, definitionsPath+"/"+crd.Name, nil)
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = strings.Repeat("x", 4<<20)
	a = w.send(t, http.MethodPost, definitionsPath, encode(t, crd))
	refused(t, w, "4 MiB", a)
	if a.code != http.StatusRequestEntityTooLarge {
		t.Errorf("4 MiB: %d %.300s", a.code, a.body)
	}
}

// nestedSchema is a schema of objects within objects.
func nestedSchema(depth int) string {
	return strings.Repeat(`{"type":"object","properties":{"a":`, depth) + `{"type":"string"}` + strings.Repeat("}}", depth)
}

func refuseDepth(t *testing.T, w *world) {
	const start = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"notes.deep.bad.example.com"},"spec":{"group":"deep.bad.example.com","scope":"Namespaced","names":{"plural":"notes","kind":"Note"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":`
	refused(t, w, "a schema of depth 50000", w.send(t, http.MethodPost, definitionsPath, []byte(start+nestedSchema(50000)+"}}]}}")))
	for keyword, end := range map[string]string{`{"not":`: "}", `{"allOf":[`: "]}", `{"type":"array","items":`: "}", `{"additionalProperties":`: "}"} {
		deep := strings.Repeat(keyword, 30000) + "{}" + strings.Repeat(end, 30000)
		refused(t, w, keyword, w.send(t, http.MethodPost, definitionsPath, []byte(start+deep+"}}]}}")))
	}
	// A depth that nobody has, but that can be done.
	t.Cleanup(func() { w.send(t, http.MethodDelete, definitionsPath+"/notes.deep.bad.example.com", nil) })
	a := w.send(t, http.MethodPost, definitionsPath, []byte(start+nestedSchema(200)+"}}]}}"))
	if a.code != http.StatusCreated {
		t.Fatalf("depth 200: %d %.300s", a.code, a.body)
	}
	w.await(t, "notes.deep.bad.example.com", apiextensionsv1.Established, apiextensionsv1.ConditionTrue)
	body := `{"apiVersion":"deep.bad.example.com/v1","kind":"Note","metadata":{"name":"n"},"a":` + strings.Repeat(`{"a":`, 199) + `"x"` + strings.Repeat("}", 200)
	if a := w.send(t, http.MethodPost, "/apis/deep.bad.example.com/v1/namespaces/default/notes", []byte(body)); a.code != http.StatusCreated {
		t.Errorf("depth 200: %d %.300s", a.code, a.body)
	}
	refused(t, w, "an object of depth 50000", w.send(t, http.MethodPost, "/apis/deep.bad.example.com/v1/namespaces/default/notes",
		[]byte(`{"apiVersion":"deep.bad.example.com/v1","kind":"Note","metadata":{"name":"m"},"a":`+strings.Repeat(`{"a":`, 50000)+`"x"`+strings.Repeat("}", 50001))))
}

func refusePatterns(t *testing.T, w *world) {
	for _, pattern := range []string{"(", "[", "a{2000}", "((a{100}){100}){100}", `(?<x>a)\k<x>`, `(?=a)`, `\1`, "*", "a**", `\pX`, strings.Repeat("(", 1500)} {
		crd := define(t, "pattern.bad.example.com", "Note", `{type: object, properties: {a: {type: string}}}`)
		a := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["a"]
		a.Pattern = pattern
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["a"] = a
		refused(t, w, fmt.Sprintf("%.60q", pattern), w.send(t, http.MethodPost, definitionsPath+"?dryRun=All", encode(t, crd)))
	}
	// Patterns that other engines take for ever to match.
	crd := define(t, "backtrack.bad.example.com", "Note", `{type: object, properties: {a: {type: string, pattern: '^(a+)+$'}, b: {type: string, pattern: '^(a|aa)*b$'}}}`)
	w.install(t, crd)
	long := strings.Repeat("a", 100000)
	refused(t, w, "much to match", w.send(t, http.MethodPost, pathOf(crd, "v1"), encode(t, object(t, crd, "n", `{a: `+long+`c, b: `+long+`}`))))
}

func refuseRules(t *testing.T, w *world) {
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
		refused(t, w, name, w.send(t, http.MethodPost, definitionsPath+"?dryRun=All", encode(t, define(t, "rules.bad.example.com", "Note", text))))
	}
}

// refuseAnnotation is kubectl apply of a large definition from the client: what
// it keeps in an annotation is too long.
func refuseAnnotation(t *testing.T, w *world) {
	crd := define(t, "annotated.bad.example.com", "Note", anything)
	crd.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 300<<10)}
	a := w.send(t, http.MethodPost, definitionsPath, encode(t, crd))
	refused(t, w, "annotation", a)
	if want := `metadata.annotations: Too long: may not be more than 262144 bytes`; !strings.Contains(a.status().Message, want) {
		t.Errorf("%s", a.status().Message)
	}
}

// refuseCostly sends objects whose rules take longer than they may.
func refuseCostly(t *testing.T, w *world) {
	crd := define(t, "costly.bad.example.com", "Note", `
type: object
properties:
  l: {type: array, maxItems: 3000, items: {type: string, maxLength: 10}, x-kubernetes-validations: [{rule: "self.all(a, self.exists_one(b, a == b))", message: twice}]}
`)
	if a := w.send(t, http.MethodPost, definitionsPath, encode(t, crd)); a.code != http.StatusCreated {
		refused(t, w, "a definition that costs much", a)
		return
	}
	t.Cleanup(func() { w.send(t, http.MethodDelete, definitionsPath+"/"+crd.Name, nil) })
	w.await(t, crd.Name, apiextensionsv1.Established, apiextensionsv1.ConditionTrue)
	var list strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&list, "x%d, ", i)
	}
	refused(t, w, "an object that costs much", w.send(t, http.MethodPost, pathOf(crd, "v1"), encode(t, object(t, crd, "n", `{l: [`+list.String()+`]}`))))
}

// refuseLimits sends documents of lists in lists: those of more than 3 MiB are
// too large, those of less are no objects.
func refuseLimits(t *testing.T, w *world) {
	crd := define(t, "limit.bad.example.com", "Note", anything)
	create(t, w.install(t, crd), object(t, crd, "n", `{}`))
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
		{"nested YAML", http.MethodPost, "application/yaml", start + lists(limit-1000) + "}", http.StatusBadRequest},
		{"JSON without an end", http.MethodPost, "application/json", start + strings.Repeat("[", limit-1000), http.StatusBadRequest},
		{"YAML without an end", http.MethodPost, "application/yaml", start + strings.Repeat("[", limit-1000), http.StatusBadRequest},
		{"a JSON patch", http.MethodPatch, "application/json-patch+json", `[{"op":"add","path":"/v","value":` + lists(limit-200) + `}]`, http.StatusBadRequest},
		{"a merge patch", http.MethodPatch, "application/merge-patch+json", `{"v":` + lists(limit-200) + `}`, http.StatusBadRequest},
		{"an apply patch", http.MethodPatch, "application/apply-patch+yaml", `{"v":` + lists(limit-200) + `}`, http.StatusBadRequest},
	} {
		path := pathOf(crd, "v1")
		if c.method == http.MethodPatch {
			path += "/n?fieldManager=m"
		}
		a := w.send(t, c.method, path, []byte(c.body), "Content-Type", c.contentType)
		refused(t, w, c.name, a)
		if a.code != c.want {
			t.Errorf("%s: %d, want %d: %.200s", c.name, a.code, c.want, a.body)
		}
	}
}
