package feature_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/feature"
)

func TestKnown(t *testing.T) {
	t.Parallel()
	stages := []feature.Stage{feature.Alpha, feature.Beta, feature.GA, feature.Deprecated}
	gates := feature.Defaults()
	var names []feature.Gate
	for spec := range feature.Known() {
		names = append(names, spec.Gate)
		if gates.Enabled(spec.Gate) != spec.Default {
			t.Errorf("%s is %t by default", spec.Gate, !spec.Default)
		}
		if !slices.Contains(stages, spec.Stage) {
			t.Errorf("%s is of stage %q", spec.Gate, spec.Stage)
		}
		if spec.Stage == feature.Alpha && (spec.Default || spec.Locked) {
			t.Errorf("%s is an alpha and on, or locked", spec.Gate)
		}
	}
	if len(names) < 250 || !slices.IsSorted(names) {
		t.Errorf("%d gates, sorted: %t", len(names), slices.IsSorted(names))
	}
	for spec := range feature.Known() {
		for _, need := range spec.DependsOn {
			if !slices.Contains(names, need) {
				t.Errorf("%s needs %s, which does not exist", spec.Gate, need)
			}
		}
	}
	if gates.Enabled("Nope") || (feature.Gates{}).Enabled("WatchList") {
		t.Error("an unknown gate, or a gate of the zero value, is enabled")
	}
}

// TestEffects checks that the table describes an effect for exactly the gates that names.go declares.
func TestEffects(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var named, described []string
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok {
			name, _ := strconv.Unquote(literal.Value)
			named = append(named, name)
		}
		return true
	})
	for spec := range feature.Known() {
		if spec.Effect != "" {
			described = append(described, string(spec.Gate))
		}
	}
	slices.Sort(named)
	if !slices.Equal(named, described) {
		t.Errorf("names.go has\n%s\ngates.tsv describes\n%s", named, described)
	}
}

func TestWith(t *testing.T) {
	t.Parallel()
	const off = "SchedulerAsyncAPICalls" // a beta gate
	for _, tt := range []struct {
		value   string
		on, off feature.Gate
		err     []string
	}{
		{value: "", on: "WatchList", off: "CBORServingAndStorage"},
		{value: "CBORServingAndStorage=true, kube:WatchList=false,", on: "CBORServingAndStorage", off: "WatchList"},
		{value: "WatchList=false,WatchList=T", on: "WatchList", off: "CBORServingAndStorage"},
		{value: "AllAlpha=true", on: "CBORServingAndStorage", off: off},
		{value: "CBORServingAndStorage=false,AllAlpha=true", on: "StorageVersionAPI", off: "CBORServingAndStorage"},
		{value: "AllBeta=true", on: off, off: "CBORServingAndStorage"},
		{value: "AllBeta=false,OpenAPIEnums=true", on: "OpenAPIEnums", off: "WatchList"},
		{value: "AllAlpha=true,AllBeta=true", on: "AllAlpha", off: "KMSv1"},
		{value: "DynamicResourceAllocation=true", on: "DynamicResourceAllocation", off: off},
		{value: "Nope=true", err: []string{"unrecognized feature gate: Nope"}},
		{value: "Nope=true,Never=false", err: []string{"unrecognized feature gate: Never", "unrecognized feature gate: Nope"}},
		{value: "WatchList", err: []string{"missing bool value for WatchList"}},
		{value: "WatchList=maybe", err: []string{"invalid value of WatchList=maybe, err: "}},
		{value: "DynamicResourceAllocation=false", err: []string{"cannot set feature gate DynamicResourceAllocation to false, feature is locked to true"}},
		{value: "GangScheduling=true", err: []string{"GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]"}},
		{value: "GangScheduling=true,GenericWorkload=true", on: "GangScheduling", off: off},
	} {
		set := feature.Set{}
		err := set.Parse(tt.value)
		var gates feature.Gates
		if err == nil {
			gates, err = feature.Defaults().With(set)
		}
		if (err != nil) != (len(tt.err) > 0) {
			t.Errorf("gates %q: error %v, want %q", tt.value, err, tt.err)
		}
		for _, want := range tt.err {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v does not contain %q", tt.value, err, want)
			}
		}
		if err == nil && (!gates.Enabled(tt.on) || gates.Enabled(tt.off)) {
			t.Errorf("%q: %s is %t, %s is %t", tt.value, tt.on, gates.Enabled(tt.on), tt.off, gates.Enabled(tt.off))
		}
	}
}

// TestHistory checks the states of gates in earlier minor versions.
func TestHistory(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		gate  feature.Gate
		minor int
		want  string
	}{
		{"MutatingAdmissionPolicy", 33, "false ALPHA false"},
		{"MutatingAdmissionPolicy", 34, "false BETA false"},
		{"MutatingAdmissionPolicy", 35, "false BETA false"},
		{"MutatingAdmissionPolicy", 36, "true GA false"},
		{"AggregatedDiscoveryRemoveBetaType", 34, "true DEPRECATED false"},
		{"AggregatedDiscoveryRemoveBetaType", 35, "true DEPRECATED true"},
		{"EtcdRangeStream", 36, ""},
		{"EtcdRangeStream", 37, "true BETA false"},
		{"WatchList", 33, "false BETA false"},
	} {
		got := ""
		for spec := range feature.KnownIn(tt.minor) {
			if spec.Gate == tt.gate {
				got = fmt.Sprintf("%t %s %t", spec.Default, spec.Stage, spec.Locked)
			}
		}
		if got != tt.want {
			t.Errorf("%s in 1.%d: got %q, want %q", tt.gate, tt.minor, got, tt.want)
		}
	}
	for minor := feature.Oldest; minor <= feature.Newest; minor++ {
		if _, err := feature.DefaultsOf(minor).With(nil); err != nil {
			t.Errorf("1.%d: %v", minor, err)
		}
	}
	_, err := feature.DefaultsOf(36).Parse("EtcdRangeStream=true")
	if want := "cannot set feature gate EtcdRangeStream to true, feature is PreAlpha at emulated version 1.36"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
