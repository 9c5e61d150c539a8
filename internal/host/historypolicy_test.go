package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/storage/archive"
)

// TestHistoryPolicyFile checks that rules in --history-resources override rules in the policy file, which
// override the defaults.
func TestHistoryPolicyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	policy := "apiVersion: history.mainstay.dev/v1\nkind: HistoryPolicy\nrules:\n- {resources: [nodes, events, deployments.apps], maxAge: 2h, maxVersions: 10}\n- {resources: [pods], maxAge: 3h}\n"
	if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	var c HistoryConfig
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.addFlags(fs)
	if err := fs.Parse([]string{"--history-resources=nodes=1h", "--history-policy-file=" + path}); err != nil {
		t.Fatal(err)
	}
	got := c.policy().Resources
	for key, want := range map[string]archive.Rule{
		"minions": {MaxAge: time.Hour}, "events": {MaxAge: 2 * time.Hour, MaxVersions: 10}, "deployments": {MaxAge: 2 * time.Hour, MaxVersions: 10},
		"pods": {MaxAge: 3 * time.Hour}, "leases": {MaxAge: 15 * time.Minute},
	} {
		if got[key] != want {
			t.Errorf("%s: %+v, want %+v", key, got[key], want)
		}
	}
}

func TestParseHistoryPolicy(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: history.mainstay.dev/v1\nkind: HistoryPolicy\n"
	got, err := parseHistoryPolicy([]byte(head + "rules: [{resources: [a.b], maxAge: 1h}]"))
	want := map[schema.GroupResource]archive.Rule{{Group: "b", Resource: "a"}: {MaxAge: time.Hour}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v: got (+), want (-):\n%s", err, diff)
	}
	for text, want := range map[string]string{
		"": "the apiVersion must be", "kind: X": "the apiVersion must be", "[": "yaml",
		head + "rule: []":                                                            `unknown field "rule"`,
		head + "rules: [{maxAge: 1h}]":                                               "rules[0]: resources are required",
		head + "rules: [{resources: [a]}]":                                           "rules[0]: maxAge is required",
		head + "rules: [{resources: [a], maxAge: -1h}]":                              "rules[0]: maxAge is required",
		head + "rules: [{resources: [a], maxAge: x}]":                                "invalid duration",
		head + "rules: [{resources: [a], maxAge: 1h, maxVersions: -1}]":              "cannot be negative",
		head + "rules: [{resources: [a], maxAge: 1h}, {resources: [a], maxAge: 2h}]": "rules[1]: a has another rule",
		head + "rules: [{resources: [\"\"], maxAge: 1h}]":                            "rules[0]: a resource has no name",
	} {
		if _, err := parseHistoryPolicy([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
