package cluster

import (
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/controlplane"
)

// timeout is long enough for a busy machine.
const timeout = 5 * time.Minute

// TestCluster starts a cluster, kills the server, and deletes all objects. It repeats this for each division of
// the controllers between the two programs, and checks that no controller writes in both programs.
func TestCluster(t *testing.T) {
	t.Parallel()
	names := controlplane.Controllers()
	for _, m := range []mode{
		{name: "all on in both", ours: "*", theirs: everything, idle: true},
		{name: "the server's off", ours: none, theirs: everything, idle: true},
		{name: "the other's off", ours: "*," + strings.Join(names, ","), theirs: "*,-" + strings.Join(names, ",-")},
	} {
		t.Run(m.name, m.run)
	}
}

const (
	// everything also enables the controllers of kube-controller-manager that are disabled by
	// default.
	everything = "*,bootstrap-signer-controller,token-cleaner-controller"
	// none enables no controllers: without *, only the named controllers run.
	none = "-garbage-collector-controller"
)

// mode is a division of the controllers between the server and kube-controller-manager.
type mode struct {
	name         string
	ours, theirs string // --controllers of the server, and of kube-controller-manager
	// idle reports whether the server's controllers do nothing while kube-controller-manager runs.
	idle bool
}

func (m mode) run(t *testing.T) {
	s := newSite(t, m.ours)
	manager := s.startControllerManager(m.theirs)
	s.start("kube-scheduler")
	shop := newWorkload(s)
	from := m.awaitIdle(s, 1)
	t.Logf("before kube-controller-manager acquired the lease: %s", s.writes(0))

	shop.open()
	m.check(t, "before the kill", s.writes(from))
	s.server.Kill()
	if err := s.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	from = m.awaitIdle(s, 2)
	shop.scale(8)
	shop.close()
	m.check(t, "after it", s.writes(from))

	manager.stop()
	if m.ours != none {
		shop.takenBack()
	}
}

// awaitIdle waits until the server has logged n times that a kube-controller-manager runs, and returns the size
// of the audit log. It does not wait for a server without controllers, which does not log this.
func (m mode) awaitIdle(s *site, n int) (from int64) {
	s.t.Helper()
	if m.ours != none {
		s.awaitLog("a kube-controller-manager runs", n)
	}
	return s.auditSize()
}

// check fails the test if the wrong program has made writes.
func (m mode) check(t *testing.T, when string, w writes) {
	t.Helper()
	t.Logf("%s: %s", when, w)
	if m.idle {
		// If a pod is created before the service account exists, admission requests its creation.
		delete(w.ours, "create core/serviceaccounts/shop/default/ by service-account-controller")
		if len(w.ours) > 0 {
			t.Errorf("%s the server's controllers wrote %v", when, w.ours)
		}
	} else if len(w.ours) == 0 {
		t.Errorf("%s the server's controllers wrote nothing", when)
	}
	if both := w.both(); len(both) > 0 {
		t.Errorf("%s both wrote %v", when, both)
	}
}
