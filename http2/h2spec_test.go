package http2

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	h2spec "github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

// notConforming are cases that fail on purpose. As net/http does, we say what is
// wrong with a header that HTTP/2 has no place for, with a status 400, rather
// than just reset the stream.
func notConforming() []string { return []string{"http2/8.1.2.2/1", "http2/8.1.2.2/2"} }

// TestH2Spec runs the conformance suite of h2spec, strict cases among them.
func TestH2Spec(t *testing.T) {
	t.Parallel()
	s := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, strings.Repeat("hello ", 100))
	}), true, func(s *http.Server) { s.HTTP2 = &http.HTTP2Config{MaxReadFrameSize: minFrame} })
	for _, group := range []*spec.TestGroup{generic.Spec(), h2spec.Spec(), hpack.Spec()} {
		specGroup(t, group, s)
	}
}

func specGroup(t *testing.T, group *spec.TestGroup, s *testServer) {
	for i, c := range append(group.Tests, group.StrictTests...) {
		id := group.ID() + "/" + strconv.Itoa(i+1)
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			if slices.Contains(notConforming(), id) {
				t.Skip("not on purpose")
			}
			if err := runSpec(t, c, s); err != nil && !errors.Is(err, spec.ErrSkipped) {
				t.Errorf("%s\n%s\n%v", c.Desc, c.Requirement, err)
			}
		})
	}
	for _, inner := range group.Groups {
		specGroup(t, inner, s)
	}
}

func runSpec(t *testing.T, c *spec.TestCase, s *testServer) error {
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(at.Host)
	n, _ := strconv.Atoi(port)
	config := &config.Config{Host: host, Port: n, Path: "/", Timeout: 2 * time.Second,
		MaxHeaderLen: 4000, TLS: true, Insecure: true, Strict: true}
	conn, err := spec.Dial(config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return c.Run(config, conn)
}
