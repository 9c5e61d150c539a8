package cluster

import (
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/controlplane"
)

// patience is for a machine that is busy.
const patience = 5 * time.Minute

// TestCluster: whoever runs the controllers that both have, a cluster comes up, survives
// a kill of the server, and goes away, and nothing is done by both.
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
	// everything has those controllers too that kube-controller-manager has off unless they are named.
	everything = "*,bootstrap-signer-controller,token-cleaner-controller"
	// none has no controller: without *, those alone run that are named.
	none = "-garbage-collector-controller"
)

// mode is a way to share the work.
type mode struct {
	name         string
	ours, theirs string // --controllers of the server, and of kube-controller-manager
	// idle: the server's controllers do nothing while kube-controller-manager runs.
	idle bool
}

func (m mode) run(t *testing.T) {
	s := newSite(t, m.ours)
	manager := s.startControllerManager(m.theirs)
	s.start("kube-scheduler")
	shop := newShop(s)
	from := m.awaitIdle(s, 1)
	t.Logf("until kube-controller-manager had the lease: %s", s.writes(0))

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

// awaitIdle waits until the server knows, for the n-th time, that kube-controller-manager
// runs, and returns how much has been audited. Where it has no controllers, it does not look.
func (m mode) awaitIdle(s *site, n int) (from int64) {
	s.t.Helper()
	if m.ours != none {
		s.awaitLog("a kube-controller-manager runs", n)
	}
	return s.auditSize()
}

// check judges what was written.
func (m mode) check(t *testing.T, when string, w writes) {
	t.Helper()
	t.Logf("%s: %s", when, w)
	if m.idle {
		// Admission has an account created for a pod that is there before it.
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
