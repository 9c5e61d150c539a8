package conformance

import (
	"cmp"
	"flag"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

var pending = flag.String("pending", "", "replay the recorded refusals of kinds with this prefix alone, and print what does not match: -pending=pods.v1")

// TestValidation replays recorded rejections and acceptances: the valid object of each kind with one change at
// a time, on create, update and status update. Most steps are dry runs, so that one server can handle several
// kinds at a time. If a listed step matches, the test fails, so that the lists can only become shorter.
func TestValidation(t *testing.T) {
	t.Parallel()
	replayRejections(t, "validation", compareVerdict, slices.Concat([]string{"--allow-privileged=false"}, recordedFlags)...)
}

// TestValidationBeta replays the recordings of API versions that are disabled by default.
func TestValidationBeta(t *testing.T) {
	t.Parallel()
	skipShort(t, "TestValidation replays the kinds that are enabled by default")
	replayRejections(t, "validation-beta", compareVerdict, slices.Concat(onDemand, recordedFlags)...)
}

// replayRejections replays the recordings of a folder against one server.
func replayRejections(t *testing.T, folder string, compare func(*Comparison, Step, liveResponse), flags ...string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(recordingsDir, folder, "*.jsonl.gz"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	srv := testserver.New(t, testserver.Options{Flags: flags})
	replayer, err := NewReplayer(srv.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	replayer.Compare = compare
	var recordings []*validationRecording
	var kinds []validationKind
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".jsonl.gz")
		if testing.Short() && !slices.Contains(shortRecordings(), name) {
			continue
		}
		recording := readRecording(t, folder+"/"+name)
		r := &validationRecording{verdict: newVerdict(t, recording.Name)}
		r.verdict.strict = true
		recordings = append(recordings, r)
		steady := slices.DeleteFunc(recording.Scenarios, func(s Scenario) bool { return s.Name == conflicting })
		groups := byKind(steady)
		if recording.Name == sharedNamespace {
			groups = [][]Scenario{steady}
		}
		for _, scenarios := range groups {
			if strings.HasPrefix(scenarios[0].Name, *pending) {
				kinds = append(kinds, validationKind{r, scenarios})
			}
		}
	}
	slices.SortStableFunc(kinds, func(a, b validationKind) int { return cmp.Compare(b.steps(), a.steps()) }) // longest first
	replayKinds(t, replayer, kinds)
	if *pending != "" {
		return
	}
	for _, r := range recordings {
		r.verdict.finish(t)
	}
}

// shortRecordings returns the recordings that are replayed with -short. They cover two small groups; tests of
// internal/apis/builtin cover the rules of single kinds.
func shortRecordings() []string { return []string{"discovery.k8s.io", "networking.k8s.io"} }

// skipShort skips a test if -short is set. covered names the test that covers the same behavior.
func skipShort(t *testing.T, covered string) {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped with -short: " + covered)
	}
}

// conflicting is a scenario about an APIService. The server writes the status of the APIService after it has
// tried to connect, so updates conflict at random.
const conflicting = "apiservices.apiregistration.k8s.io_v1/update-faults"

type validationRecording struct {
	mu      sync.Mutex // held during check
	verdict *verdict
}

// validationKind contains the scenarios of one kind. The scenarios use the same names, so they run one after
// another.
type validationKind struct {
	of        *validationRecording
	scenarios []Scenario
}

func (k *validationKind) steps() int {
	n := 0
	for _, scenario := range k.scenarios {
		n += len(scenario.Steps)
	}
	return n
}

func byKind(scenarios []Scenario) [][]Scenario {
	var kinds [][]Scenario
	at := map[string]int{}
	for _, scenario := range scenarios {
		kind, _, _ := strings.Cut(scenario.Name, "/")
		i, ok := at[kind]
		if !ok {
			i = len(kinds)
			at[kind], kinds = i, append(kinds, nil)
		}
		kinds[i] = append(kinds[i], scenario)
	}
	return kinds
}

func replayKinds(t *testing.T, replayer *Replayer, kinds []validationKind) {
	t.Helper()
	work := make(chan validationKind, len(kinds))
	for _, kind := range kinds {
		work <- kind
	}
	close(work)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) + 1 { // one worker compares while others wait for the server
		group.Go(func() {
			for kind := range work {
				kind.replay(t, replayer)
			}
		})
	}
	group.Wait()
}

func (k *validationKind) replay(t *testing.T, replayer *Replayer) {
	for _, scenario := range k.scenarios {
		results := replayer.Replay(t.Context(), scenario, NewMemory())
		if *pending != "" {
			logDifferences(t, results)
		} else {
			k.of.mu.Lock()
			k.of.verdict.check(t, results)
			k.of.mu.Unlock()
		}
		if err := replayer.CleanUp(t.Context(), scenario); err != nil {
			t.Error(err)
		}
	}
}

func logDifferences(t *testing.T, results []Result) {
	t.Helper()
	matching := 0
	for _, result := range results {
		if len(result.Differences) == 0 {
			matching++
			continue
		}
		t.Logf("%s\n  %s", describe(result.Step), strings.Join(result.Differences, "\n  "))
	}
	t.Logf("%d of %d match", matching, len(results))
}
