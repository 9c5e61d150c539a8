package openapi

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// testParts returns the group versions in testdata/resources.tsv, either all of them or only those that are
// enabled by default.
func testParts(t testing.TB, all bool) []Part {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "resources.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var parts []Part
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		columns := strings.Split(scanner.Text(), "\t")
		if strings.HasPrefix(scanner.Text(), "#") || !all && columns[2] == "no" {
			continue
		}
		gv := schema.GroupVersion{Group: columns[0], Version: columns[1]}
		if len(parts) == 0 || parts[len(parts)-1].GroupVersion != gv {
			parts = append(parts, Part{GroupVersion: gv})
		}
		part := &parts[len(parts)-1]
		part.Resources = append(part.Resources, testResource(t, columns[3:]))
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return parts
}

func testResource(t testing.TB, columns []string) Resource {
	t.Helper()
	r := Resource{
		Name: columns[0], Subresource: columns[1], Kind: columns[2], Namespaced: columns[4] == "true",
		Verbs: list(columns[5]), Connect: list(columns[6]), Options: columns[7],
	}
	if object := columns[3]; object != "" {
		i := strings.LastIndexByte(object, '/')
		gv, err := schema.ParseGroupVersion(object[:i])
		if err != nil {
			t.Fatal(err)
		}
		r.Object = gv.WithKind(object[i+1:])
	}
	for _, flag := range list(columns[8]) {
		switch flag {
		case "path":
			r.ConnectPath = true
		case "returns-deleted":
			r.ReturnsDeleted = true
		case "text":
			r.Text = true
		default:
			t.Fatalf("unknown flag %q", flag)
		}
	}
	return r
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// skipIfShort skips a test that reads complete documents, which takes long with the race detector, if
// -short is set.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("complete documents are not compared with -short")
	}
}

// testDocuments returns the documents of a server with the group versions of testParts.
func testDocuments(t testing.TB, all bool) *Documents {
	t.Helper()
	return New(Config{Version: "1.36", Issuer: true, Parts: testParts(t, all)})
}

// readJSON decodes a compressed JSON file in testdata.
func readJSON(t testing.TB, name string, into any) {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(r).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// plain returns the JSON of a document.
func plain(t testing.TB, d *Document) []byte {
	t.Helper()
	content, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	data, err := content.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// manyParts returns group versions with ten custom resources each. The schemas of about 30 KB resemble
// generated schemas.
func manyParts(groups int) []Part {
	parts := make([]Part, groups)
	for g := range parts {
		gv := schema.GroupVersion{Group: fmt.Sprintf("group%03d.example.com", g), Version: "v1"}
		schemas := map[version]map[string]Schema{v2: {}, v3: {}}
		p := &parts[g]
		*p = Part{GroupVersion: gv, Custom: true, Schemas: func(isV2 bool) (map[string]Schema, error) {
			return schemas[map[bool]version{true: v2, false: v3}[isV2]], nil
		}}
		for k := range 10 {
			kind := fmt.Sprintf("Thing%d", k)
			verbs := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
			p.Resources = append(p.Resources,
				Resource{Name: strings.ToLower(kind) + "s", Kind: kind, Namespaced: true, Verbs: verbs},
				Resource{Name: strings.ToLower(kind) + "s", Kind: kind, Namespaced: true, Subresource: "status", Verbs: []string{"get", "patch", "update"}})
			model := fmt.Sprintf("com.example.group%03d.v1.%s", g, kind)
			for v, prefix := range map[version]string{v2: v2Reference, v3: v3Reference} {
				schemas[v][model] = Schema{Kind: kind, JSON: manyProperties(g, k), Uses: []string{metaModels + "ObjectMeta"}}
				schemas[v][model+"List"] = Schema{
					Kind: kind + "List", ListOf: kind, Uses: []string{model, metaModels + "ListMeta"},
					JSON: fmt.Appendf(nil, `{"type":"object","properties":{"items":{"type":"array","items":{"$ref":"%s%s"}}}}`, prefix, model),
				}
			}
		}
	}
	return parts
}

func manyProperties(group, kind int) []byte {
	w := []byte(`{"type":"object","properties":{`)
	for section := range 12 {
		if section > 0 {
			w = append(w, ',')
		}
		w = fmt.Appendf(w, `"section%d":{"type":"object","description":"Section %d of group %d and kind %d is \"described\".","properties":{`, section, section, group, kind)
		for property := range 12 {
			if property > 0 {
				w = append(w, ',')
			}
			w = fmt.Appendf(w, `"property%d":{"type":"string","description":"Property %d is what it is for %d reasons; it defaults to what others are in group %d, and cannot be changed later.","maxLength":%d,"x-kubernetes-validations":[{"rule":"self == oldSelf"}]}`,
				property, property, section*property, group, 10*kind+1)
		}
		w = append(w, `},"required":["property1"]}`...)
	}
	return append(w, `},"x-kubernetes-group-version-kind":[{"group":"a","kind":"b","version":"v1"}]}`...)
}
