package endpoints_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/registry"
)

// repeated returns n items separated by commas. Each item is its number in the given format.
func repeated(n int, format string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(items, ",")
}

// processCPU returns the CPU time that the process has used.
func processCPU(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Skip(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestMetadataCost checks that the CPU time of a write grows linearly with the number of finalizers. It is
// not parallel, because it measures the CPU time of the process.
func TestMetadataCost(t *testing.T) {
	a := newAPI(t, endpoints.Config{})
	a.stores["configmaps"].Strategy.Finalizers = registry.WarnUnqualifiedFinalizers
	cost := func(n int) time.Duration {
		name := fmt.Sprint("a", n)
		object := func(format string) string {
			return fmt.Sprintf(`{"metadata":{"name":%q,"finalizers":["foregroundDeletion",%s]}}`, name, repeated(n, format))
		}
		a.must("POST "+inA+"configmaps", object(`"f%d"`))
		least := time.Hour
		for range 3 {
			began := processCPU(t)
			a.must("DELETE "+inA+"configmaps/"+name+"?propagationPolicy=Foreground&dryRun=All", "")
			a.must("PUT "+inA+"configmaps/"+name+"?dryRun=All", object(`"g%d"`))
			least = min(least, processCPU(t)-began)
		}
		return least
	}
	small, large := cost(5_000), cost(40_000)
	if large > 20*small+50*time.Millisecond {
		t.Errorf("5,000 finalizers take %v of CPU, eight times as many %v", small, large)
	}
}

// TestManagedFieldsAreBounded checks that the number of managers in a request is limited.
func TestManagedFieldsAreBounded(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	const entry = `{"manager":"m%d","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}`
	body := func(n int) string {
		return fmt.Sprintf(`{"metadata":{"name":"a","managedFields":[%s]}}`, repeated(n, entry))
	}
	refused := func(got answer) {
		t.Helper()
		if got.Code != 422 || !strings.Contains(got.Body.String(), "metadata.managedFields: Too many: 1001: must have at most 1000 items") {
			t.Errorf("write with 1001 managed fields: %d %s, want code 422", got.Code, got.Body)
		}
	}
	refused(a.do("POST "+inA+"configmaps", body(1001)))
	a.must("POST "+inA+"configmaps", body(1000))
	refused(a.do("PUT "+inA+"configmaps/a", body(1001)))
	refused(a.do("PATCH "+inA+"configmaps/a", body(1001), "Content-Type", mergeT))
}

// TestDeepManagedFields checks that managed fields that are nested deeper than JSON decoders permit are
// ignored. The object could be stored as protobuf, but a list in JSON could not contain it.
func TestDeepManagedFields(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	for name, depth := range map[string]int{"a": 9_500, "b": 20_000, "c": 380_000} {
		fields := strings.Repeat(`{"f:a":`, depth) + "{}" + strings.Repeat("}", depth)
		body := encodeProtobuf(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a", ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "m", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)},
		}}})
		a.must("POST "+inA+"configmaps", body, "Content-Type", protobufType)
	}
	var list corev1.ConfigMapList
	if a.must("GET "+inA+"configmaps", "").object(&list); len(list.Items) != 3 {
		t.Errorf("%d items; want 3", len(list.Items))
	}
}

// TestDeepDocuments checks that a custom resource is rejected if JSON decoders could not read it again
// together with its managed fields.
func TestDeepDocuments(t *testing.T) {
	t.Parallel()
	const widgets = "/apis/example.com/v1/namespaces/a/widgets"
	a := newAPI(t, endpoints.Config{})
	object := func(depth int) string {
		return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":` + strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth) + "}"
	}
	a.must("POST "+widgets, object(8_900))
	a.must("GET "+widgets, "")
	for _, depth := range []int{9_100, 9_996, 9_998} {
		for _, line := range []string{"POST " + widgets, "PUT " + widgets + "/w"} {
			if got := a.do(line, object(depth)); got.Code != 400 {
				t.Errorf("%s with %d levels: %d %s", line, depth, got.Code, got.Body)
			}
		}
		if got := a.do("PATCH "+widgets+"/x?fieldManager=m", strings.Replace(object(depth), `"w"`, `"x"`, 1), "Content-Type", applyT); got.Code != 400 {
			t.Errorf("apply with %d levels: %d %s", depth, got.Code, got.Body)
		}
		if got := a.do("PATCH "+widgets+"/w", object(depth), "Content-Type", mergeT); got.Code != 422 {
			t.Errorf("patch with %d levels: %d %s", depth, got.Code, got.Body)
		}
	}
	a.must("GET "+widgets, "")
}

// TestWritesThatNeedMuchMemory checks that all write methods reject an object whose empty elements would
// need much more memory than the request body.
func TestWritesThatNeedMuchMemory(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	a.must("POST "+inA+"pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	empty := "[" + strings.Repeat("{},", 149_999) + "{}]"
	object := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"volumes":` + empty + `}}`
	for _, tt := range []struct{ name, line, body, media string }{
		{"create", "POST " + inA + "pods", object, "application/json"},
		{"update", "PUT " + inA + "pods/p", object, "application/json"},
		{"JSON patch", "PATCH " + inA + "pods/p", `[{"op":"add","path":"/spec/volumes","value":` + empty + `}]`, jsonT},
		{"merge patch", "PATCH " + inA + "pods/p", `{"spec":{"volumes":` + empty + `}}`, mergeT},
		{"strategic merge patch", "PATCH " + inA + "pods/p", `{"spec":{"tolerations":` + empty + `,"imagePullSecrets":null,"volumes":[{"$patch":"replace"},` + empty[1:] + `}}`, smpT},
		{"apply", "PATCH " + inA + "pods/p?fieldManager=m&force=true", object, applyT},
	} {
		got := a.do(tt.line, tt.body, "Content-Type", tt.media)
		if got.Code != 413 || !strings.Contains(got.Body.String(), "need more than 33554432 bytes of memory") {
			t.Errorf("%s: %d %.300s, want 413", tt.name, got.Code, got.Body)
		}
	}
}
