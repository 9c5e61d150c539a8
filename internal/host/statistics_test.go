package host

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestStatistics checks which users and methods StatisticsPath permits, and which series it returns.
func TestStatistics(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	s.host.recorder.Sample()
	for _, method := range []string{"POST", "GET"} {
		if code, body := s.do(t, method, configMaps, `{"metadata":{"name":"a"}}`); code >= 300 {
			t.Fatalf("unexpected response: %d %s", code, body)
		}
	}
	s.host.recorder.Sample()
	for _, tt := range []struct {
		name   string
		client *http.Client
		method string
		user   string // impersonated
		code   int
		want   string
	}{
		{"administrator", s.admin, "GET", "", 200, `"kind":"Statistics"`},
		{"header", s.admin, "HEAD", "", 200, ""},
		{"another method", s.admin, "POST", "", 405, `"reason":"MethodNotAllowed"`},
		{"user", s.admin, "GET", "jane", 403, `cannot get resource \"statistics\" in API group \"mainstay.dev\"`},
		{"header for a user", s.admin, "HEAD", "jane", 403, ""},
		{"anonymous", client(t, nil), "GET", "", 403, `"reason":"Forbidden"`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, s.URL+StatisticsPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.user != "" {
			req.Header.Set("Impersonate-User", tt.user)
		}
		code, body, header := roundTrip(t, tt.client, req)
		if code != tt.code || !strings.Contains(body, tt.want) || header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: code %d, content type %s, body %s, want code %d with %q", tt.name, code, header.Get("Content-Type"), body, tt.code, tt.want)
		}
	}

	var got struct {
		Times  []int64
		Series []struct {
			Name, Label, Unit string
			Values            []*float64
		}
	}
	_, body := fetch(t, s.admin, s.URL+StatisticsPath)
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	recorded := map[string]bool{}
	for _, series := range got.Series {
		recorded[strings.TrimSpace(series.Name+" "+series.Label)] = true
		if len(series.Values) != len(got.Times) {
			t.Errorf("%s has %d values for %d times", series.Name, len(series.Values), len(got.Times))
		}
	}
	for _, name := range []string{
		"requests POST", "latencyP50 POST", "latencyP99 POST", "commitP50", "commitP99", "storeSize", "residentMemory", "heapInUse", "cpu",
		"goroutines", "workQueue", "executing exempt",
	} {
		if !recorded[name] {
			t.Errorf("there is no series %s in %v", name, recorded)
		}
	}
}

// BenchmarkStatisticsSample measures how long a new server needs to record one sample of its metrics.
func BenchmarkStatisticsSample(b *testing.B) {
	s := start(b, Config{})
	for _, path := range []string{"/api/v1/pods", "/api/v1/nodes", "/apis/apps/v1/deployments", "/metrics"} {
		fetch(b, s.admin, s.URL+path)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.host.recorder.Sample()
	}
}
