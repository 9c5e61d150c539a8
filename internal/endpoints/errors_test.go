package endpoints_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/rest"
)

// failing is a storage whose lists fail, either immediately or after the first object.
type failing struct {
	err  error
	late bool
	one  *codec.Record
}

func (f failing) List(context.Context, string, rest.ListOptions) (*rest.List, error) {
	if !f.late {
		return nil, f.err
	}
	return &rest.List{Revision: 1, Items: func(yield func(*codec.Record, error) bool) {
		if yield(f.one, nil) {
			yield(nil, f.err)
		}
	}}, nil
}

// TestErrorsOfStorage checks that storage errors are returned as a Status, and that errors that
// require action by an operator are logged.
func TestErrorsOfStorage(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for name, test := range map[string]struct {
		err        error
		code       int
		message    string
		retryAfter string
		logged     bool
	}{
		"an API error":   {apierrors.NewForbidden(pods, "p", errors.New("no")), 403, `pods "p" is forbidden: no`, "", false},
		"a wrapped one":  {fmt.Errorf("list: %w", apierrors.NewResourceExpired("too old")), 410, "too old", "", false},
		"to come back":   {apierrors.NewTooManyRequests("busy", 7), 429, "busy", "7", false},
		"without a code": {&apierrors.StatusError{ErrStatus: metav1.Status{Message: "odd"}}, 500, "odd", "", true},
		"out of time":    {fmt.Errorf("list: %w", context.DeadlineExceeded), 504, "Timeout: request did not complete within the allotted timeout", "", false},
		"anything else":  {errors.New("disk trouble"), 500, "disk trouble", "", true},
	} {
		for _, accept := range []string{jsonType, yamlType, protobufType, tableT, listT} {
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%v", name, accept, late), func(t *testing.T) {
					t.Parallel()
					var log bytes.Buffer
					w := httptest.NewRecorder()
					r := newRequest("GET "+inA+"configmaps", nil)
					r.Header.Set("Accept", accept)
					serve(w, r, failing{test.err, late, record(t, "a", 1)}, endpoints.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
					if w.Code != test.code || w.Header().Get("Retry-After") != test.retryAfter {
						t.Errorf("%d, Retry-After %q: %s", w.Code, w.Header().Get("Retry-After"), w.Body)
					}
					if kind := kindIn(t, w.Body.Bytes(), w.Header().Get("Content-Type")); kind != "Status" || !strings.Contains(strings.ReplaceAll(w.Body.String(), `\"`, `"`), test.message) {
						t.Errorf("got %s", w.Body)
					}
					if logged := strings.Contains(log.String(), "request failed"); logged != test.logged {
						t.Errorf("log %q", log.String())
					}
				})
			}
		}
	}
}

// TestErrorsAfterDisconnect checks that errors that occur after the client has disconnected are not logged.
func TestErrorsAfterDisconnect(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	serve(httptest.NewRecorder(), newRequest("GET "+inA+"configmaps", nil).WithContext(ctx), failing{err: ctx.Err()}, endpoints.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if log.Len() > 0 {
		t.Errorf("logged %s", log.String())
	}
}

// backwards reverses the rows of a list and numbers them.
type backwards struct{ podColumns }

func (backwards) SortRows(list []codec.Object, rows [][]any) ([]int, error) {
	var order []int
	for i := range rows {
		order = append([]int{i}, order...)
		rows[i][1] = fmt.Sprint(i, " of ", len(list), ", ", list[i].GetName())
	}
	return order, nil
}

func TestArrangedTables(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	for i := range 3 {
		a.must("POST "+inA+"pods", fmt.Sprintf(`{"metadata":{"name":"p%d"}}`, i))
	}
	arranged := withTable(resource("pods", a.stores["pods"], true))
	arranged.Table = backwards{}
	w := httptest.NewRecorder()
	r := newRequest("GET "+inA+"pods", nil)
	r.Header.Set("Accept", tableT)
	serveResource(w, r, arranged, endpoints.Config{})
	var table metav1.Table
	(answer{ResponseRecorder: w, t: t}).object(&table)
	var got []string
	for _, row := range table.Rows {
		got = append(got, fmt.Sprint(row.Cells...))
		if !strings.Contains(string(row.Object.Raw), fmt.Sprintf(`"name":%q`, row.Cells[0])) {
			t.Errorf("row %v has the object %s", row.Cells, row.Object.Raw)
		}
	}
	if want := "p22 of 3, p2 p11 of 3, p1 p00 of 3, p0"; strings.Join(got, " ") != want {
		t.Errorf("rows %q; want %s", got, want)
	}
}

// TestFieldManagers checks that the user agent is the default field manager.
func TestFieldManagers(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	for i, test := range []struct{ agent, query, want string }{
		{"kubectl/v1.37 (linux/amd64)", "", "kubectl"},
		{"kubectl", "", "kubectl"},
		{"kubectl/v1.37", "?fieldManager=me", "me"},
		{"tab\tand\x7fdel\u200bete/1", "", "tabanddelete"},
		{strings.Repeat("m", 200), "", strings.Repeat("m", 128)},
		{strings.Repeat("m", 127) + "é/1", "", strings.Repeat("m", 127)},
		{"broken\xff/1", "", "broken\uFFFD"},
		{"/1", "", ""},
	} {
		r := newRequest("POST "+inA+"configmaps"+test.query, strings.NewReader(fmt.Sprintf(`{"metadata":{"name":"c%d"},"data":{"k":"v"}}`, i)))
		r.Header["User-Agent"] = []string{test.agent}
		got := a.send(r)
		entries := got.configMap().ManagedFields
		if got.Code != http.StatusCreated || len(entries) != 1 || !utf8.ValidString(entries[0].Manager) {
			t.Errorf("user agent %q: %d %s", test.agent, got.Code, got.Body)
			continue
		}
		if test.want != "" && entries[0].Manager != test.want {
			t.Errorf("%q: manager %q; want %q", test.agent, entries[0].Manager, test.want)
		}
	}
}

// TestWriters checks the functions that other packages use to write responses.
func TestWriters(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	for accept, code := range map[string]int{"": 200, yamlType: 200, protobufType: 200, "text/html": 406, tableT: 406} {
		w := httptest.NewRecorder()
		r := newRequest("GET /x", nil)
		r.Header.Set("Accept", accept)
		endpoints.WriteObject(w, r, pod)
		want := "Pod"
		if code != 200 {
			want = "Status"
		}
		if kind := kindIn(t, w.Body.Bytes(), w.Header().Get("Content-Type")); w.Code != code || kind != want {
			t.Errorf("Accept %q: code %d, kind %s, want %d, %s", accept, w.Code, kind, code, want)
		}
	}
	for size, compressed := range map[int]bool{10: false, 200 << 10: true} {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", "text/plain")
		r := newRequest("GET /x", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		endpoints.WriteBytes(w, r, bytes.Repeat([]byte("x"), size))
		body := io.Reader(w.Body)
		if compressed {
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			body = z
		}
		if got, err := io.ReadAll(body); err != nil || len(got) != size || w.Header().Get("Content-Type") != "text/plain" {
			t.Errorf("%d bytes, %v, %v", len(got), err, w.Header())
		}
	}
	if status := endpoints.NotFoundStatus(); status.Code != http.StatusNotFound || status.Message != noResource {
		t.Errorf("status %+v, want code 404 and the message %q", status, noResource)
	}
}
