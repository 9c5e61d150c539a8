package host

import (
	"fmt"
	"strings"
	"testing"
)

// TestDeleteCollectionWorkers deletes a collection with several concurrent workers, while a quota applies to
// the objects.
func TestDeleteCollectionWorkers(t *testing.T) {
	t.Parallel()
	var config Config
	config.ControlPlane.Storage.DeleteCollectionWorkers = 8
	r := start(t, config)
	const collection = "/api/v1/namespaces/default/configmaps"
	if code, body := r.do(t, "POST", "/api/v1/namespaces/default/resourcequotas", `{"metadata":{"name":"q"},"spec":{"hard":{"configmaps":"100"}}}`); code != 201 {
		t.Fatalf("create the quota: %d %s", code, body)
	}
	for i := range 40 {
		if code, body := r.do(t, "POST", collection, fmt.Sprintf(`{"metadata":{"name":"c%d","labels":{"a":"b"}}}`, i)); code != 201 {
			t.Fatalf("create the ConfigMap c%d: %d %s", i, code, body)
		}
	}
	if code, body := r.do(t, "DELETE", collection+"?labelSelector=a%3Db", ""); code != 200 || strings.Count(body, `"name":"c`) != 40 {
		t.Errorf("delete: %d %.200s", code, body)
	}
	if code, body := r.do(t, "GET", collection+"?labelSelector=a%3Db", ""); code != 200 || strings.Contains(body, `"name":"c`) {
		t.Errorf("remaining objects: %d %.200s", code, body)
	}
}
