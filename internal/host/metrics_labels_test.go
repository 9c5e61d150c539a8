package host

import (
	"strings"
	"testing"
)

// TestMetricLabels checks that the paths of clients become labels of metrics only if the server always serves
// these paths. Otherwise, clients without credentials could create any number of series.
func TestMetricLabels(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	known := []string{"/api", "/api/v1", "/apis", "/apis/", "/apis/apps", "/apis/apps/v1", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1", "/openapi/v3/version", "/version", "/livez"}
	unknown := []string{"/apis/x1", "/apis/x2/v1", "/apis/apps/v9", "/api/v9", "/api/v1//", "/apis//", "/openapi/x3", "/openapi/v3/x4", "/openapi/v3/openapi/v3/api", "/openapi/v3x", "/openapi/v3x/api", "/x5"}
	anyone := client(t, nil)
	for _, path := range append(known, unknown...) {
		fetch(t, anyone, s.URL+path)
	}
	_, metrics := fetch(t, s.admin, s.URL+"/metrics")
	for _, path := range known {
		if !strings.Contains(metrics, `subresource="`+path+`"`) {
			t.Errorf("there is no metric for %s", path)
		}
	}
	for _, path := range unknown {
		if strings.Contains(metrics, `"`+path+`"`) {
			t.Errorf("%s is a label of a metric", path)
		}
	}
}
