package conversion_test

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mainstay.dev/mainstay/internal/apis/custom/conversion"
	"mainstay.dev/mainstay/internal/egress/webhook"
)

// BenchmarkConvert measures the conversion of 1 and of 500 objects of about 1 KB by a trivial webhook.
func BenchmarkConvert(b *testing.B) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review, _ := io.ReadAll(r.Body)
		_, after, _ := bytes.Cut(review, []byte(`"uid":"`))
		uid, after, _ := bytes.Cut(after, []byte(`"`))
		_, after, _ = bytes.Cut(after, []byte(`"objects":`))
		objects, _, _ := bytes.Cut(after, []byte(`},"response":`))
		fmt.Fprintf(w, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"%s","result":{"status":"Success"},"convertedObjects":%s}}`,
			uid, bytes.ReplaceAll(objects, []byte("example.com/v1"), []byte("example.com/v2")))
	}))
	defer server.Close()
	c, err := conversion.New(conversion.Config{Clients: &webhook.Clients{}, Webhook: &apiextensionsv1.WebhookConversion{
		ClientConfig: &apiextensionsv1.WebhookClientConfig{
			URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
		ConversionReviewVersions: []string{"v1"},
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for _, n := range []int{1, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				objects := make([]*unstructured.Unstructured, n)
				for i := range objects {
					objects[i] = thing("v1", fmt.Sprint(i))
					objects[i].Object["spec"] = map[string]any{"a": strings.Repeat("a", 400), "b": []any{int64(1), strings.Repeat("b", 300)}}
				}
				b.StartTimer()
				if _, err := c.Convert(b.Context(), objects, v2); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
