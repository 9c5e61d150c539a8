package cluster

import (
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/controlplane"
)

// patience is for a machine that is busy.
const patience = 5 * time.Minute

// both are the controllers that kube-controller-manager has off unless it is told.
const both = "*,bootstrap-signer-controller,token-cleaner-controller"

// TestCluster: whoever runs the controllers that both have, a cluster comes up, survives
// a kill of the server, and goes away.
func TestCluster(t *testing.T) {
	t.Parallel()
	var named, without []string
	for _, name := range controlplane.Controllers() {
		named, without = append(named, name), append(without, "-"+name)
	}
	for _, tt := range []struct {
		name         string
		ours, theirs string // --controllers of each
		check        func(*testing.T, writes)
	}{
		{"all on in both", "*", both, func(t *testing.T, w writes) {
			if len(w.ours) > 0 {
				t.Errorf("the server's controllers wrote while kube-controller-manager ran: %v", w.ours)
			}
		}},
		{"the server's off", "-" + named[0], both, func(t *testing.T, w writes) {
			if len(w.ours) > 0 {
				t.Errorf("the server's controllers wrote: %v", w.ours)
			}
		}},
		{"the other's off", "*," + strings.Join(named, ","), "*," + strings.Join(without, ","), func(t *testing.T, w writes) {
			if len(w.ours) == 0 {
				t.Error("the server's controllers wrote nothing")
			}
			if both := w.both(); len(both) > 0 {
				t.Errorf("both wrote %v", both)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, tt.ours)
			manager := s.startControllerManager(tt.theirs)
			s.start("kube-scheduler")
			s.awaitLog("a kube-controller-manager runs", 1)
			shop := newShop(s)
			from := s.auditSize()
			shop.open()
			before := s.writes(from)
			tt.check(t, before)
			s.server.Kill()
			if err := s.server.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			shop.scale(8)
			shop.close()
			t.Logf("before the kill, %s; in all, %s", before, s.writes(0))
			manager.stop()
		})
	}
}
