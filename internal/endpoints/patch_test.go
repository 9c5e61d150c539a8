package endpoints_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/endpoints"
)

const unfit = "the server rejected our request due to an error in our request"

// TestPatches applies each patch to a separate configmap with the data x=1, y=2.
func TestPatches(t *testing.T) {
	t.Parallel()
	const invalid = ` "" is invalid: patch: Invalid value: `
	const isUnchanged = "unchanged"
	for _, test := range []struct {
		name, contentType, patch string
		code                     int
		// want is an error message, the resulting data, or isUnchanged.
		want string
	}{
		{"empty", mergeT, `{}`, 200, isUnchanged},
		{"null", mergeT, `null`, 400, "Invalid JSON Patch"},
		{"list", mergeT, `[]`, 400, "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"},
		{"string", mergeT, `"x"`, 400, "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}"},
		{"broken", mergeT, `{`, 400, "error decoding patch: unexpected end of JSON input"},
		{"kind", mergeT, `{"kind":"Secret"}`, 422, invalid},
		{"apiVersion", mergeT, `{"apiVersion":"v2"}`, 422, invalid},
		{"name", mergeT, `{"metadata":{"name":"b"}}`, 400, "the name of the object (b) does not match the name on the URL (a)"},
		{"namespace", mergeT, `{"metadata":{"namespace":"b"}}`, 400, "the namespace of the provided object does not match the namespace sent on the request"},
		{"uid", mergeT, `{"metadata":{"uid":"b"}}`, 422, `ConfigMap "a" is invalid: metadata.uid: Invalid value: "b": field is immutable`},
		{"old version", mergeT, `{"metadata":{"resourceVersion":"1"},"data":{"x":"2"}}`, 409, `Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again`},
		{"wrong type", mergeT, `{"data":{"x":5}}`, 422, invalid},
		{"merge", mergeT, `{"data":{"x":null,"z":"3"}}`, 200, "map[y:2 z:3]"},
		{"null of all", mergeT, `{"data":null}`, 200, "map[]"},

		{"empty", jsonT, `[]`, 200, isUnchanged},
		{"object", jsonT, `{}`, 400, "error decoding patch: json: cannot unmarshal object into Go value of type []"},
		{"broken", jsonT, `[`, 400, "error decoding patch: unexpected end of JSON input"},
		{"unknown op", jsonT, `[{"op":"frob","path":"/data"}]`, 422, unfit},
		{"no op", jsonT, `[{"path":"/data"}]`, 422, unfit},
		{"no path", jsonT, `[{"op":"add","value":1}]`, 422, unfit},
		{"no value", jsonT, `[{"op":"add","path":"/data/q"}]`, 200, "map[q: x:1 y:2]"},
		{"missing parent", jsonT, `[{"op":"add","path":"/nope/q/r","value":"x"}]`, 422, unfit},
		{"replace missing", jsonT, `[{"op":"replace","path":"/data/none","value":"1"}]`, 200, "map[none:1 x:1 y:2]"},
		{"remove name", jsonT, `[{"op":"remove","path":"/metadata/name"}]`, 400, "the name of the object (a based on URL) was undeterminable: name must be provided"},
		{"escaped path", jsonT, `[{"op":"add","path":"/data/a~1b","value":"c"},{"op":"test","path":"/data/a~1b","value":"c"}]`, 200, "map[a/b:c x:1 y:2]"},
		{"test fails", jsonT, `[{"op":"test","path":"/metadata/resourceVersion","value":"none"}]`, 422, unfit},
		{"index beyond the list", jsonT, `[{"op":"add","path":"/metadata/managedFields/99","value":{}}]`, 422, unfit},
		{"move and copy", jsonT, `[{"op":"move","from":"/data/x","path":"/data/z"},{"op":"copy","from":"/data/y","path":"/data/w"}]`, 200, "map[w:2 y:2 z:1]"},
		{"whole document", jsonT, `[{"op":"replace","path":"","value":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"a"},"data":{"q":"1"}}}]`, 200, "map[q:1]"},
		{"many operations", jsonT, "[" + strings.Repeat(`{"op":"test","path":"/data/x","value":"1"},`, 10000) + `{"op":"test","path":"/data/x","value":"1"}]`, 413,
			"Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"},

		{"null", smpT, `null`, 200, isUnchanged},
		{"empty", smpT, `{}`, 200, isUnchanged},
		{"unknown directive", smpT, `{"$patch":"nope"}`, 400, "unknown patch type: nope in map: map[$patch:nope]"},
		{"delete at top", smpT, `{"$patch":"delete"}`, 400, "the name of the object (a based on URL) was undeterminable: name must be provided"},
		{"replace at top", smpT, `{"$patch":"replace","metadata":{"name":"a"},"data":{"q":"1"}}`, 200, "map[q:1]"},
		{"wrong type for a map", smpT, `{"data":[]}`, 422, invalid + `"map[data:[]]": cannot restore map from slice`},
		{"list for a struct", smpT, `{"metadata":[]}`, 422, invalid + `"map[metadata:[]]": cannot restore struct from: slice`},
		{"deleteFromPrimitiveList on no list", smpT, `{"$deleteFromPrimitiveList/data":["x"]}`, 200, isUnchanged},
		{"merge", smpT, `{"data":{"x":null,"z":"3"}}`, 200, "map[y:2 z:3]"},
		{"replace a map", smpT, `{"data":{"$patch":"replace","q":"1"}}`, 200, "map[q:1]"},
		{"broken", smpT, `{`, 400, "error decoding patch: unexpected end of JSON input"},
	} {
		t.Run(test.contentType+"/"+test.name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, endpoints.Config{})
			before := a.configMap("a", `"x":"1","y":"2"`)
			got := a.do("PATCH "+inA+"configmaps/a", test.patch, "Content-Type", test.contentType)
			if got.Code != test.code {
				t.Fatalf("%d %s; want %d", got.Code, got.Body, test.code)
			}
			after := a.must("GET "+inA+"configmaps/a", "").configMap()
			if test.code != 200 {
				if message := got.status().Message; !strings.HasPrefix(message, test.want) {
					t.Errorf("message %s\nwant %s", message, test.want)
				}
				if diff := cmp.Diff(before, after); diff != "" {
					t.Errorf("a rejected patch was stored:\n%s", diff)
				}
				return
			}
			if diff := cmp.Diff(after, got.configMap()); diff != "" {
				t.Errorf("(-stored +response):\n%s", diff)
			}
			if unchanged := after.ResourceVersion == before.ResourceVersion; unchanged != (test.want == isUnchanged) {
				t.Errorf("revision %s after %s", after.ResourceVersion, before.ResourceVersion)
			} else if !unchanged && fmt.Sprint(after.Data) != test.want {
				t.Errorf("data %v; want %s", after.Data, test.want)
			}
		})
	}
}

func TestPatchOfMissingObject(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	for contentType, patch := range map[string]string{mergeT: `{}`, smpT: `{}`, jsonT: `[]`} {
		a.do("PATCH "+inA+"configmaps/none", patch, "Content-Type", contentType).want(404, `configmaps "none" not found`)
	}
}

func TestStrategicPatchUsesMergeKeys(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	a.must("POST "+inA+"pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"},{"name":"d","image":"j"}]}}`)
	for _, test := range []struct{ patch, want string }{
		{`{"spec":{"containers":[{"name":"d","image":"k"}]}}`, "c=i d=k"},
		{`{"spec":{"containers":[{"name":"e","image":"l"}],"$setElementOrder/containers":[{"name":"d"},{"name":"c"},{"name":"e"}]}}`, "d=k c=i e=l"},
		{`{"spec":{"containers":[{"name":"c","$patch":"delete"}]}}`, "d=k e=l"},
		{`{"spec":{"containers":[{"$patch":"replace"},{"name":"z","image":"z"}]}}`, "z=z"},
	} {
		got := a.must("PATCH "+inA+"pods/p", test.patch, "Content-Type", smpT).pod()
		if images(got) != test.want {
			t.Errorf("%s: %s; want %s", test.patch, images(got), test.want)
		}
	}
}

// TestStrategicPatchNeverPanics merges a patch whose list contains null. The library panics for one of the
// two orders in which it may process the keys of the patch.
func TestStrategicPatchNeverPanics(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	a.configMap("a", "")
	for range 50 {
		got := a.do("PATCH "+inA+"configmaps/a", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"],"finalizers":[null]}}`, "Content-Type", smpT)
		if got.Code != 422 {
			t.Fatalf("patch: %d %s, want code 422", got.Code, got.Body)
		}
	}
}

func images(p *corev1.Pod) string {
	var out []string
	for _, c := range p.Spec.Containers {
		out = append(out, c.Name+"="+c.Image)
	}
	return strings.Join(out, " ")
}

// TestConcurrentPatches checks that concurrent patches of different keys are all applied.
func TestConcurrentPatches(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 10
	a := newAPI(t, endpoints.Config{})
	a.configMap("a", `"x":"1"`)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				patches := map[int][2]string{
					0: {mergeT, fmt.Sprintf(`{"data":{"k%d-%d":"1"}}`, w, i)},
					1: {smpT, fmt.Sprintf(`{"data":{"k%d-%d":"1"}}`, w, i)},
					2: {jsonT, fmt.Sprintf(`[{"op":"add","path":"/data/k%d-%d","value":"1"}]`, w, i)},
				}
				patch := patches[w%3]
				if got := a.do("PATCH "+inA+"configmaps/a", patch[1], "Content-Type", patch[0]); got.Code != 200 {
					t.Errorf("patch %s: %d %s", patch[1], got.Code, got.Body)
				}
			}
		})
	}
	wg.Wait()
	if got := len(a.must("GET "+inA+"configmaps/a", "").configMap().Data); got != writers*each+1 {
		t.Errorf("%d keys; want %d", got, writers*each+1)
	}
}

// apply applies a configuration of a configmap.
func (a *api) apply(manager, query, data string) answer {
	return a.do("PATCH "+inA+"configmaps/a?fieldManager="+manager+query,
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{%s}}`, data), "Content-Type", applyT)
}

// owners returns the manager of each data key.
func owners(c *corev1.ConfigMap) map[string]string {
	out := map[string]string{}
	for _, entry := range c.ManagedFields {
		name := entry.Manager + "/" + string(entry.Operation)
		for key := range c.Data {
			if strings.Contains(string(entry.FieldsV1.Raw), `"f:`+key+`":`) {
				out[key] = strings.TrimPrefix(out[key]+" "+name, " ")
			}
		}
	}
	for key, names := range out {
		sorted := strings.Fields(names)
		slices.Sort(sorted)
		out[key] = strings.Join(sorted, " ")
	}
	return out
}

func TestApply(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	for i, step := range []struct {
		manager, query, data string
		code                 int
		want, owners         string
		message              string
		written              bool
	}{
		{"m1", "", `"x":"1","y":"1"`, 201, "map[x:1 y:1]", "map[x:m1/Apply y:m1/Apply]", "", true},
		{"m1", "", `"x":"1","y":"1"`, 200, "map[x:1 y:1]", "map[x:m1/Apply y:m1/Apply]", "", false},
		{"m2", "", `"x":"1"`, 200, "map[x:1 y:1]", "map[x:m1/Apply m2/Apply y:m1/Apply]", "", true},
		{"m2", "", `"x":"2"`, 409, "map[x:1 y:1]", "", `Apply failed with 1 conflict: conflict with "m1": .data.x`, false},
		{"m2", "&force=true", `"x":"2"`, 200, "map[x:2 y:1]", "map[x:m2/Apply y:m1/Apply]", "", true},
		{"m1", "", `"y":"1"`, 200, "map[x:2 y:1]", "map[x:m2/Apply y:m1/Apply]", "", false},
		{"m1", "", ``, 200, "map[x:2]", "map[x:m2/Apply]", "", true},
		{"m3", "&dryRun=All", `"x":"3"`, 409, "map[x:2]", "", `Apply failed with 1 conflict: conflict with "m2": .data.x`, false},
	} {
		var before string
		if i > 0 {
			before = a.must("GET "+inA+"configmaps/a", "").configMap().ResourceVersion
		}
		got := a.apply(step.manager, step.query, step.data)
		if got.Code != step.code {
			t.Fatalf("step %d: %d %s", i, got.Code, got.Body)
		}
		if step.message != "" && got.status().Message != step.message {
			t.Errorf("step %d: message %s; want %s", i, got.status().Message, step.message)
		}
		now := a.must("GET "+inA+"configmaps/a", "").configMap()
		if fmt.Sprint(now.Data) != step.want || (now.ResourceVersion != before) != step.written {
			t.Errorf("step %d: data %v at %s, before %s; want %s", i, now.Data, now.ResourceVersion, before, step.want)
		}
		if step.owners != "" && fmt.Sprint(owners(now)) != step.owners {
			t.Errorf("step %d: owners %v; want %s", i, owners(now), step.owners)
		}
	}
}

// TestApplyConflictsWithUpdates checks that an apply conflicts with fields that were written with other
// verbs.
func TestApplyConflictsWithUpdates(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	a.must("POST "+inA+"configmaps?fieldManager=creator", `{"metadata":{"name":"a"},"data":{"x":"1"}}`)
	a.must("PATCH "+inA+"configmaps/a?fieldManager=patcher", `{"data":{"y":"1"}}`, "Content-Type", mergeT)
	got := a.apply("m", "", `"x":"2","y":"2"`)
	got.want(409, "Apply failed with 2 conflicts: conflicts with \"creator\" using v1:\n- .data.x\nconflicts with \"patcher\" using v1:\n- .data.y")
	if got.Code == 409 {
		causes := got.status().Details.Causes
		if len(causes) != 2 || causes[0].Type != metav1.CauseTypeFieldManagerConflict || causes[0].Field+causes[1].Field == "" {
			t.Errorf("causes %+v", causes)
		}
	}
	// Managers that set equal values share the field.
	if now := a.apply("m", "", `"x":"1"`).configMap(); fmt.Sprint(owners(now)) != "map[x:creator/Update m/Apply y:patcher/Update]" {
		t.Errorf("owners %v", owners(now))
	}
	// An update takes ownership of the fields that it changes.
	now := a.must("PATCH "+inA+"configmaps/a?fieldManager=patcher", `{"data":{"x":"9"}}`, "Content-Type", mergeT).configMap()
	if fmt.Sprint(owners(now)) != "map[x:patcher/Update y:patcher/Update]" {
		t.Errorf("owners %v", owners(now))
	}
}

func TestApplyRejects(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, body string
		code       int
		message    string
	}{
		{"nothing", "", 400, ""},
		{"a list", "[]", 400, ""},
		{"broken", "{", 400, ""},
		{"another kind", `{"apiVersion":"v1","kind":"Secret"}`, 400, ""},
		{"no kind", `{"data":{}}`, 400, ""},
		{"another name", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`, 400, ""},
		{"another namespace", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"b"}}`, 400, ""},
		{"managed fields", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"managedFields":[{"manager":"m"}]}}`, 400, "metadata.managedFields must be nil"},
		{"wrong type", `{"apiVersion":"v1","kind":"ConfigMap","data":{"x":1}}`, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, endpoints.Config{})
			got := a.do("PATCH "+inA+"configmaps/a?fieldManager=m", test.body, "Content-Type", applyT)
			if test.code == 0 && (got.Code < 400 || got.Code >= 500) || test.code != 0 && got.Code != test.code {
				t.Errorf("apply: %d %s, want code %d (0: any client error)", got.Code, got.Body, test.code)
			}
			if test.message != "" {
				got.want(test.code, test.message)
			}
			a.do("GET "+inA+"configmaps/a", "").want(404, "")
		})
	}
}

// TestApplyOfDeletedObject checks that an apply with a UID affects only the object with this UID, and that
// an apply with the resource version of a deleted object creates a new object.
func TestApplyOfDeletedObject(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	apply := func(metadata string) answer {
		t.Helper()
		return a.do("PATCH "+inA+"configmaps/a?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{`+metadata+`}}`, "Content-Type", applyT)
	}
	const none = `Operation cannot be fulfilled on configmaps "a": uid mismatch: the provided object specified uid x, and no existing object was found`
	apply(`"uid":"x"`).want(409, none)
	apply(`"uid":"x","resourceVersion":"1"`).want(409, none)
	a.do("GET "+inA+"configmaps/a", "").want(404, "")
	created := apply(`"resourceVersion":"1"`)
	created.want(201, "")
	apply(`"uid":"x"`).want(422, `ConfigMap "a" is invalid: metadata.uid: Invalid value: "x": field is immutable`)
	apply(fmt.Sprintf(`"uid":%q`, created.configMap().UID)).want(200, "")
}

// TestApplyOfEmpty checks that both implementations of apply preserve an empty map that replaces a nonempty
// map. Non-ASCII names of managers select apimachinery's implementation. Without the map, a volume would
// have no source.
func TestApplyOfEmpty(t *testing.T) {
	t.Parallel()
	for _, manager := range []string{"m", "%C3%BCber"} {
		a := newAPI(t, endpoints.Config{})
		apply := func(manager, volumes, more string) *corev1.Pod {
			t.Helper()
			body := `{"apiVersion":"v1","kind":"Pod","spec":{"volumes":[` + volumes + `]` + more + `}}`
			return a.must("PATCH "+inA+"pods/p?force=true&fieldManager="+manager, body, "Content-Type", applyT).pod()
		}
		apply(manager, `{"name":"v","emptyDir":{"medium":"Memory"}}`, `,"securityContext":{"runAsUser":1}`)
		for range 2 {
			got := apply(manager, `{"name":"v","emptyDir":{}}`, `,"securityContext":{}`)
			if v := got.Spec.Volumes[0]; v.EmptyDir == nil || v.EmptyDir.Medium != "" || got.Spec.SecurityContext == nil || got.Spec.SecurityContext.RunAsUser != nil {
				t.Errorf("%s applies empty objects: specification %+v", manager, got.Spec)
			}
		}
		// If a manager removes all its fields from a map that another manager applies as empty, the map
		// becomes empty.
		apply("other", `{"name":"w","emptyDir":{}}`, "")
		apply(manager, `{"name":"w","emptyDir":{"medium":"Memory"}}`, "")
		if got := apply(manager, "", ""); len(got.Spec.Volumes) != 1 || got.Spec.Volumes[0].EmptyDir == nil || got.Spec.Volumes[0].EmptyDir.Medium != "" {
			t.Errorf("%s removes all its fields: specification %+v", manager, got.Spec)
		}
	}
}

// TestApplyOfYAML applies a hand-written YAML document.
func TestApplyOfYAML(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	got := a.must("PATCH "+inA+"configmaps/a?fieldManager=m", "apiVersion: v1\nkind: ConfigMap\ndata: # with a comment\n  x: \"1\"\n", "Content-Type", applyT)
	if got.Code != http.StatusCreated || got.configMap().Data["x"] != "1" {
		t.Errorf("apply a YAML document: %d %s", got.Code, got.Body)
	}
	a.do("PATCH "+inA+"configmaps/a?fieldManager=m&fieldValidation=Strict", "apiVersion: v1\nkind: ConfigMap\ndata: {x: a, x: b}\n", "Content-Type", applyT).want(400, "")
}

// TestSubresourcesOwnTheirFields checks that a write through a subresource owns only the fields that can be
// written through the subresource, and that the managed fields entry names the subresource.
func TestSubresourcesOwnTheirFields(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	a.must("POST "+inA+"pods?fieldManager=creator", `{"metadata":{"name":"p"},"spec":{"nodeName":"n"}}`)
	p := a.must("PATCH "+inA+"pods/p/status?fieldManager=kubelet", `{"spec":{"nodeName":"m"},"status":{"message":"x"}}`, "Content-Type", mergeT).pod()
	if p.Spec.NodeName != "n" || p.Status.Message != "x" {
		t.Fatalf("pod %+v", p)
	}
	got := map[string]string{}
	for _, entry := range p.ManagedFields {
		got[entry.Manager+"/"+entry.Subresource] = string(entry.FieldsV1.Raw)
	}
	want := map[string]string{
		"creator/":       `{"f:spec":{"f:nodeName":{},"f:restartPolicy":{}}}`,
		"kubelet/status": `{"f:status":{"f:message":{}}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("managed fields (-want +got):\n%s", diff)
	}
	applied := a.do("PATCH "+inA+"pods/p/status?fieldManager=m", `{"apiVersion":"v1","kind":"Pod","status":{"message":"y"}}`, "Content-Type", applyT)
	applied.want(409, `Apply failed with 1 conflict: conflict with "kubelet" with subresource "status" using v1: .status.message`)
}

// FuzzPatch checks that no patch causes a server error, and that the stored object is still a
// configmap with the same name.
func FuzzPatch(f *testing.F) {
	for _, seed := range []string{`{}`, `null`, `[]`, `{"data":{"x":null}}`, `[{"op":"move","from":"/data","path":"/data/x"}]`, `[{"op":"copy","from":"","path":"/data"}]`,
		`{"$patch":"replace"}`, `{"$retainKeys":["x"],"data":{"$patch":"delete"}}`, `{"$setElementOrder/data":[1]}`, `{"$deleteFromPrimitiveList/finalizers":["x"],"metadata":{"$deleteFromPrimitiveList/finalizers":["x"],"finalizers":[null]}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"managedFields":null},"data":{"x":"1"}}`, "apiVersion: v1\nkind: ConfigMap\nbinaryData: {a: !!binary aGVsbG8=}\n",
		`{"metadata":{"managedFields":[{"fieldsV1":{"f:x":5}}]}}`, `{"metadata":{"ownerReferences":[{"$patch":"delete"}]}}`, `[{"op":"add","path":"/metadata/managedFields/-","value":null}]`, `{"metadata":null}`, `{"metadata":{"annotations":{"a":5}}}`} {
		for kind := range byte(4) {
			f.Add(kind, seed)
		}
	}
	contentTypes := []string{mergeT, smpT, jsonT, applyT}
	a := newAPI(f, endpoints.Config{})
	a.configMap("a", `"x":"1"`)
	f.Fuzz(func(t *testing.T, kind byte, patch string) {
		r := newRequest("PATCH "+inA+"configmaps/a?fieldManager=fuzz", strings.NewReader(patch))
		r.Header.Set("Content-Type", contentTypes[int(kind)%len(contentTypes)])
		got := a.send(r)
		got.t = t
		if got.Code >= 500 {
			t.Errorf("patch %q: %d %s", patch, got.Code, got.Body)
		}
		now := a.send(newRequest("GET "+inA+"configmaps/a", nil))
		now.t = t
		if c := now.configMap(); c.Name != "a" || c.Namespace != "a" || c.UID == "" {
			t.Errorf("stored %+v", c)
		}
	})
}
