package filters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/telemetry"
)

// writeError is a simple ErrorWriter.
func writeError(w http.ResponseWriter, _ *http.Request, err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	body := status.Status()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(body.Code))
	if err := json.NewEncoder(w).Encode(&body); err != nil {
		panic(err)
	}
}

func answer(code int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		io.WriteString(w, body)
	})
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newMetrics() *telemetry.Requests { return telemetry.NewRequests(prometheus.NewRegistry()) }

// namedRoute is a request.Route that is known and classified by name.
type namedRoute struct{ info *request.Info }

func (namedRoute) Known() bool         { return true }
func (r namedRoute) LongRunning() bool { return request.LongRunningByName(r.info) }

// byName is a resolve function for RequestInfo.
func byName(info *request.Info) request.Route { return namedRoute{info} }

// get sends a request through filters that run after AuditID, Recover and RequestInfo.
func get(t *testing.T, final http.Handler, r *http.Request, filters ...Filter) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	Chain(final, append([]Filter{AuditID, Recover(quiet(), writeError), RequestInfo(byName, writeError)}, filters...)...).ServeHTTP(recorder, r)
	return recorder
}

func statusOf(t *testing.T, body io.Reader) *metav1.Status {
	t.Helper()
	var status metav1.Status
	if err := json.NewDecoder(body).Decode(&status); err != nil {
		t.Fatalf("the response is not a Status: %v", err)
	}
	return &status
}

// as returns a filter that sets the authenticated user.
func as(user *request.User) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			request.SetUser(r.Context(), user)
			next.ServeHTTP(w, r)
		})
	}
}

func TestChainRunsInOrder(t *testing.T) {
	t.Parallel()
	var order []string
	mark := func(name string) Filter {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				order = append(order, name)
				next.ServeHTTP(w, r)
			})
		}
	}
	Chain(answer(200, ""), mark("first"), mark("second"), mark("third")).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	if got := strings.Join(order, " "); got != "first second third" {
		t.Errorf("the order is %s", got)
	}
}

func TestAuditID(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, sent, want string }{
		{"chosen by the client", "abc", "abc"},
		{"too long", strings.Repeat("a", 100), strings.Repeat("a", maxAuditIDLength)},
		{"generated", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest("GET", "/", nil)
			if tt.sent != "" {
				r.Header.Set("Audit-ID", tt.sent)
			}
			seen := ""
			final := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = request.AuditID(r.Context()) })
			echoed := get(t, final, r).Header().Get("Audit-Id")
			if echoed == "" || echoed != seen || tt.want != "" && seen != tt.want {
				t.Errorf("the handler sees %q, the client %q, want %q", seen, echoed, tt.want)
			}
		})
	}
}

func TestRecover(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		handler http.HandlerFunc
		code    int // 0 means that the connection is aborted
		logged  bool
	}{
		{"no panic", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, 204, false},
		{"before the response", func(http.ResponseWriter, *http.Request) { panic("boom") }, 500, true},
		{"after the start of the response", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); panic("boom") }, 0, true},
		{"an abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			defer func() {
				reason := recover()
				if broken := reason == http.ErrAbortHandler; broken != (tt.code == 0) || reason != nil && !broken {
					t.Errorf("it panicked with %v", reason)
				}
				if logged := strings.Contains(log.String(), "audit-ID=an-id panic=boom"); logged != tt.logged {
					t.Errorf("logged %t, want %t: %s", logged, tt.logged, log.String())
				}
			}()
			recorder, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
			r.Header.Set(auditIDHeader, "an-id")
			Chain(tt.handler, AuditID, Recover(slog.New(slog.NewTextHandler(&log, nil)), writeError)).ServeHTTP(recorder, r)
			if recorder.Code != tt.code {
				t.Errorf("response %d, want %d", recorder.Code, tt.code)
			}
		})
	}
}

func TestRequestInfoInvalid(t *testing.T) {
	t.Parallel()
	got := get(t, answer(200, ""), httptest.NewRequest("GET", "/api/v1/watch", nil))
	status := statusOf(t, got.Body)
	if got.Code != 400 || status.Message != "unable to determine kind and namespace from url, /api/v1/watch" {
		t.Errorf("response %d %s", got.Code, status.Message)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 3000)
	tests := []struct {
		name  string
		texts []string
		want  []string
	}{
		{"none", nil, nil},
		{"some", []string{"a", "b", "a"}, []string{`299 - "a"`, `299 - "b"`}},
		{"quotes", []string{`say "hi"\now`}, []string{`299 - "say \"hi\"\\now"`}},
		{"not a valid header", []string{"a\nb", "c"}, []string{`299 - "c"`}},
		{"too long together", []string{long, "b", long + "2"}, []string{`299 - "` + long[:2*maxWarning] + `"`, `299 - "b"`, `299 - "` + long[:2*maxWarning] + `"`}[:2]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			final := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for _, text := range tt.texts {
					request.AddWarning(r.Context(), text)
				}
				io.WriteString(w, "body")
				request.AddWarning(r.Context(), "too late")
			})
			got := get(t, final, httptest.NewRequest("GET", "/", nil)).Result().Header["Warning"]
			if strings.Join(got, "|") != strings.Join(tt.want, "|") {
				t.Errorf("warnings %q, want %q", got, tt.want)
			}
		})
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	preflight := httptest.NewRequest("OPTIONS", "/api", nil)
	preflight.Header.Set("Origin", "https://www.example.com")
	plain := httptest.NewRequest("GET", "/api", nil)
	foreign := httptest.NewRequest("GET", "/api", nil)
	foreign.Header.Set("Origin", "https://evil.org")
	cors := CORS([]string{`^https://www\.example\.com$`})
	tests := []struct {
		name   string
		filter Filter
		r      *http.Request
		code   int
		header string
		want   string
	}{
		{"cache control", CacheControl, plain, 200, "Cache-Control", "no-cache, private"},
		{"HSTS", HSTS([]string{"max-age=1", "preload"}), plain, 200, "Strict-Transport-Security", "max-age=1; preload"},
		{"no HSTS", HSTS(nil), plain, 200, "Strict-Transport-Security", ""},
		{"CORS preflight", cors, preflight, 204, "Access-Control-Allow-Origin", "https://www.example.com"},
		{"CORS of another origin", cors, foreign, 200, "Access-Control-Allow-Origin", ""},
		{"CORS without origin", cors, plain, 200, "Access-Control-Allow-Origin", ""},
		{"no CORS", CORS(nil), preflight, 200, "Access-Control-Allow-Origin", ""},
		{"no GOAWAY over HTTP/1", GoAway(1), plain, 200, "Connection", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := get(t, answer(200, ""), tt.r.Clone(context.Background()), tt.filter)
			if got.Code != tt.code || got.Header().Get(tt.header) != tt.want {
				t.Errorf("response %d with %s: %q, want %d and %q", got.Code, tt.header, got.Header().Get(tt.header), tt.code, tt.want)
			}
		})
	}
}

func TestGoAway(t *testing.T) {
	t.Parallel()
	for chance, want := range map[float64]string{0: "", 1: "close"} {
		r := httptest.NewRequest("GET", "/api", nil)
		r.ProtoMajor = 2
		if got := get(t, answer(200, ""), r, GoAway(chance)).Header().Get("Connection"); got != want {
			t.Errorf("chance %g: Connection: %q, want %q", chance, got, want)
		}
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  error
		want string // may be empty
	}{
		{"no CORS", CheckCORS(nil), ""},
		{"pinned", CheckCORS([]string{"^https://a$", "//a(:|$)"}), ""},
		{"not pinned", CheckCORS([]string{"example.com"}), "does not pin"},
		{"not an expression", CheckCORS([]string{"("}), "parsing regexp"},
		{"no HSTS", CheckHSTS(nil), ""},
		{"good HSTS", CheckHSTS([]string{"max-age=31536000", "includeSubDomains", "preload"}), ""},
		{"HSTS without age", CheckHSTS([]string{"preload"}), "max-age=SECONDS is required"},
		{"HSTS nonsense", CheckHSTS([]string{"max-age=x"}), `"max-age=x" is not one of`},
	}
	for _, tt := range tests {
		if tt.want == "" && tt.err != nil || tt.want != "" && (tt.err == nil || !strings.Contains(tt.err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, tt.err, tt.want)
		}
	}
}
