package controlplane

import (
	"slices"
	"testing"

	"mainstay.dev/mainstay/internal/controllers/changes"
)

// TestSelectedControllers checks which controllers are enabled by the values of
// ControllerOptions.Names.
func TestSelectedControllers(t *testing.T) {
	t.Parallel()
	const collector, namespaces, optional = "garbage-collector-controller", "namespace-controller", "bootstrap-signer-controller"
	for name, test := range map[string]struct {
		controllers                     []string
		collector, namespaces, optional bool
	}{
		"default":              {nil, true, true, false},
		"all":                  {[]string{"*"}, true, true, false},
		"all but one":          {[]string{"*", "-" + collector}, false, true, false},
		"all, and optional":    {[]string{"*", optional}, true, true, true},
		"one":                  {[]string{collector}, true, false, false},
		"none":                 {[]string{"-*"}, false, false, false},
		"none but one":         {[]string{"-*", collector}, true, false, false},
		"none, after all":      {[]string{"*", "-*"}, false, false, false},
		"only one that is off": {[]string{"-" + collector}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := Options{Controllers: ControllerOptions{Names: test.controllers}}
			if err := options.Controllers.check(); err != nil {
				t.Error(err)
			}
			for controller, want := range map[string]bool{collector: test.collector, namespaces: test.namespaces, optional: test.optional} {
				if got := options.Controllers.enabled(controller); got != want {
					t.Errorf("%s runs: %t; want %t", controller, got, want)
				}
			}
		})
	}
}

// changeRecorder is a ChangeSubscriber that records the order of the calls.
type changeRecorder struct{ calls chan string }

func (r changeRecorder) Reset()                  { r.calls <- "reset" }
func (r changeRecorder) Changed(*changes.Change) {}
func (r changeRecorder) Synced()                 { r.calls <- "synced" }
func (r changeRecorder) Stopped()                { r.calls <- "stopped" }

// TestStoppedChanges checks that Options.Changes is notified when the controllers no longer run.
func TestStoppedChanges(t *testing.T) {
	t.Parallel()
	recorder := changeRecorder{make(chan string, 10)}
	c, err := New(newEnv(t), "/stopped", Options{Changes: recorder})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := []string{<-recorder.calls, <-recorder.calls}
	c.Close()
	close(recorder.calls)
	for call := range recorder.calls {
		got = append(got, call)
	}
	if want := []string{"reset", "synced", "stopped"}; !slices.Equal(got, want) {
		t.Errorf("calls %v, want %v", got, want)
	}
}
