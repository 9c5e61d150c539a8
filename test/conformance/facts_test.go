package conformance

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"

	"mainstay.dev/mainstay/test/testserver"
)

// TestDiscovery compares both forms of discovery with the table of served resources. testdata/facts/absent.tsv
// lists the resources that are omitted on purpose, with the reason.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	compareDiscovery(t, defaultFacts(t))
}

func defaultFacts(t *testing.T) []Fact {
	t.Helper()
	facts, err := ReadFacts("testdata/facts/resources.tsv", "testdata/facts/subresources.tsv")
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

// compareDiscovery compares the discovery documents of a server with the given flags with the facts.
func compareDiscovery(t *testing.T, facts []Fact, flags ...string) {
	t.Helper()
	absent := map[string]string{}
	if err := eachRow("testdata/facts/absent.tsv", 2, func(r []string) { absent[r[0]] = r[1] }); err != nil {
		t.Fatal(err)
	}
	srv := testserver.New(t, testserver.Options{Flags: flags})
	for name, legacy := range map[string]bool{"aggregated": false, "legacy": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := discovery.NewDiscoveryClientForConfigOrDie(srv.RESTConfig())
			client.UseLegacyDiscovery = legacy
			_, lists, err := client.ServerGroupsAndResources()
			// Groups of unavailable aggregated servers are ignored.
			var partial *discovery.ErrGroupDiscoveryFailed
			if err != nil && !errors.As(err, &partial) {
				t.Fatal(err)
			}
			compareFacts(t, facts, FactsOf(lists), absent, legacy)
		})
	}
}

func compareFacts(t *testing.T, facts []Fact, served map[string]Fact, absent map[string]string, withHash bool) {
	t.Helper()
	unknown := maps.Clone(served)
	maps.DeleteFunc(unknown, func(key string, _ Fact) bool { return strings.Contains("."+key, ".mainstay.dev/") }) // APIs of Mainstay only
	for _, fact := range facts {
		got, ok := served[fact.Key()]
		delete(unknown, fact.Key())
		reason, listed := absent[fact.Key()]
		switch {
		case !ok && !listed:
			t.Errorf("%s is not served", fact.Key())
		case ok && listed:
			t.Errorf("%s is served, but listed as absent (%s)", fact.Key(), reason)
		case ok:
			for _, difference := range fact.Differences(got, withHash) {
				t.Error(difference)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(unknown)) {
		t.Errorf("%s is served, but not listed in any table", key)
	}
}
