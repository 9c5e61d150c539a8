package filters

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// CacheControl prevents shared caches from storing responses, and all caches from using them
// without revalidation, because the permission to read an object can change at any time.
func CacheControl(next http.Handler) http.Handler {
	value := []string{"no-cache, private"}
	return filterFunc(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header()["Cache-Control"] = value
		return true
	})(next)
}

// HSTS adds a Strict-Transport-Security header with the given directives. If directives is empty,
// it adds no header.
func HSTS(directives []string) Filter {
	value := strings.Join(directives, "; ")
	if value == "" {
		return func(next http.Handler) http.Handler { return next }
	}
	return filterFunc(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Strict-Transport-Security", value)
		return true
	})
}

// CheckHSTS returns an error that describes all invalid directives and a missing max-age. An empty
// list is valid.
func CheckHSTS(directives []string) error {
	if len(directives) == 0 {
		return nil
	}
	maxAge := regexp.MustCompile(`^max-age=[0-9]+$`)
	var errs []error
	seenMaxAge := false
	for _, directive := range directives {
		switch d := strings.TrimSpace(directive); {
		case maxAge.MatchString(d):
			seenMaxAge = true
		case d != "includeSubDomains" && d != "preload":
			errs = append(errs, fmt.Errorf("directive %q is not one of max-age=SECONDS, includeSubDomains, preload", directive))
		}
	}
	if !seenMaxAge {
		errs = append(errs, errors.New("max-age=SECONDS is required"))
	}
	return errors.Join(errs...)
}

// GoAway returns a filter that sends a GOAWAY frame with a random fraction of the HTTP/2 responses,
// so that clients reconnect and are distributed among the servers behind a load balancer. chance is
// the probability, from 0 to 1. The requests themselves are served as usual.
func GoAway(chance float64) Filter {
	return func(next http.Handler) http.Handler {
		if chance <= 0 {
			return next
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 2 && rand.Float64() < chance {
				// The HTTP/2 server sends a GOAWAY frame because of this header.
				w.Header().Set("Connection", "close")
			}
			next.ServeHTTP(w, r)
		})
	}
}

// CORS returns a filter that allows browsers to send requests from pages of other origins if the
// origin matches one of the regular expressions. It panics if a pattern does not compile; see
// CheckCORS. Without patterns, it does nothing.
func CORS(origins []string) Filter {
	patterns := make([]*regexp.Regexp, len(origins))
	for i, origin := range origins {
		patterns[i] = regexp.MustCompile(origin)
	}
	return func(next http.Handler) http.Handler {
		if len(patterns) == 0 {
			return next
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			origin := r.Header.Get("Origin")
			if origin == "" || !slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(origin) }) {
				next.ServeHTTP(w, r)
				return
			}
			h := w.Header()
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Methods", "POST, GET, OPTIONS, PUT, DELETE, PATCH")
			h.Set("Access-Control-Allow-Headers", "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since")
			h.Set("Access-Control-Expose-Headers", "Date")
			h.Set("Access-Control-Allow-Credentials", "true")
			if r.Method == http.MethodOptions {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// CheckCORS returns an error that describes all invalid patterns. Each pattern must be a regular
// expression that anchors the host at both ends. Otherwise, a page of example.com.evil.org would
// match example.com.
func CheckCORS(origins []string) error {
	var errs []error
	for _, origin := range origins {
		if _, err := regexp.Compile(origin); err != nil {
			errs = append(errs, fmt.Errorf("pattern %q: %w", origin, err))
			continue
		}
		if !strings.Contains(origin, "^") && !strings.Contains(origin, "//") || !strings.Contains(origin, "$") && !strings.Contains(origin, ":") {
			errs = append(errs, fmt.Errorf("pattern %q does not pin the host at both ends; write it like ^https://www\\.example\\.com$ or //www\\.example\\.com(:|$)", origin))
		}
	}
	return errors.Join(errs...)
}
