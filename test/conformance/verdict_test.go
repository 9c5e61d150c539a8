package conformance

import (
	"path/filepath"
	"strings"
	"testing"
)

// verdict compares the results of one recording with the lists of known and different steps.
type verdict struct {
	recording string
	path      string // path of known
	known     Known
	differing Known // steps that are not compared
	now       Known // steps that do not match in this run
	total     int
	outdated  int // number of listed steps that match
	// strict fails the test if a listed step matches.
	strict bool
}

func newVerdict(t *testing.T, recording string) *verdict {
	t.Helper()
	path := filepath.Join("testdata", "known", filepath.FromSlash(recording)+".txt")
	known, err := ReadKnown(path)
	if err != nil {
		t.Fatal(err)
	}
	differing, err := ReadKnown(filepath.Join("testdata", "differences", filepath.FromSlash(recording)+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return &verdict{recording: recording, path: path, known: known, differing: differing, now: Known{}}
}

// check fails the test for each step that neither matches nor is listed. It counts the listed steps that match.
func (v *verdict) check(t *testing.T, results []Result) {
	t.Helper()
	for _, result := range results {
		key := stepKey{result.Step.Scenario, result.Step.Number}
		if _, differs := v.differing[key]; differs {
			continue
		}
		v.total++
		reason, listed := v.known[key]
		matches := len(result.Differences) == 0
		if !matches {
			if !listed {
				reason = cause(result.Differences)
			}
			v.now[key] = reason
		}
		switch {
		case *update:
		case !matches && !listed:
			t.Errorf("%s does not match:\n  %s", describe(result.Step), strings.Join(result.Differences, "\n  "))
		case matches && listed && v.strict:
			t.Errorf("%s\n  matches now, and is listed in %s: run with -update", describe(result.Step), v.path)
		case matches && listed:
			v.outdated++
		}
	}
}

func describe(s Step) string {
	return s.Scenario + " " + formatSteps([]int{s.Number}) + " (" + s.Name + "): " + s.Request.Method + " " + s.Request.Path
}

// finish logs the percentage of matching steps. It writes the list if -update is set.
func (v *verdict) finish(t *testing.T) {
	t.Helper()
	t.Logf("%s: %d of %d steps match (%.1f %%)", v.recording, v.total-len(v.now), v.total, 100*float64(v.total-len(v.now))/float64(max(1, v.total)))
	if v.outdated > 0 && !*update {
		t.Logf("%d steps match now that are listed in %s: run with -update", v.outdated, v.path)
	}
	if !*update {
		return
	}
	if err := v.now.Write(v.path); err != nil {
		t.Error(err)
	}
}
