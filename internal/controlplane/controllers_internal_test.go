package controlplane

import "testing"

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
