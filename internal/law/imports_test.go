package law

import (
	"slices"
	"strings"
	"testing"
)

// A room is a folder with all below it. Rooms stand on floors, and imports go
// down. Where one room of a floor needs another one of it, beside says so; a
// room may always import what is inside it.
type room struct {
	path   string
	floor  int
	beside []string
}

// rooms is the drawing: what may import what. Above floor 5 are the tests of
// whole servers, which nothing imports.
func rooms() []room {
	return []room{
		{path: "test", floor: 6},
		{path: "internal", floor: 6},
		// Wiring.
		{path: "cmd", floor: 5, beside: []string{"server", "controlplane", "apitest"}},
		{path: "server", floor: 5, beside: []string{"controlplane"}},
		{path: "apitest", floor: 5, beside: []string{"server", "controlplane"}},
		{path: "controlplane", floor: 5},
		// HTTP in front.
		{path: "filters", floor: 4},
		{path: "route", floor: 4},
		{path: "discovery", floor: 4, beside: []string{"route"}},
		// One request.
		{path: "endpoints", floor: 3, beside: []string{"admission"}},
		{path: "admission", floor: 3},
		// Who answers.
		{path: "apis/aggregated", floor: 2},
		{path: "apis/bootstrap", floor: 2},
		{path: "apis/builtin", floor: 2, beside: []string{"apis/custom", "apis/bootstrap"}}, // the rules of definitions; what is mandatory
		{path: "apis/custom", floor: 2},
		{path: "apis/peers", floor: 2},
		// What keeps objects as they should be.
		{path: "controllers", floor: 2, beside: []string{"quota", "apis/builtin"}}, // the secrets of pods
		// Whose turn it is.
		{path: "flowcontrol", floor: 2},
		// What quotas limit.
		{path: "quota", floor: 2, beside: []string{"apis/builtin"}}, // the sums of pods
		// Keeping.
		{path: "registry", floor: 1, beside: []string{"storage"}},
		{path: "storage", floor: 1},
		// Code inside the server that acts as a client.
		{path: "local", floor: 1},
		// Words and tools.
		{path: "rest", floor: 0, beside: []string{"codec", "request"}},
		{path: "telemetry", floor: 0, beside: []string{"request"}},
		{path: "codec", floor: 0},
		{path: "memory", floor: 0},
		{path: "request", floor: 0, beside: []string{"processor"}}, // the request's turn
		{path: "processor", floor: 0},
		{path: "authorizer", floor: 0, beside: []string{"request"}},
		{path: "audit", floor: 0, beside: []string{"authorizer", "egress"}},
		{path: "egress", floor: 0},
		{path: "proxy", floor: 0, beside: []string{"request"}},
		{path: "kubelet", floor: 0, beside: []string{"feature", "proxy", "request", "rest"}},
		{path: "http2", floor: 0},
		{path: "webhook", floor: 0, beside: []string{"egress"}},
		{path: "cel", floor: 0, beside: []string{"codec", "authorizer", "request"}}, // its limits of quantities; what expressions ask
		{path: "feature", floor: 0},
		{path: "openapi", floor: 0, beside: []string{"codec"}}, // its reader of JSON
		{path: "pki", floor: 0},
		{path: "serviceaccount", floor: 0, beside: []string{"egress"}},
		{path: "simulation", floor: 0},
	}
}

// find returns the room that a package is in.
func find(rooms []room, pkg string) (room, bool) {
	i := slices.IndexFunc(rooms, func(r room) bool { return inside(pkg, r.path) })
	if i < 0 {
		return room{}, false
	}
	return rooms[i], true
}

func inside(pkg, path string) bool { return pkg == path || strings.HasPrefix(pkg, path+"/") }

// mayImport says whether the drawing lets from import to.
func mayImport(from, to room) bool {
	return from.path == to.path || to.floor < from.floor || slices.Contains(from.beside, to.path)
}

func TestImportDirections(t *testing.T) {
	t.Parallel()
	drawing := rooms()
	for _, p := range ours(t) {
		from, ok := find(drawing, p.room())
		if !ok {
			t.Errorf("%s is in no room of the drawing; give it a place in rooms", p.room())
			continue
		}
		for _, path := range p.Imports {
			pkg := roomOf(path)
			if pkg == "" {
				continue
			}
			if to, ok := find(drawing, pkg); ok && !mayImport(from, to) {
				t.Errorf("%s (floor %d) imports %s (floor %d); imports go down, and beside only as written in rooms", p.room(), from.floor, pkg, to.floor)
			}
		}
	}
}

// TestRoomsExist: a room that is gone, or not built yet, is not in the drawing.
func TestRoomsExist(t *testing.T) {
	t.Parallel()
	all := ours(t)
	for _, r := range rooms() {
		if !slices.ContainsFunc(all, func(p listed) bool { return inside(p.room(), r.path) }) {
			t.Errorf("%s is in the drawing, but there is no such package", r.path)
		}
	}
}

// TestLawBites makes sure that the rules above refuse what they should.
func TestLawBites(t *testing.T) {
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
		{"filters", "route", false},
		{"filters", "filters/authz", true},
		{"server", "filters", true},
		{"server", "controlplane", true},
		{"controlplane", "server", false},
		{"endpoints", "server", false},
	}
	drawing := rooms()
	for _, tt := range tests {
		from, okFrom := find(drawing, tt.from)
		to, okTo := find(drawing, tt.to)
		if !okFrom || !okTo {
			t.Fatalf("%s or %s is in no room", tt.from, tt.to)
		}
		if got := mayImport(from, to); got != tt.want {
			t.Errorf("may %s import %s: %t, want %t", tt.from, tt.to, got, tt.want)
		}
	}
}

// banned are modules whose server code this project replaces. Their packages of
// plain API types are welcome.
func banned(path string) (reason string) {
	for prefix, reason := range map[string]string{
		"k8s.io/apiserver":               "it is the server library that this module stands in for",
		"k8s.io/kubernetes":              "it is the server that this module stands in for",
		"k8s.io/sample-apiserver":        "it is made of k8s.io/apiserver",
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
