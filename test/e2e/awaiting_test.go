package e2e

import (
	"bufio"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var runAwaited = flag.Bool("awaited", false, "run the behaviours that testdata/awaiting.txt names, too")

// skipAwaited skips a behaviour that needs something the server does not have yet. testdata/awaiting.txt names each such
// test with the reason:
//
//	TestKubectl/create/asks_for_a_token<TAB>reason
//
// `go test ./test/e2e -awaited` runs them: what passes then is to be taken from the file.
func skipAwaited(t *testing.T) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "awaiting.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, reason, ok := strings.Cut(lines.Text(), "\t")
		switch {
		case !ok || name != t.Name():
		case *runAwaited:
			t.Cleanup(func() {
				if !t.Failed() {
					t.Errorf("passes now: take it from testdata/awaiting.txt (%s)", reason)
				}
			})
		default:
			t.Skip("awaits: " + reason)
		}
	}
}
