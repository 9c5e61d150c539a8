package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/feature"
)

func TestFeatures(t *testing.T) {
	t.Parallel()
	known := 0
	for range feature.Known() {
		known++
	}
	var table, document, stderr bytes.Buffer
	if code := run([]string{"features"}, &table, &stderr, process{}); code != exitOK {
		t.Fatal(code, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(table.String()), "\n")
	if len(lines) != known+1 {
		t.Errorf("%d lines for %d gates", len(lines), known)
	}
	rows := map[string]string{}
	for _, line := range lines {
		name, rest, _ := strings.Cut(line, " ")
		rows[name] = strings.Join(strings.Fields(rest), " ")
	}
	for name, want := range map[string]string{
		"NAME":            "STAGE DEFAULT CHANGES",
		"WatchList":       "BETA true -",
		"JobManagedBy":    "GA true (locked) -",
		"GenericWorkload": "BETA false Workloads and PodGroups are served, pods may name their group",
	} {
		if rows[name] != want {
			t.Errorf("%s: %q, want %q", name, rows[name], want)
		}
	}
	if code := run([]string{"features", "-o", "json"}, &document, &stderr, process{}); code != exitOK {
		t.Fatal(code, stderr.String())
	}
	var gates []struct {
		Name, Stage, Changes string
		Default, Locked      bool
		Needs                []string
	}
	if err := json.Unmarshal(document.Bytes(), &gates); err != nil || len(gates) != known {
		t.Fatalf("%d gates, %v", len(gates), err)
	}
	for _, gate := range gates {
		if gate.Name == "ClusterTrustBundleProjection" && (gate.Stage != "GA" || !gate.Default || gate.Needs[0] != "ClusterTrustBundle") {
			t.Errorf("feature gate %+v, want GA, on by default, and dependent on ClusterTrustBundle", gate)
		}
	}
	if code := run([]string{"features", "-o", "xml"}, &document, &stderr, process{}); code != exitUsage || !strings.Contains(stderr.String(), `--output is "xml"; it must be json`) {
		t.Errorf("another format: %d, %s", code, stderr.String())
	}
}
