package controlplane

import (
	"testing"

	"mainstay.dev/mainstay/internal/host/pki"
)

func TestMerged(t *testing.T) {
	t.Parallel()
	one, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	two, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]string{"names": `["a","b"]`, "certs": "nonsense\n" + string(one.Bundle()), "obsolete": "x"}
	got := mergeData(there, map[string]string{"names": `["b","c"]`, "certs": string(two.Bundle()) + string(one.Bundle())})
	if got["names"] != `["a","b","c"]` || got["certs"] != string(one.Bundle())+string(two.Bundle()) || len(got) != 2 {
		t.Errorf("merged data %v", got)
	}
	if got := mergeData(map[string]string{"names": "nonsense"}, map[string]string{"names": `["c"]`}); got["names"] != `["c"]` {
		t.Errorf("data merged with invalid names: %v", got)
	}
}
