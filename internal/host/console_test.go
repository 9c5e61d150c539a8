package host

import (
	"net/http"
	"strings"
	"testing"
)

// TestConsole checks that the console is served without authentication and does not change the API.
func TestConsole(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	without := start(t, Config{Console: ConsoleConfig{Disabled: true}})
	anonymous := client(t, nil)
	anonymous.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for path, want := range map[string]string{
		"/console/":                         "<!doctype html>",
		"/console/objects/core/pods":        "<!doctype html>",
		"/clusters/none/console/":           "<!doctype html>",
		"/at/rv/1/console/":                 "<!doctype html>",
		"/at/2020-01-01T00:00:00Z/console/": "<!doctype html>",
		"/clusters/a/at/rv/1/console/":      "<!doctype html>",
		"/console/assets/console.css":       "",
		"/console/assets/none":              "404 page not found",
		"/console":                          "<a href=\"/console/\">Found</a>",
	} {
		code, body := fetch(t, anonymous, s.URL+path)
		wantCode := 200
		if strings.HasPrefix(want, "404") {
			wantCode = 404
		} else if strings.HasPrefix(want, "<a") {
			wantCode = 302
		}
		if code != wantCode || !strings.HasPrefix(body, want) {
			t.Errorf("%s: %d %.60q", path, code, body)
		}
		if code, body := fetch(t, anonymous, without.URL+path); code != 403 && code != 401 {
			t.Errorf("%s without the console: %d %.60q", path, code, body)
		}
	}
	if code, _ := fetch(t, without.admin, without.URL+"/console/"); code != 404 {
		t.Errorf("without the console, an administrator gets %d", code)
	}
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/console/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, header := roundTrip(t, s.admin, r); code != 405 || header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d, Allow %q", code, header.Get("Allow"))
	}

	for _, path := range []string{
		"/", "/api", "/api/v1/namespaces", "/version", "/consoles", "//console/", "/clusters//console/", "/clusters/a%2Fb/console/", "/api/v1/namespaces/x/services/y/proxy/console/",
		"/api/v1/namespaces/x/pods/y/proxy/console/", "/clusters/none/api/v1/namespaces/x/pods/y/proxy/console/",
	} {
		for name, clients := range map[string][2]*http.Client{"anonymous": {anonymous, anonymous}, "administrator": {s.admin, without.admin}} {
			code, body := fetch(t, clients[0], s.URL+path)
			wantCode, _ := fetch(t, clients[1], without.URL+path)
			if code != wantCode || strings.HasPrefix(body, "<!doctype") {
				t.Errorf("%s: %s: code %d, without the console %d: %.60q", name, path, code, wantCode, body)
			}
		}
	}
}
