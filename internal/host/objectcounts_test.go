package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

// TestObjectCounts checks that the metrics contain the numbers of stored objects, and that the numbers are
// refreshed only once per interval.
func TestObjectCounts(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]Config{"embedded": {}, "etcd": etcdConfig(etcdtest.Start(t, etcdtest.Options{}))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := withoutControllers(config)
			config.ControlPlane.Storage.ObjectCountInterval = time.Hour
			s := start(t, config)
			for _, w := range effects()[0].writes { // the definition of widgets
				if code, body := s.do(t, w.method, w.path, w.body); code != 201 {
					t.Fatalf("unexpected response: %d %s", code, body)
				}
			}
			const widgets = "/apis/a.example.com/v1/namespaces/default/widgets"
			for path, body := range map[string]string{
				configMaps: `{"metadata":{"name":"a"}}`, widgets: `{"apiVersion":"a.example.com/v1","kind":"Widget","metadata":{"name":"a"}}`,
			} {
				if code, body := s.do(t, "POST", path, body); code != 201 {
					t.Fatalf("unexpected response: %d %s", code, body)
				}
			}
			check := func() error {
				_, metrics := fetch(t, s.admin, s.URL+"/metrics")
				for _, line := range []string{
					`apiserver_storage_objects{resource="namespaces"} 4`, `apiserver_storage_objects{resource="widgets.a.example.com"} 1`,
					`apiserver_resource_objects{group="a.example.com",resource="widgets"} 1`, `apiserver_resource_objects{group="",resource="secrets"} 0`,
					`apiserver_storage_objects{resource="customresourcedefinitions.apiextensions.k8s.io"} 1`,
				} {
					if !strings.Contains(metrics, line+"\n") {
						return fmt.Errorf("the metrics do not contain %s", line)
					}
				}
				return nil
			}
			testserver.Eventually(t, time.Minute, check) // counting starts with the first request
			if code, body := s.do(t, "DELETE", widgets+"/a", ""); code != 200 {
				t.Fatalf("unexpected response: %d %s", code, body)
			}
			if err := check(); err != nil {
				t.Error(err)
			}
		})
	}
	off := Config{}
	off.ControlPlane.Storage.ObjectCountInterval = -1
	s := start(t, off)
	if _, metrics := fetch(t, s.admin, s.URL+"/metrics"); strings.Contains(metrics, "apiserver_storage_objects") {
		t.Error("the metrics exist although they are disabled")
	}
}
