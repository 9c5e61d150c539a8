package feature_test

import (
	"slices"
	"strings"
	"testing"

	"mainstay.dev/mainstay/feature"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	gates, n := feature.Defaults(), 0
	var names []string
	for gate, preset := range feature.Known() {
		n++
		names = append(names, string(gate))
		if gates.Enabled(gate) != preset {
			t.Errorf("%s is %t by default", gate, !preset)
		}
	}
	if n < 250 || !slices.IsSorted(names) {
		t.Errorf("%d gates, sorted: %t", n, slices.IsSorted(names))
	}
	if gates.Enabled("Nope") || (feature.Gates{}).Enabled("WatchList") {
		t.Error("a gate is on that should not be")
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value   string
		on, off feature.Gate
		err     []string
	}{
		{value: "", on: "WatchList", off: "CBORServingAndStorage"},
		{value: "CBORServingAndStorage=true, kube:WatchList=false,", on: "CBORServingAndStorage", off: "WatchList"},
		{value: "WatchList=false,WatchList=true", on: "WatchList", off: "CBORServingAndStorage"},
		{value: "Nope=true,WatchList,WatchList=maybe", err: []string{"feature gate Nope is not known", `"WatchList" is not`, `"WatchList=maybe" is not`}},
	} {
		gates, err := feature.Defaults().Parse(tt.value)
		if (err != nil) != (len(tt.err) > 0) {
			t.Errorf("%q: %v", tt.value, err)
		}
		for _, want := range tt.err {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v does not say %q", tt.value, err, want)
			}
		}
		if err == nil && (!gates.Enabled(tt.on) || gates.Enabled(tt.off)) {
			t.Errorf("%q: %s is %t, %s is %t", tt.value, tt.on, gates.Enabled(tt.on), tt.off, gates.Enabled(tt.off))
		}
	}
}
