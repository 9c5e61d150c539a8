package http2

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// notConforming returns the cases in which the server intentionally does not conform. As in net/http, the
// server responds to a header that is forbidden in HTTP/2 with status 400 and a message, instead of resetting
// the stream.
func notConforming() []string {
	return []string{
		"Sends a HEADERS frame that contains the connection-specific header field",
		"Sends a HEADERS frame that contains the TE header field with any value other than \"trailers\"",
	}
}

// TestH2Spec runs the conformance suite h2spec, including its strict cases. The module test/tools selects
// the version of h2spec.
func TestH2Spec(t *testing.T) {
	t.Parallel()
	built, err := exec.Command("go", "-C", filepath.Join("..", "..", "..", "test", "tools"), "tool", "-n", "h2spec").Output()
	if err != nil {
		var exit *exec.ExitError
		errors.As(err, &exit)
		t.Fatalf("build h2spec: %v\n%s", err, exit.Stderr)
	}
	program := strings.TrimSpace(string(built))
	s := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, strings.Repeat("hello ", 100))
	}), true, func(s *http.Server) { s.HTTP2 = &http.HTTP2Config{MaxReadFrameSize: minFrame} })
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range []string{"generic", "hpack", "http2/3", "http2/4", "http2/5", "http2/6", "http2/7", "http2/8"} {
		t.Run(section, func(t *testing.T) {
			t.Parallel()
			report := filepath.Join(t.TempDir(), "report.xml")
			out, err := exec.CommandContext(t.Context(), program, section, "--host="+at.Hostname(), "--port="+at.Port(),
				"--tls", "--insecure", "--strict", "--junit-report="+report).CombinedOutput()
			if cases := readReport(t, report); cases == 0 {
				t.Errorf("h2spec ran no case: %v\n%s", err, out)
			}
		})
	}
}

// specReport is h2spec's report in JUnit format.
type specReport struct {
	Cases []struct {
		Section string  `xml:"package,attr"`
		Desc    string  `xml:"classname,attr"`
		Failure *string `xml:"failure"`
		Error   *string `xml:"error"`
	} `xml:"testsuite>testcase"`
}

// readReport reports an error for each failed case, except for cases in notConforming. It returns the
// number of all cases.
func readReport(t *testing.T, path string) int {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var report specReport
	if err := xml.Unmarshal(raw, &report); err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Cases {
		for _, fault := range []*string{c.Failure, c.Error} {
			if fault != nil && !slices.Contains(notConforming(), c.Desc) {
				t.Errorf("%s: %s\n%s", c.Section, c.Desc, *fault)
			}
		}
	}
	return len(report.Cases)
}
