package conversion_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/custom/conversion"
	"mainstay.dev/mainstay/internal/egress/webhook"
)

// review is a ConversionReview that a webhook receives.
type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    struct {
		UID               string           `json:"uid"`
		DesiredAPIVersion string           `json:"desiredAPIVersion"`
		Objects           []map[string]any `json:"objects"`
	} `json:"request"`
}

// newConverter returns a converter with a webhook that responds with the result of respond.
func newConverter(t testing.TB, version string, metrics *conversion.Metrics, respond func(r review) string) *conversion.Converter {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var asked review
		if err := json.Unmarshal(body, &asked); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, respond(asked))
	}))
	t.Cleanup(server.Close)
	c, err := conversion.New(conversion.Config{
		Definition: "things.example.com", Clients: &webhook.Clients{}, Metrics: metrics,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			ConversionReviewVersions: []string{"v9", version},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// success returns a successful response to a review with objects.
func success(r review, objects ...any) string {
	encoded, err := json.Marshal(map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind, "response": map[string]any{
		"uid": r.Request.UID, "result": map[string]any{"status": "Success"}, "convertedObjects": objects,
	}})
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

// converted returns the correct result of converting an object.
func converted(object map[string]any, to string) map[string]any {
	return map[string]any{"apiVersion": to, "kind": object["kind"], "metadata": object["metadata"], "converted": true}
}

func thing(version, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/" + version, "kind": "Thing",
		"metadata": map[string]any{
			"name": name, "namespace": "n", "uid": "u-" + name, "creationTimestamp": "2026-01-02T03:04:05Z",
			"labels": map[string]any{"a": "b"},
		},
	}}
}

var v2 = schema.GroupVersion{Group: "example.com", Version: "v2"}

func TestConvert(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			var asked []review
			c := newConverter(t, version, nil, func(r review) string {
				asked = append(asked, r)
				var objects []any
				for _, object := range r.Request.Objects {
					objects = append(objects, converted(object, r.Request.DesiredAPIVersion))
				}
				return success(r, objects...)
			})
			empty := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing"}}
			got, err := c.Convert(t.Context(), []*unstructured.Unstructured{thing("v1", "a"), thing("v2", "b"), empty, thing("v3", "c")}, v2)
			if err != nil {
				t.Fatal(err)
			}
			names := ""
			for _, obj := range got {
				names += fmt.Sprint(" ", obj.GetAPIVersion(), obj.GetName(), obj.Object["converted"])
			}
			if want := " example.com/v2atrue example.com/v2b<nil> example.com/v2<nil> example.com/v2ctrue"; names != want {
				t.Errorf("%s, want %s", names, want)
			}
			if len(asked) != 1 || asked[0].Kind != "ConversionReview" || asked[0].APIVersion != "apiextensions.k8s.io/"+version ||
				asked[0].Request.UID == "" || asked[0].Request.DesiredAPIVersion != "example.com/v2" || len(asked[0].Request.Objects) != 2 {
				t.Errorf("the webhook received %+v", asked)
			}
			if _, err := c.Convert(t.Context(), []*unstructured.Unstructured{thing("v2", "b")}, v2); err != nil || len(asked) != 1 {
				t.Errorf("nothing to convert: error %v, %d calls of the webhook, want 1", err, len(asked))
			}
		})
	}
}

// TestMetadata checks that the webhook can change labels and annotations, but no other metadata.
func TestMetadata(t *testing.T) {
	t.Parallel()
	c := newConverter(t, "v1", nil, func(r review) string {
		object := converted(r.Request.Objects[0], "example.com/v2")
		object["metadata"] = map[string]any{
			"name": "a", "namespace": "n", "uid": "u-a", "creationTimestamp": "1999-01-01T00:00:00Z", "finalizers": []string{"x"},
			"annotations": map[string]string{"c": "d"}, "generation": 7,
		}
		return success(r, object)
	})
	got, err := c.Convert(t.Context(), []*unstructured.Unstructured{thing("v1", "a")}, v2)
	if err != nil {
		t.Fatal(err)
	}
	want := thing("v1", "a").Object["metadata"].(map[string]any)
	delete(want, "labels")
	want["annotations"] = map[string]any{"c": "d"}
	if diff := cmp.Diff(want, got[0].Object["metadata"]); diff != "" {
		t.Error(diff)
	}
}

func TestRefusedAnswers(t *testing.T) {
	t.Parallel()
	// changed returns a webhook that makes an invalid change to the converted object.
	changed := func(change func(object map[string]any)) func(review) string {
		return func(r review) string {
			object := converted(r.Request.Objects[0], "example.com/v2")
			change(object)
			return success(r, object)
		}
	}
	metadata := func(name string, value any) func(review) string {
		return changed(func(object map[string]any) { object["metadata"].(map[string]any)[name] = value })
	}
	const of = "conversion webhook for example.com/v1, Kind=Thing "
	for _, test := range []struct {
		name   string
		answer func(review) string
		want   string
	}{
		{"failure", func(r review) string {
			return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"response":{"uid":%q,"result":{"status":"Failure","message":"not this one"}}}`, r.APIVersion, r.Kind, r.Request.UID)
		}, "failed: not this one"},
		{"failure without a message", func(r review) string {
			return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"response":{"uid":%q}}`, r.APIVersion, r.Kind, r.Request.UID)
		}, "failed: response.result.status was '', not 'Success'"},
		{"no response", func(r review) string { return fmt.Sprintf(`{"apiVersion":%q,"kind":%q}`, r.APIVersion, r.Kind) }, "failed: no response provided"},
		{"wrong uid", func(r review) string { r.Request.UID = "x"; return success(r) }, `failed: expected response.uid="`},
		{"wrong review version", func(r review) string { r.APIVersion = "apiextensions.k8s.io/v1beta1"; return success(r) },
			"failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1beta1, Kind=ConversionReview"},
		{"no type", func(r review) string { return `{}` }, "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind="},
		{"another kind", func(r review) string { return `{"apiVersion":"v1","kind":"Pod"}` }, `failed: no kind "Pod" is registered for version "v1" in scheme "webhook"`},
		{"a Status", func(r review) string { return `{"apiVersion":"v1","kind":"Status","status":"Failure","message":"no"}` }, "failed: no"},
		{"garbage", func(r review) string { return "hello" }, "failed: couldn't get version/kind; json parse error"},
		{"other types", func(r review) string {
			return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":[]}`
		}, "failed: json: cannot unmarshal array"},
		{"too few", func(r review) string { return success(r) }, "returned 0 objects, expected 1"},
		{"too many", func(r review) string { return success(r, map[string]any{}, map[string]any{}) }, "returned 2 objects, expected 1"},
		{"null", func(r review) string { return success(r, nil) }, "returned invalid object: "},
		{"no object", func(r review) string { return success(r, "text") }, "returned invalid object: "},
		{"not converted", changed(func(object map[string]any) { object["apiVersion"] = "example.com/v1" }),
			"returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v1)"},
		{"kind", changed(func(object map[string]any) { object["kind"] = "Other" }), "returned invalid object at index 0: invalid kind (expected Thing, received Other)"},
		{"name", metadata("name", "other"), "returned invalid object: must have the same name: a != other"},
		{"namespace", metadata("namespace", ""), "returned invalid object: must have the same namespace: n != "},
		{"uid", metadata("uid", "1"), "returned invalid object: must have the same UID: u-a != 1"},
		{"no metadata", changed(func(object map[string]any) { delete(object, "metadata") }), "returned invalid object: must have the same name: a != "},
		{"labels", metadata("labels", "x"), "returned invalid metadata: invalid metadata.labels of type string in converted object"},
		{"a label", metadata("labels", map[string]any{"a": 1}), "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object"},
		{"an invalid label", metadata("labels", map[string]any{"a b": "c"}), `returned invalid metadata: metadata.labels: Invalid value: "a b": `},
		{"an invalid annotation", metadata("annotations", map[string]any{"a b": "c"}), `returned invalid metadata: metadata.annotation: Invalid value: "a b": `},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newConverter(t, "v1", nil, test.answer)
			_, err := c.Convert(t.Context(), []*unstructured.Unstructured{thing("v1", "a")}, v2)
			var refused *conversion.Error
			if !errors.As(err, &refused) || !strings.HasPrefix(refused.Message, of+test.want) {
				t.Fatalf("%v\nwant %s", err, of+test.want)
			}
			if status := refused.Status(); status.Code != 500 || status.Reason != "" || status.Message != refused.Message {
				t.Errorf("status %+v, want code 500, no reason and the message %q", status, refused.Message)
			}
		})
	}
}

// TestInvalidObjectOfMany checks that the error contains the index of the invalid object.
func TestInvalidObjectOfMany(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"name":   "returned invalid converted object at index 1: must have the same name: b != x",
		"labels": "returned invalid metadata in object at index 1: invalid metadata.labels of type string in converted object",
	} {
		c := newConverter(t, "v1", nil, func(r review) string {
			first, second := converted(r.Request.Objects[0], "example.com/v2"), converted(r.Request.Objects[1], "example.com/v2")
			second["metadata"].(map[string]any)[key] = "x"
			return success(r, first, second)
		})
		_, err := c.Convert(t.Context(), []*unstructured.Unstructured{thing("v1", "a"), thing("v1", "b")}, v2)
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestLongMessages checks that long messages of webhooks are truncated.
func TestLongMessages(t *testing.T) {
	t.Parallel()
	c := newConverter(t, "v1beta1", nil, func(review) string {
		return `{"response":{"result":{"status":"Failure","message":"` + strings.Repeat("ä", 1<<20) + `"}}}`
	})
	if _, err := c.Convert(t.Context(), []*unstructured.Unstructured{thing("v1", "a")}, v2); err == nil || len(err.Error()) > 8<<10 {
		t.Errorf("the error has %d bytes, want at most 8 KiB", len(err.Error()))
	}
}

// TestCanceled checks that a canceled call returns the error of its context, and not an error of the webhook.
func TestCanceled(t *testing.T) {
	t.Parallel()
	c := newConverter(t, "v1", nil, func(r review) string { return success(r) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Convert(ctx, []*unstructured.Unstructured{thing("v1", "a")}, v2); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestUnknownReviews(t *testing.T) {
	t.Parallel()
	url := "https://example.com"
	_, err := conversion.New(conversion.Config{Clients: &webhook.Clients{}, Webhook: &apiextensionsv1.WebhookConversion{
		ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &url}, ConversionReviewVersions: []string{"v9"},
	}})
	if err == nil || err.Error() != "no supported conversion review versions" {
		t.Error(err)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics, err := conversion.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	short := true
	c := newConverter(t, "v1", metrics, func(r review) string {
		if short {
			return success(r)
		}
		return success(r, converted(r.Request.Objects[0], "example.com/v2"))
	})
	for range 2 {
		_, _ = c.Convert(t.Context(), []*unstructured.Unstructured{thing("v1", "a")}, v2)
		short = false
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			got[family.GetName()+" "+strings.Join(labels, ",")] = metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	const partial = " conversion_webhook_partial_response_failure,failure"
	want := map[string]float64{
		"apiserver_conversion_webhook_request_total ,success":                              1,
		"apiserver_conversion_webhook_request_total" + partial:                             1,
		"apiserver_conversion_webhook_duration_seconds ,success":                           1,
		"apiserver_conversion_webhook_duration_seconds" + partial:                          1,
		"apiserver_crd_conversion_webhook_duration_seconds things.example.com,v1,true,v2":  1,
		"apiserver_crd_conversion_webhook_duration_seconds things.example.com,v1,false,v2": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzResponse checks that a webhook can only change the permitted parts of an object.
func FuzzResponse(f *testing.F) {
	var body string
	c := newConverter(f, "v1beta1", nil, func(review) string { return body })
	f.Add(`{"response":{"result":{"status":"Success"},"convertedObjects":[{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"a","namespace":"n","uid":"u-a"}}]}}`)
	f.Add("response:\n  result: {status: Success}\n  convertedObjects: [{}]\n")
	f.Add(`{"response":{"result":{"status":"Success"},"convertedObjects":[null]}}`)
	f.Fuzz(func(t *testing.T, answer string) {
		body = answer
		got, err := c.Convert(t.Context(), []*unstructured.Unstructured{thing("v1", "a")}, v2)
		if err != nil {
			return
		}
		if obj := got[0]; len(got) != 1 || obj.GetName() != "a" || obj.GetUID() != "u-a" || obj.GetAPIVersion() != "example.com/v2" || obj.GetKind() != "Thing" {
			t.Errorf("converted objects %v, want the object a in version v2", got)
		}
	})
}
