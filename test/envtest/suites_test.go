package envtest

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
)

var suites = flag.String("suites", "client", "suites of controller-runtime to run, comma-separated as folders of its pkg; all for all that need an API server")

// allSuites lists controller-runtime's test suites that start an environment.
const allSuites = "builder,cache,client,cluster,controller,controller/controllerutil,envtest,handler,internal/controller,internal/recorder,manager," +
	"metrics/filters,source,webhook"

// TestSuites runs controller-runtime's own suites, in the version that the go.mod of this module requires:
//
//	go -C test/envtest test -run TestSuites -v -timeout 30m -args -suites=all
func TestSuites(t *testing.T) {
	if testing.Short() {
		t.Skip("the suites of controller-runtime are not run with -short")
	}
	dir := assets(t)
	if *suites == "all" {
		*suites = allSuites
	}
	for name := range strings.SplitSeq(*suites, ",") {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=25m", "-v", "sigs.k8s.io/controller-runtime/pkg/"+name, "-ginkgo.no-color")
			cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("suite %s: %v\n%s", name, err, failures(string(out)))
			}
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, " Passed") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}

// failures returns the summary that ginkgo prints at the end of a run, or the whole output if it contains no
// summary.
func failures(out string) string {
	if at := strings.LastIndex(out, "Summarizing"); at >= 0 {
		return out[at:]
	}
	return out
}
