package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

// TestEtcdWithoutSpace checks that while a member of etcd is out of space, all servers report this state, and
// reads and deletions succeed. Once there is space, writes succeed again without a restart. The defragmentation
// of a member does not cause an outage.
func TestEtcdWithoutSpace(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 3, SlowElections: true})
	servers := []*running{start(t, withoutControllers(etcdConfig(c))), start(t, withoutControllers(etcdConfig(c)))}
	create := func(s *running, name string) (int, string) {
		return s.do(t, "POST", configMaps, `{"metadata":{"name":"`+name+`"}}`)
	}
	if code, body := create(servers[0], "before"); code != 201 {
		t.Fatalf("unexpected response: %d %s", code, body)
	}
	full := c.Members[1]
	if err := full.RaiseNoSpace(); err != nil {
		t.Fatal(err)
	}
	for i, s := range servers {
		testserver.Eventually(t, time.Minute, func() error {
			code, body := create(s, fmt.Sprint("while-full-", i, "-", time.Now().UnixNano()))
			if code != 507 || !strings.Contains(body, `"kind":"Status"`) {
				return fmt.Errorf("a write without space: %d %s", code, body)
			}
			return nil
		})
		testserver.Eventually(t, time.Minute, func() error {
			code, body := s.do(t, "GET", "/readyz/etcd-readiness", "")
			if code != 500 || !strings.Contains(body, "compact, defragment, and disarm the alarm") {
				return fmt.Errorf("readiness without space: %d %s", code, body)
			}
			return nil
		})
		for _, read := range []string{configMaps, configMaps + "/before", "/livez"} {
			s.awaitCode(t, read, 200) // etcd may hold an election on a loaded machine
		}
	}
	repeated := false // a request that returned an error might have deleted the object
	testserver.Eventually(t, time.Minute, func() error {
		if code, body := servers[1].do(t, "DELETE", configMaps+"/before", ""); code != 200 && (code != 404 || !repeated) {
			repeated = true
			return fmt.Errorf("a deletion without space: %d %s", code, body)
		}
		return nil
	})
	for _, m := range c.Members {
		if err := m.Defragment(); err != nil {
			t.Error(err)
		}
	}
	if err := full.ClearNoSpace(); err != nil {
		t.Fatal(err)
	}
	for i, s := range servers {
		s.awaitCode(t, "/readyz", 200)
		repeated := false
		testserver.Eventually(t, time.Minute, func() error {
			if code, body := create(s, fmt.Sprint("after-", i)); code != 201 && (code != 409 || !repeated) {
				repeated = true
				return fmt.Errorf("a write after there is space again: %d %s", code, body)
			}
			return nil
		})
	}
}
