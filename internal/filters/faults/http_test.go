package faults_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/filters/faults"
	"mainstay.dev/mainstay/internal/simulation"
)

func send(handler http.Handler, method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

func TestEndpoint(t *testing.T) {
	t.Parallel()
	set := &faults.Set{}
	const fault = `{"resource":"pods","status":503,"count":2,"delay":"1.5s"}`
	steps := []struct {
		method, path, body string
		code               int
		want               string // part of the response body
	}{
		{"GET", "", "", 200, `{"faults":[]}`},
		{"POST", "", fault, 201, `{"id":1,"hits":0,"resource":"pods","count":2,"delay":"1.5s","status":503}`},
		{"POST", "", `{"freezeWatch":true}`, 201, `"id":2`},
		{"GET", "/1", "", 200, `"delay":"1.5s"`},
		{"PUT", "/1", fault, 405, "MethodNotAllowed"},
		{"DELETE", "/1", "", 200, `"id":1`},
		{"GET", "/1", "", 404, "not found"},
		{"GET", "/-1", "", 404, "not found"},
		{"GET", "/one", "", 404, "not found"},
		{"GET", "", "", 200, `{"faults":[{"id":2,`},
		{"PATCH", "", fault, 405, "MethodNotAllowed"},
		{"POST", "", `{"status":200}`, 400, "Status is 200"},
		{"POST", "", `{"probability":2,"status":500}`, 400, "Probability is 2"},
		{"POST", "", `{"staleReads":true}`, 400, "no StaleReads"}, // HoldRevision is nil
		{"POST", "", `{"statu":500}`, 400, "unknown field"},
		{"POST", "", `{"delay":"soon"}`, 400, "invalid duration"},
		{"POST", "", fault + "{}", 400, "unexpected data"},
		{"POST", "", "", 400, "the body is empty"},
		{"POST", "", "[[[[", 400, "JSON"},
		{"POST", "", `{"verb":"` + strings.Repeat("x", 70<<10) + `"}`, 413, "limit is 65536"},
		{"DELETE", "", "", 204, ""},
		{"GET", "", "", 200, `{"faults":[]}`},
	}
	for _, s := range steps {
		if code, answer := send(set, s.method, faults.Path+s.path, s.body); code != s.code || !strings.Contains(answer, s.want) {
			t.Errorf("%s %s %.60s: %d %s; want %d with %s", s.method, s.path, s.body, code, answer, s.code, s.want)
		}
	}
}

// TestTooMany checks that the endpoint limits the number of faults.
func TestTooMany(t *testing.T) {
	t.Parallel()
	set := &faults.Set{}
	for {
		code, answer := send(set, "POST", faults.Path, `{"dropWatch":true}`)
		if code == 400 && strings.Contains(answer, "there are 1000 faults already") {
			return
		}
		if code != 201 {
			t.Fatalf("add a fault: %d %s", code, answer)
		}
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	clock := faults.Clock(simulation.New(simulation.Config{Time: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}))
	steps := []struct {
		method, body string
		code         int
		want         string
	}{
		{"GET", "", 200, `{"time":"2030-01-02T03:04:05Z"}`},
		{"POST", `{"advance":"1h"}`, 200, `{"time":"2030-01-02T04:04:05Z"}`},
		{"POST", `{"advance":3600}`, 400, "cannot unmarshal"},
		{"POST", `{"retreat":"1h"}`, 400, "unknown field"},
		{"DELETE", "", 405, "MethodNotAllowed"},
		{"GET", "", 200, `{"time":"2030-01-02T04:04:05Z"}`},
	}
	for _, s := range steps {
		if code, answer := send(clock, s.method, faults.ClockPath, s.body); code != s.code || !strings.Contains(answer, s.want) {
			t.Errorf("%s %s: %d %s; want %d with %s", s.method, s.body, code, answer, s.code, s.want)
		}
	}
}
