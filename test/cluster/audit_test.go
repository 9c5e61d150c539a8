package cluster

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"mainstay.dev/mainstay/internal/filters/audit"
)

// writes counts the writes by the controllers of the server (ours) and of kube-controller-manager (theirs),
// keyed by verb, object and controller. Rejected writes are included.
type writes struct{ ours, theirs map[string]int }

// both returns the writes that the same controller made in both programs.
func (w writes) both() []string {
	var both []string
	for what := range w.ours {
		if w.theirs[what] > 0 {
			both = append(both, what)
		}
	}
	slices.Sort(both)
	return both
}

func (w writes) String() string {
	count := func(of map[string]int) (n int) {
		for times := range maps.Values(of) {
			n += times
		}
		return n
	}
	return fmt.Sprintf("the server's controllers wrote %d times, kube-controller-manager %d; both did the same %d times", count(w.ours), count(w.theirs), len(w.both()))
}

// auditSize returns the size of the audit log, in bytes.
func (s *site) auditSize() int64 {
	s.t.Helper()
	info, err := os.Stat(s.auditLog())
	if err != nil {
		s.t.Fatal(err)
	}
	return info.Size()
}

// writes counts the writes in the audit log that follow the offset from, in bytes.
func (s *site) writes(from int64) writes {
	s.t.Helper()
	log, err := os.Open(s.auditLog())
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Seek(from, io.SeekStart); err != nil {
		s.t.Fatal(err)
	}
	w := writes{ours: map[string]int{}, theirs: map[string]int{}}
	for lines := bufio.NewReader(log); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return w // an incomplete line is still being written, or the server was killed
		}
		var event audit.Event
		if err := json.Unmarshal(line, &event); err != nil {
			s.t.Fatalf("read the audit log: %v", err)
		}
		w.add(&event)
	}
}

// add counts an audit event if it is a write by a controller.
func (w writes) add(event *audit.Event) {
	object := event.ObjectRef
	switch {
	case object == nil, object.Resource == "leases", object.Resource == "events", !slices.Contains([]string{"create", "update", "patch", "delete"}, event.Verb):
		return
	}
	controller, ok := strings.CutPrefix(event.User.Username, "system:serviceaccount:kube-system:")
	if !ok {
		return
	}
	path := strings.Join([]string{cmp.Or(object.APIGroup, "core"), object.Resource, object.Namespace, object.Name, object.Subresource}, "/")
	what := fmt.Sprintf("%s %s by %s", event.Verb, path, controller)
	switch agent, _, _ := strings.Cut(event.UserAgent, "/"); agent {
	case "mainstay":
		w.ours[what]++
	case "kube-controller-manager":
		w.theirs[what]++
	}
}
