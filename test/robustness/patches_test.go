package robustness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/test/testserver"
)

// These constants limit the cost of one request. The most expensive request below needs a fraction of them.
// Without the server's own limits, such requests took minutes and allocated gigabytes.
const (
	requestCPU       = 10.0 // seconds, with the race detector
	requestAllocated = 768 << 20
)

// hostileRequest is a small request that might be expensive for the server.
type hostileRequest struct {
	name, method, path string
	contentType        string // of the body; for a GET, of the response
	body               string
	code               int
	message            string // a part of the message; empty matches any
}

const (
	inDefault = "/api/v1/namespaces/default/"
	jsonPatch = "application/json-patch+json"
	mergeT    = "application/merge-patch+json"
	strategic = "application/strategic-merge-patch+json"
	applied   = "application/apply-patch+yaml"
	asTable   = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

// TestHostileWrites sends small objects and patches that could expand without limit: repeated copies, numbers
// with a billion digits, and merges of long lists. The server must respond to each of them with a Status that
// does not contain the request, and must use little CPU time and memory.
func TestHostileWrites(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{})
	client, err := rest.HTTPClientFor(srv.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	p := &pounder{client: client, url: srv.URL()}
	for path, body := range map[string]string{
		inDefault + "configmaps": `{"metadata":{"name":"c"},"data":{"a":"` + strings.Repeat("x", 1000) + `"}}`,
		inDefault + "pods":       `{"metadata":{"name":"p"},"spec":{"containers":[` + repeated(3000, `{"name":"c%d","image":"i"}`) + `]}}`,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": widgets,
	} {
		if code, answer, err := p.send(t.Context(), hostileRequest{method: http.MethodPost, path: path, contentType: "application/json", body: body}); err != nil || code != http.StatusCreated {
			t.Fatalf("create an object at %s: %d %.300s, %v", path, code, answer, err)
		}
	}
	const widget = "/apis/example.com/v1/namespaces/default/widgets"
	testserver.Eventually(t, time.Minute, func() error {
		code, answer, err := p.send(t.Context(), hostileRequest{method: http.MethodPost, path: widget, contentType: "application/json",
			body: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"a":"` + strings.Repeat("x", 1000) + `"}}`})
		if err == nil && code != http.StatusCreated {
			err = fmt.Errorf("create the widget: %d %s", code, answer)
		}
		return err
	})
	for _, r := range hostileWrites(widget) {
		t.Run(r.name, func(t *testing.T) { p.try(t, r) })
	}
}

const widgets = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{
	"group":"example.com","names":{"plural":"widgets","kind":"Widget"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,
	"additionalPrinterColumns":[{"name":"deep","type":"string","jsonPath":".spec..a..a..a..a..a..a"}],
	"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
		"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
		"cpu":{"type":"string","x-kubernetes-validations":[{"rule":"isQuantity(self) && quantity(self).isGreaterThan(quantity('1'))"}]}}}}}]}}`

// hostileWrites returns the requests. widget is the path of a custom resource.
func hostileWrites(widget string) []hostileRequest {
	copies := func(from string) string {
		return "[" + repeated(22, `{"op":"copy","from":"`+from+`","path":"`+from+`/k%d"}`) + "]"
	}
	pod := func(quantity string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"q"},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":` + quantity + `}}}]}}`
	}
	containers := func(n int, more string) string {
		return `{"spec":{"containers":[` + repeated(n, `{"name":"c%d"`+more+`}`) + `]}}`
	}
	const tooMuch, absurd = "would add more than 3145728 bytes", "a quantity may have at most"
	post, patch := http.MethodPost, http.MethodPatch
	return []hostileRequest{
		{"copies of copies", patch, inDefault + "configmaps/c", jsonPatch, copies("/data"), 422, tooMuch},
		{"copies in a custom resource", patch, widget + "/w", jsonPatch, copies("/spec"), 422, tooMuch},
		{"copies in a status", patch, widget + "/w/status", jsonPatch, copies("/spec"), 422, tooMuch},
		{"a list from its beginning", patch, inDefault + "pods/p", jsonPatch, `[{"op":"add","path":"/metadata/finalizers","value":[` + repeated(150_000, `"a.b/c%d"`) +
			"]}," + repeated(9_000, `{"op":"add","path":"/metadata/finalizers/0","value":"x%d"}`) + "]", 422, "take too long"},
		{"aliases", patch, inDefault + "configmaps/c?fieldManager=m", applied, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a: &a " +
			strings.Repeat("x", 1<<20) + "\n  b: [" + strings.Repeat("*a,", 200_000) + "]\n", 413, "aliases"},
		{"a quantity", post, inDefault + "pods", "application/json", pod(`"1e999999999"`), 400, absurd},
		{"a small quantity", post, inDefault + "pods", "application/json", pod(`"1e-999999999"`), 400, absurd},
		{"a quantity as a number", post, inDefault + "pods", "application/json", pod(`1e999999999`), 400, absurd},
		{"a long quantity", post, inDefault + "pods", "application/json", pod(`"` + strings.Repeat("9", 1<<20) + `"`), 400, absurd},
		{"a quantity in YAML", post, inDefault + "pods", "application/yaml", pod(`"1e-999999999"`), 400, absurd},
		{"a quantity that is merged", patch, inDefault + "pods/p", mergeT, `{"spec":{"overhead":{"cpu":"1e-999999999"}}}`, 422, ""},
		{"a quantity that is merged strategically", patch, inDefault + "pods/p", strategic, `{"spec":{"overhead":{"cpu":"1e-999999999"}}}`, 422, absurd},
		{"a quantity that is applied", patch, inDefault + "pods/q?fieldManager=m", applied, pod(`"1e-999999999"`), 400, absurd},
		{"a quantity in a rule", patch, widget + "/w", mergeT, `{"cpu":"1e999999999"}`, 422, ""},
		{"a quantity in an annotation", post, "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", "application/json",
			`{"metadata":{"name":"h","annotations":{"autoscaling.alpha.kubernetes.io/metrics":"[{\"type\":\"Pods\",\"pods\":{\"metricName\":\"m\",\"targetAverageValue\":\"1e-999999999\"}}]"}},
			"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"maxReplicas":3}}`, 201, ""},
		{"a value that a column finds in many ways", post, widget, "application/json", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"deep"},"spec":` +
			strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60) + "}", 201, ""},
		{"a table of it", http.MethodGet, widget, asTable, "", 200, ""},
		{"lists merged strategically", patch, inDefault + "pods/p", strategic, containers(20_000, `,"image":"j"`), 422, ""},
		{"deletions from a list", patch, inDefault + "pods/p?dryRun=All", strategic, `{"spec":{"containers":[{"name":"z","image":"i"},` + repeated(50_000, `{"name":"c%d","$patch":"delete"}`) + `]}}`, 422, ""},
		{"an order of a list", patch, inDefault + "pods/p?dryRun=All", strategic, `{"spec":{"$setElementOrder/containers":[` + repeated(50_000, `{"name":"c%d"}`) + `]}}`, 200, ""},
		{"a list of the same", patch, inDefault + "pods/p", strategic, `{"metadata":{"finalizers":[` + strings.Repeat(`"a.b/c",`, 200_000) + `"a.b/d"]}}`, 0, ""},
		{"many members", patch, inDefault + "configmaps/c", mergeT, `{"data":{` + repeated(150_000, `"k%d":""`) + `}}`, 413, ""},
		{"deep lists", patch, inDefault + "configmaps/c", mergeT, `{"x":` + strings.Repeat("[", 9_000) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("]", 9_000) + `}`, 0, ""},
	}
}

// repeated returns n comma-separated elements, each of which is its index in the given format.
func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// pounder sends requests and measures their cost.
type pounder struct {
	client *http.Client
	url    string
}

func (p *pounder) try(t *testing.T, r hostileRequest) {
	cpu, allocated, err := p.spent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	code, answer, err := p.send(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	var status struct {
		Kind, Message string
		Code          int
	}
	refused := code >= 400
	if err := json.Unmarshal(answer, &status); err != nil || refused && (status.Kind != "Status" || status.Code != code) || code >= 500 {
		t.Errorf("response %d %.300s", code, answer)
	}
	if r.code != 0 && code != r.code || refused && !strings.Contains(status.Message, r.message) {
		t.Errorf("response %d %.300s; want %d with %q", code, status.Message, r.code, r.message)
	}
	if refused && len(answer) > 1<<20 {
		t.Errorf("a refusal of %d bytes", len(answer))
	}
	cpuAfter, allocatedAfter, err := p.spent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("answered %d for %.2f CPU seconds and %.0f MiB allocated", code, cpuAfter-cpu, (allocatedAfter-allocated)/(1<<20))
	if cpuAfter-cpu > requestCPU || allocatedAfter-allocated > requestAllocated {
		t.Errorf("took %.2f CPU seconds and allocated %.0f MiB", cpuAfter-cpu, (allocatedAfter-allocated)/(1<<20))
	}
}

func (p *pounder) send(ctx context.Context, r hostileRequest) (code int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, r.method, p.url+r.path, strings.NewReader(r.body))
	if err != nil {
		return 0, nil, err
	}
	if r.method == http.MethodGet {
		request.Header.Set("Accept", r.contentType)
	} else {
		request.Header.Set("Content-Type", r.contentType)
	}
	resp, err := p.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// spent returns the CPU time that the server process has used, in seconds, and its total allocations, in bytes.
func (p *pounder) spent(ctx context.Context) (cpu, allocated float64, err error) {
	_, answer, err := p.send(ctx, hostileRequest{method: http.MethodGet, path: "/metrics"})
	if err != nil {
		return 0, 0, err
	}
	for line := range bytes.Lines(answer) {
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		var to *float64
		switch name {
		case "process_cpu_seconds_total":
			to = &cpu
		case "go_memstats_alloc_bytes_total":
			to = &allocated
		default:
			continue
		}
		if *to, err = strconv.ParseFloat(value, 64); err != nil {
			return 0, 0, fmt.Errorf("read %s: %w", name, err)
		}
	}
	if cpu == 0 || allocated == 0 {
		return 0, 0, errors.New("the metrics of the process are missing")
	}
	return cpu, allocated, nil
}
