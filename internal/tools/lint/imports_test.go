package lint

import (
	"slices"
	"strings"
	"testing"
)

// layer assigns a package, and all packages below its path, to a level. A package may import packages of its
// own layer, packages of lower levels, packages below the path of its layer, and packages of the layers in
// beside.
type layer struct {
	path   string // without "internal/"
	level  int
	beside []string
}

// layers returns the layers of the module. A package belongs to the first layer whose path contains the
// package.
func layers() []layer {
	return []layer{
		{path: "test", level: 6},
		{path: "tools", level: 6},
		// Commands and the process.
		{path: "cmd", level: 5, beside: []string{"host", "controlplane", "apitest"}},
		{path: "apitest", level: 5, beside: []string{"host", "controlplane"}},
		{path: "console", level: 0},
		{path: "host/http2", level: 0},
		{path: "host/pki", level: 0},
		{path: "host", level: 5, beside: []string{"controlplane"}},
		{path: "controlplane", level: 5},
		// HTTP: filters and routing.
		{path: "filters/authn/serviceaccount", level: 0, beside: []string{"egress"}},
		{path: "filters/audit", level: 0, beside: []string{"authorizer", "egress"}},
		{path: "filters/flowcontrol", level: 2},
		{path: "filters", level: 4},
		{path: "endpoints/route", level: 4},
		{path: "endpoints/discovery", level: 4, beside: []string{"endpoints/route"}},
		{path: "endpoints/openapi", level: 0, beside: []string{"codec", "feature"}}, // the JSON reader of codec
		// A single request.
		{path: "endpoints", level: 3, beside: []string{"admission"}},
		{path: "admission", level: 3},
		// Resources.
		{path: "apis/aggregated", level: 2},
		{path: "apis/bootstrap", level: 2},
		{path: "apis/builtin", level: 2, beside: []string{"apis/custom", "apis/bootstrap"}}, // rules of definitions; mandatory objects
		{path: "apis/custom", level: 2},
		{path: "apis/controlplanes", level: 0},
		{path: "apis/history", level: 2},
		{path: "apis/peers", level: 2},
		{path: "controllers/work", level: 0, beside: []string{"simulation"}},
		{path: "controllers", level: 2, beside: []string{"registry/quota", "apis/builtin"}}, // secrets of pods
		{path: "registry/quota", level: 2, beside: []string{"apis/builtin"}},                // resources of pods
		// Storage.
		{path: "registry", level: 1, beside: []string{"storage"}},
		{path: "storage", level: 1},
		{path: "loopback", level: 1},
		// Contracts and tools.
		{path: "rest", level: 0, beside: []string{"codec", "request"}},
		{path: "telemetry", level: 0, beside: []string{"request"}},
		{path: "codec", level: 0},
		{path: "limits", level: 0},
		{path: "request", level: 0},
		{path: "authorizer", level: 0, beside: []string{"request"}},
		{path: "egress", level: 0, beside: []string{"feature", "request", "rest", "telemetry"}}, // requests to kubelets; trace contexts
		{path: "cel", level: 0, beside: []string{"codec", "authorizer", "request"}},             // quantities; authorization expressions
		{path: "feature", level: 0},
		{path: "flags", level: 0},
		{path: "simulation", level: 0},
	}
}

// find returns the layer of a package.
func find(layers []layer, pkg string) (layer, bool) {
	i := slices.IndexFunc(layers, func(l layer) bool { return inside(pkg, l.path) })
	if i < 0 {
		return layer{}, false
	}
	return layers[i], true
}

func inside(pkg, path string) bool { return pkg == path || strings.HasPrefix(pkg, path+"/") }

// mayImport reports whether a package of one layer may import a package of another.
func mayImport(from, to layer) bool {
	return from.path == to.path || to.level < from.level || slices.Contains(from.beside, to.path) || inside(to.path, from.path)
}

// TestLayers checks the imports of all packages.
func TestLayers(t *testing.T) {
	t.Parallel()
	all := layers()
	for _, p := range ours(t) {
		from, ok := find(all, p.path())
		if !ok {
			t.Errorf("%s has no layer: add it to layers", p.path())
			continue
		}
		for _, imported := range p.Imports {
			path := modulePath(imported)
			if path == "" {
				continue
			}
			if to, ok := find(all, path); ok && !mayImport(from, to) {
				t.Errorf("%s (level %d) imports %s (level %d): a package imports lower levels, and the packages in layer.beside", p.path(), from.level, path, to.level)
			}
		}
	}
}

// TestLayersExist checks that each layer has a package.
func TestLayersExist(t *testing.T) {
	t.Parallel()
	all := ours(t)
	for _, l := range layers() {
		if !slices.ContainsFunc(all, func(p listed) bool { return inside(p.path(), l.path) }) {
			t.Errorf("layers has %s, but there is no such package", l.path)
		}
	}
}

func TestMayImport(t *testing.T) {
	t.Parallel()
	tests := []struct {
		from, to string
		want     bool
	}{
		{"endpoints", "rest", true},
		{"endpoints", "admission", true},
		{"admission/plugin", "endpoints", false},
		{"storage", "registry", false},
		{"registry", "storage/kv", true},
		{"rest", "codec", true},
		{"codec", "rest", false},
		{"filters/authn", "request", true},
		{"filters", "endpoints/route", false},
		{"filters", "filters/authz", true},
		{"host", "filters", true},
		{"host", "controlplane", true},
		{"controlplane", "host", false},
		{"endpoints", "host", false},
	}
	all := layers()
	for _, tt := range tests {
		from, okFrom := find(all, tt.from)
		to, okTo := find(all, tt.to)
		if !okFrom || !okTo {
			t.Fatalf("%s or %s has no layer", tt.from, tt.to)
		}
		if got := mayImport(from, to); got != tt.want {
			t.Errorf("mayImport(%s, %s) = %t, want %t", tt.from, tt.to, got, tt.want)
		}
	}
}

// banned returns the reason why the server must not link a package, or "". It bans the modules whose server
// code Mainstay replaces, but allows their packages of API types.
func banned(path string) (reason string) {
	for prefix, reason := range map[string]string{
		"k8s.io/apiserver":               "this module replaces the server library",
		"k8s.io/kubernetes":              "this module replaces the server",
		"k8s.io/sample-apiserver":        "it consists of k8s.io/apiserver",
		"k8s.io/apiextensions-apiserver": "custom resources are served by apis/custom",
		"k8s.io/kube-aggregator":         "APIServices are served by apis/aggregated",
	} {
		if inside(path, prefix) && !inside(path, prefix+"/pkg/apis") {
			return reason
		}
	}
	return ""
}

func TestBannedPackages(t *testing.T) {
	t.Parallel()
	binary, ok := packages(t)[module+"/cmd/mainstay"]
	if !ok {
		t.Fatal("there is no cmd/mainstay")
	}
	for _, path := range binary.Deps {
		if reason := banned(path); reason != "" {
			t.Errorf("mainstay depends on %s: %s", path, reason)
		}
	}
	for path, want := range map[string]bool{
		"k8s.io/apiserver/pkg/server":                              true,
		"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1": false,
		"k8s.io/apiextensions-apiserver/pkg/apiserver":             true,
		"k8s.io/apimachinery/pkg/runtime":                          false,
	} {
		if got := banned(path) != ""; got != want {
			t.Errorf("banned(%s): %t, want %t", path, got, want)
		}
	}
}
